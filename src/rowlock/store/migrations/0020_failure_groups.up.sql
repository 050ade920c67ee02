-- Four things for pages that people look at. Counts by ten minutes, so that a chart of a day reads 144 steps instead of
-- 1,440, and a sum over a day reads hours. Failure groups: failures of the same cause, with their counts and a sample, written only by
-- failures. Searches that people keep, and versions of the application. Online: new tables, functions and views; the counts of the last day are copied while the
-- duty that moves counts leaves (it only tries the lock), which takes about a second for a million rows.
-- For code made for version 2 or later.
CREATE TABLE {schema}.counts_by_ten_minutes (
  since timestamptz, kind text, lane text, tenant text, outcome text, state text, measure text, bucket smallint,
  n bigint NOT NULL, seconds double precision NOT NULL,
  PRIMARY KEY (since, kind, lane, tenant, outcome, state, measure, bucket))
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
-- The lock of counts_fold: nothing is moved between this copy and the new body of the function.
SELECT pg_advisory_xact_lock(hashtextextended('{schema}.counts', 0));
INSERT INTO {schema}.counts_by_ten_minutes (since, kind, lane, tenant, outcome, state, measure, bucket, n, seconds)
SELECT date_bin('10 min', c.since, timestamptz 'epoch'), c.kind, c.lane, c.tenant, c.outcome, c.state, c.measure, c.bucket, sum(c.n), sum(c.seconds)
FROM {schema}.counts_by_minute c GROUP BY 1, 2, 3, 4, 5, 6, 7, 8;

-- One row per statement that wrote failures, and per group; as count_increments. ended: the job failed for good.
CREATE TABLE {schema}.failure_increments (
  at timestamptz NOT NULL DEFAULT now(), job_id bigint NOT NULL, n integer NOT NULL, ended boolean NOT NULL,
  fingerprint text NOT NULL, kind text NOT NULL, tenant text NOT NULL)
  WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE {schema}.failure_increments REPLICA IDENTITY FULL;
-- tenant: '' for none; a group has a row per tenant, so that each tenant reads its own samples only. error: a sample.
CREATE TABLE {schema}.failure_groups (
  fingerprint text, tenant text, kind text NOT NULL,
  first_seen timestamptz NOT NULL, last_seen timestamptz NOT NULL,
  failed bigint NOT NULL DEFAULT 0, retried bigint NOT NULL DEFAULT 0,
  last_job_id bigint, last_failed_id bigint, last_failed_at timestamptz, error jsonb, sampled_at timestamptz,
  muted_at timestamptz, muted_by text, note text,
  PRIMARY KEY (fingerprint, tenant)) WITH (fillfactor = 50);
CREATE INDEX failure_groups_kind ON {schema}.failure_groups (kind);
CREATE TABLE {schema}.failures_by_hour (
  fingerprint text, tenant text, since timestamptz, n bigint NOT NULL, PRIMARY KEY (fingerprint, tenant, since))
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
CREATE INDEX failures_by_hour_since ON {schema}.failures_by_hour (since);

-- Versions of the application, by their first worker: rows of workers are removed a day after they have gone.
CREATE TABLE {schema}.deploys (version text PRIMARY KEY, first_seen timestamptz NOT NULL DEFAULT clock_timestamp());

-- tenant: NULL for people of no tenant. Two people may give their views the same name.
CREATE TABLE {schema}.saved_views (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  owner text NOT NULL, tenant text, name text NOT NULL, query text NOT NULL, columns text[] NOT NULL DEFAULT '{}',
  sort text NOT NULL DEFAULT 'newest', shared boolean NOT NULL DEFAULT false, version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now());
CREATE UNIQUE INDEX saved_views_name ON {schema}.saved_views (owner, coalesce(tenant, ''), name);
CREATE INDEX saved_views_shared ON {schema}.saved_views (coalesce(tenant, '')) WHERE shared;

-- Bodies: store/functions/failures.sql and counts.sql say why they are so.
CREATE FUNCTION {schema}.failure_message(p_message text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT regexp_replace(regexp_replace(regexp_replace(regexp_replace(left(p_message, 500),
    '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}', '<uuid>', 'g'),
    '(^|[^[:alnum:]_])(''[^'']*''|"[^"]*")', '\1<text>', 'g'),
    '\m(?:0x[0-9a-f]+|(?=[a-f]*[0-9])[0-9a-f]{8,})\M', '<hex>', 'gi'),
    '[0-9]+(?:[.,:][0-9]+)*', '<n>', 'g')
$$;

CREATE FUNCTION {schema}.failure_fingerprint(p_kind text, p_error jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT left(encode(sha256(convert_to(concat_ws(E'\x1f', p_kind, coalesce(p_error ->> 'type', p_error ->> 'reason', ''),
    coalesce({schema}.failure_message(p_error ->> 'message'), ''), p_error ->> 'frame'), 'UTF8')), 'hex'), 16)
$$;

CREATE FUNCTION {schema}.failures_fold(p_batch integer, p_groups integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE v_taken {schema}.failure_increments[]; r record;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('{schema}.failures', 0)) THEN RETURN 0; END IF;
  WITH gone AS (
    DELETE FROM {schema}.failure_increments i
     WHERE i.ctid = ANY (ARRAY(SELECT x.ctid FROM {schema}.failure_increments x LIMIT p_batch)) RETURNING i)
  SELECT array_agg(g.i) INTO v_taken FROM gone g;
  IF v_taken IS NULL THEN RETURN 0; END IF;
  FOR r IN
      SELECT t.kind, t.fingerprint, t.tenant, min(t.at) AS at FROM unnest(v_taken) AS t
       WHERE NOT EXISTS (SELECT 1 FROM {schema}.failure_groups g WHERE (g.fingerprint, g.tenant) = (t.fingerprint, t.tenant))
       GROUP BY 1, 2, 3 ORDER BY 4, 1, 2, 3 LOOP
    IF (SELECT count(*) FROM {schema}.failure_groups g WHERE g.kind = r.kind) < p_groups THEN
      INSERT INTO {schema}.failure_groups (fingerprint, tenant, kind, first_seen, last_seen)
      VALUES (r.fingerprint, r.tenant, r.kind, r.at, r.at);
    ELSE
      INSERT INTO {schema}.failure_groups (fingerprint, tenant, kind, first_seen, last_seen)
      VALUES ({schema}.failure_fingerprint(r.kind, '{"reason": "(other)"}'), '(other)', r.kind, r.at, r.at) ON CONFLICT DO NOTHING;
    END IF;
  END LOOP;
  WITH named AS MATERIALIZED (
    SELECT t.at, t.n, t.ended, t.job_id,
           coalesce(g.fingerprint, {schema}.failure_fingerprint(t.kind, '{"reason": "(other)"}')) AS fingerprint,
           CASE WHEN g.fingerprint IS NULL THEN '(other)' ELSE t.tenant END AS tenant
      FROM unnest(v_taken) AS t
      LEFT JOIN {schema}.failure_groups g ON (g.fingerprint, g.tenant) = (t.fingerprint, t.tenant)),
  hours AS (
    INSERT INTO {schema}.failures_by_hour AS h (fingerprint, tenant, since, n)
    SELECT d.fingerprint, d.tenant, date_trunc('hour', d.at, 'UTC'), sum(d.n) FROM named d
     GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (fingerprint, tenant, since) DO UPDATE SET n = h.n + excluded.n),
  moved AS MATERIALIZED (
    SELECT d.fingerprint, d.tenant, min(d.at) AS first_seen, max(d.at) AS last_seen,
           coalesce(sum(d.n) FILTER (WHERE d.ended), 0) AS failed, coalesce(sum(d.n) FILTER (WHERE NOT d.ended), 0) AS retried,
           (array_agg(d.job_id ORDER BY d.at DESC, d.job_id DESC))[1] AS job_id,
           (array_agg(d.job_id ORDER BY d.at DESC, d.job_id DESC) FILTER (WHERE d.ended))[1] AS failed_id,
           max(d.at) FILTER (WHERE d.ended) AS failed_at
      FROM named d GROUP BY 1, 2)
  UPDATE {schema}.failure_groups g
     SET first_seen = least(g.first_seen, m.first_seen), last_seen = greatest(g.last_seen, m.last_seen),
         failed = g.failed + m.failed, retried = g.retried + m.retried, last_job_id = m.job_id,
         last_failed_id = coalesce(m.failed_id, g.last_failed_id), last_failed_at = coalesce(m.failed_at, g.last_failed_at),
         error = coalesce(s.error, g.error), sampled_at = CASE WHEN s.error IS NULL THEN g.sampled_at ELSE m.last_seen END
    FROM moved m
    LEFT JOIN LATERAL (
      SELECT x.error FROM (
        SELECT j.errors AS error, j.kind, 2147483647 AS fence FROM {schema}.jobs j WHERE j.id = m.job_id AND j.errors IS NOT NULL
        UNION ALL
        SELECT a.error, j.kind, a.fence FROM {schema}.job_attempts a JOIN {schema}.jobs j ON j.id = a.job_id
         WHERE a.job_id = m.job_id AND a.error IS NOT NULL) AS x
       WHERE {schema}.failure_fingerprint(x.kind, x.error) = m.fingerprint
         AND NOT EXISTS (SELECT 1 FROM {schema}.failure_groups o WHERE (o.fingerprint, o.tenant) = (m.fingerprint, m.tenant)
                            AND o.sampled_at > m.last_seen - interval '1 hour')
       ORDER BY x.fence DESC LIMIT 1) AS s ON true
   WHERE (g.fingerprint, g.tenant) = (m.fingerprint, m.tenant);
  RETURN cardinality(v_taken);
END $$;

CREATE OR REPLACE FUNCTION {schema}.count_job_changes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE v_failed boolean;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM new_jobs n WHERE n.state <> 'running') THEN RETURN NULL; END IF;
  WITH counted AS (
  INSERT INTO {schema}.count_increments (outcome, state, kind, lane, tenant, run_bucket, wait_bucket, n, run_seconds, wait_seconds)
  SELECT CASE WHEN c.outcome <> c.state THEN c.outcome ELSE '' END, c.state, c.kind, c.lane, c.tenant,
         {schema}.count_bucket(c.ran), {schema}.count_bucket(c.waited), count(*), coalesce(sum(c.ran), 0), coalesce(sum(c.waited), 0)
    FROM (
      SELECT CASE WHEN o.state = n.state THEN NULL
                  WHEN o.state = 'running' AND n.claimed_at IS NULL THEN NULL
                  WHEN o.state = 'running' AND n.state = 'completed' THEN n.state
                  WHEN o.state = 'running' THEN
                    coalesce((SELECT a.outcome FROM {schema}.job_attempts a WHERE a.job_id = o.id AND a.fence = o.fence),
                             CASE WHEN n.finished_at IS NULL THEN 'unreadable' ELSE n.state END)
                  WHEN o.finished_at IS NULL AND n.finished_at IS NOT NULL THEN 'unstarted'
                  WHEN o.finished_at IS NOT NULL AND n.finished_at IS NULL THEN 'reopened' END AS outcome,
             CASE WHEN n.finished_at IS NOT NULL THEN n.state ELSE '' END AS state,
             n.kind, coalesce(n.lane, o.lane, '') AS lane, coalesce(n.tenant, '') AS tenant,
             CASE WHEN o.state = 'running' THEN greatest(0, date_part('epoch', now() - n.claimed_at)) END AS ran,
             CASE WHEN o.state = 'running' THEN greatest(0, date_part('epoch', n.claimed_at - o.run_after)) END AS waited
        FROM old_jobs o FULL JOIN new_jobs n ON n.id = o.id OFFSET 0) AS c
   WHERE c.outcome IS NOT NULL
   GROUP BY 1, 2, 3, 4, 5, 6, 7
  RETURNING outcome, state)
  SELECT bool_or(d.state = 'failed' OR d.outcome IN ('failed', 'died', 'lost')) INTO v_failed FROM counted d;
  IF v_failed THEN
    INSERT INTO {schema}.failure_increments (n, ended, job_id, fingerprint, kind, tenant)
    SELECT count(*), f.ended, max(f.id), {schema}.failure_fingerprint(f.kind, f.errors), f.kind, f.tenant
      FROM (
        SELECT CASE WHEN o.state = n.state OR o.finished_at IS NOT NULL THEN false
                    WHEN n.state = 'failed' THEN true
                    WHEN o.state = 'running' AND n.finished_at IS NULL AND n.claimed_at IS NOT NULL THEN
                      (SELECT a.outcome FROM {schema}.job_attempts a WHERE a.job_id = o.id AND a.fence = o.fence)
                        IN ('failed', 'died', 'lost') END AS failed,
               n.state = 'failed' AS ended, n.id, n.kind, coalesce(n.tenant, '') AS tenant, n.errors
          FROM old_jobs o FULL JOIN new_jobs n ON n.id = o.id OFFSET 0) AS f
     WHERE f.failed
     GROUP BY 2, 4, 5, 6;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION {schema}.counts_fold(p_batch integer, p_series integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE v_taken {schema}.count_increments[]; v_series integer; r record;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('{schema}.counts', 0)) THEN RETURN 0; END IF;
  WITH gone AS (
    DELETE FROM {schema}.count_increments i
     WHERE i.ctid = ANY (ARRAY(SELECT x.ctid FROM {schema}.count_increments x LIMIT p_batch)) RETURNING i)
  SELECT array_agg(g.i) INTO v_taken FROM gone g;
  IF v_taken IS NULL THEN RETURN 0; END IF;
  SELECT count(*) INTO v_series FROM {schema}.count_series;
  FOR r IN
      SELECT DISTINCT t.kind, t.lane, t.tenant FROM unnest(v_taken) AS t
       WHERE NOT EXISTS (SELECT 1 FROM {schema}.count_series s WHERE (s.kind, s.lane, s.tenant) = (t.kind, t.lane, t.tenant))
       ORDER BY 1, 2, 3 LOOP
    IF v_series < p_series * 3 / 4 THEN
      INSERT INTO {schema}.count_series (kind, lane, tenant) VALUES (r.kind, r.lane, r.tenant) ON CONFLICT DO NOTHING;
    ELSIF v_series < p_series THEN
      INSERT INTO {schema}.count_series (kind, lane, tenant) VALUES (r.kind, r.lane, '(other)') ON CONFLICT DO NOTHING;
    ELSE
      INSERT INTO {schema}.count_series (kind, lane, tenant) VALUES ('(other)', '(other)', '(other)') ON CONFLICT DO NOTHING;
    END IF;
    IF FOUND THEN v_series := v_series + 1; END IF;
  END LOOP;
  WITH named AS MATERIALIZED (
    SELECT t.at, coalesce(nullif(t.outcome, ''), t.state) AS outcome, t.state, t.n, m.measure, m.bucket, m.seconds,
           CASE WHEN s.kind IS NULL AND o.kind IS NULL THEN '(other)' ELSE t.kind END AS kind,
           CASE WHEN s.kind IS NULL AND o.kind IS NULL THEN '(other)' ELSE t.lane END AS lane,
           CASE WHEN s.kind IS NULL THEN '(other)' ELSE t.tenant END AS tenant
      FROM unnest(v_taken) AS t
      LEFT JOIN {schema}.count_series s ON (s.kind, s.lane, s.tenant) = (t.kind, t.lane, t.tenant)
      LEFT JOIN {schema}.count_series o ON (o.kind, o.lane, o.tenant) = (t.kind, t.lane, '(other)')
     CROSS JOIN LATERAL (VALUES
       (CASE WHEN t.run_bucket IS NULL THEN 'none' ELSE 'run' END, coalesce(t.run_bucket, 0::smallint), t.run_seconds),
       ('wait', t.wait_bucket, t.wait_seconds)) AS m(measure, bucket, seconds)
     WHERE m.bucket IS NOT NULL),
  minutes AS (
    INSERT INTO {schema}.counts_by_minute AS c (since, kind, lane, tenant, outcome, state, measure, bucket, n, seconds)
    SELECT date_trunc('minute', d.at, 'UTC'), d.kind, d.lane, d.tenant, d.outcome, d.state, d.measure, d.bucket, sum(d.n), sum(d.seconds)
      FROM named d GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (since, kind, lane, tenant, outcome, state, measure, bucket)
    DO UPDATE SET n = c.n + excluded.n, seconds = c.seconds + excluded.seconds),
  tens AS (
    INSERT INTO {schema}.counts_by_ten_minutes AS c (since, kind, lane, tenant, outcome, state, measure, bucket, n, seconds)
    SELECT date_bin('10 min', d.at, timestamptz 'epoch'), d.kind, d.lane, d.tenant, d.outcome, d.state, d.measure, d.bucket, sum(d.n), sum(d.seconds)
      FROM named d GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (since, kind, lane, tenant, outcome, state, measure, bucket)
    DO UPDATE SET n = c.n + excluded.n, seconds = c.seconds + excluded.seconds),
  hours AS (
    INSERT INTO {schema}.counts_by_hour AS c (since, kind, lane, tenant, outcome, state, measure, bucket, n, seconds)
    SELECT date_trunc('hour', d.at, 'UTC'), d.kind, d.lane, d.tenant, d.outcome, d.state, d.measure, d.bucket, sum(d.n), sum(d.seconds)
      FROM named d GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (since, kind, lane, tenant, outcome, state, measure, bucket)
    DO UPDATE SET n = c.n + excluded.n, seconds = c.seconds + excluded.seconds)
  INSERT INTO {schema}.count_totals AS c (kind, lane, tenant, outcome, state, measure, bucket, n, seconds, counted_at)
  SELECT d.kind, d.lane, d.tenant, d.outcome, d.state, d.measure, d.bucket, sum(d.n), sum(d.seconds), max(d.at)
    FROM named d GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7
  ON CONFLICT (kind, lane, tenant, outcome, state, measure, bucket)
  DO UPDATE SET n = c.n + excluded.n, seconds = c.seconds + excluded.seconds, counted_at = greatest(c.counted_at, excluded.counted_at);
  RETURN cardinality(v_taken);
END $$;

-- Failures of before, the newest 10,000: so that pages that show what failed last are not empty at first.
INSERT INTO {schema}.failure_increments (at, job_id, n, ended, fingerprint, kind, tenant)
SELECT f.finished_at, f.id, 1, true, {schema}.failure_fingerprint(f.kind, f.errors), f.kind, coalesce(f.tenant, '')
FROM (SELECT j.* FROM {schema}.jobs j WHERE j.state = 'failed' AND j.finished_at < 'infinity' ORDER BY j.finished_at DESC LIMIT 10000) AS f;

-- Every count of a minute, of ten minutes or of an hour, moved or not. A reader chooses one step and a range of since.
CREATE OR REPLACE VIEW {schema}.stats_counts AS
SELECT 'minute' AS step, c.since, c.kind, c.lane, c.tenant, c.outcome, c.state, c.measure, c.bucket, c.n, c.seconds
FROM {schema}.counts_by_minute c
UNION ALL
SELECT 'hour', c.since, c.kind, c.lane, c.tenant, c.outcome, c.state, c.measure, c.bucket, c.n, c.seconds
FROM {schema}.counts_by_hour c
UNION ALL
SELECT 'ten_minutes', c.since, c.kind, c.lane, c.tenant, c.outcome, c.state, c.measure, c.bucket, c.n, c.seconds
FROM {schema}.counts_by_ten_minutes c
UNION ALL
SELECT s.step, date_bin(s.span, i.at, timestamptz 'epoch'), i.kind, i.lane, i.tenant,
       coalesce(nullif(i.outcome, ''), i.state), i.state, m.measure, m.bucket, i.n, m.seconds
FROM {schema}.count_increments i
CROSS JOIN (VALUES ('minute', interval '1 min'), ('ten_minutes', interval '10 min'), ('hour', interval '1 hour')) AS s(step, span)
CROSS JOIN LATERAL (VALUES
  (CASE WHEN i.run_bucket IS NULL THEN 'none' ELSE 'run' END, coalesce(i.run_bucket, 0::smallint), i.run_seconds),
  ('wait', i.wait_bucket, i.wait_seconds)) AS m(measure, bucket, seconds)
WHERE m.bucket IS NOT NULL;

-- Where a window begins, for the views of ends and for throughput, which looks back five minutes unless a window is set.
-- tens, hours: the first ten minutes and the first hour that begin in it.
CREATE VIEW {schema}.stats_windows AS
SELECT b.name, b.since, date_bin('10 min', b.since + interval '599.999999 s', timestamptz 'epoch') AS tens,
       date_trunc('hour', b.since + interval '3599.999999 s', 'UTC') AS hours, b.counted_for
FROM (
  SELECT 'window' AS name, w.since, w.counted_for FROM {schema}.stats_window w
  UNION ALL
  SELECT 'throughput', s.since, clock_timestamp() - greatest(s.since, (SELECT max(c.since) FROM {schema}.counting c))
  FROM {schema}.stats_window x
  CROSS JOIN LATERAL (
    SELECT CASE WHEN nullif(current_setting('rowlock.within', true), '') IS NULL
                THEN date_trunc('minute', clock_timestamp() - interval '5 min', 'UTC') ELSE x.since END AS since OFFSET 0) AS s) AS b OFFSET 0;

-- The jobs that ended since then: by minute up to the first ten minutes, by ten minutes up to the first hour, and by hour
-- from there, so that a day reads 24 hours and not 1,440 minutes. An hour that has not ended is counted so far, so the end
-- of a window needs nothing finer. Ranges everywhere: for one that it cannot know the planner expects few rows, and uses
-- the index. A window without ends has one row of NULLs.
CREATE VIEW {schema}.stats_window_counts AS
SELECT b.name, b.counted_for, e.kind, e.lane, e.tenant, e.state, e.n
FROM {schema}.stats_windows b
LEFT JOIN LATERAL (
  SELECT c.kind, c.lane, c.tenant, c.state, c.n FROM {schema}.counts_by_minute c
  WHERE c.since >= b.since AND c.since < b.tens AND c.measure <> 'wait' AND c.state <> ''
  UNION ALL
  SELECT c.kind, c.lane, c.tenant, c.state, c.n FROM {schema}.counts_by_ten_minutes c
  WHERE c.since >= b.tens AND c.since < b.hours AND c.measure <> 'wait' AND c.state <> ''
  UNION ALL
  SELECT c.kind, c.lane, c.tenant, c.state, c.n FROM {schema}.counts_by_hour c
  WHERE c.since >= b.hours AND c.since < 'infinity' AND c.measure <> 'wait' AND c.state <> ''
  UNION ALL
  SELECT i.kind, i.lane, i.tenant, i.state, i.n::bigint FROM {schema}.count_increments i
  WHERE i.at >= b.since AND i.state <> '') AS e ON true;

CREATE OR REPLACE VIEW {schema}.stats_window_ends AS
SELECT c.kind, c.lane, c.tenant, c.state, c.n FROM {schema}.stats_window_counts c WHERE c.name = 'window' AND c.kind IS NOT NULL;

-- What failed last is in the failure groups, folded or not: a handful of rows per kind.
CREATE OR REPLACE VIEW {schema}.stats_failures AS
WITH by_kind AS MATERIALIZED (
  SELECT e.kind, sum(e.n)::bigint AS ended, (coalesce(sum(e.n) FILTER (WHERE e.state = 'failed'), 0))::bigint AS failed
  FROM {schema}.stats_window_ends e GROUP BY e.kind),
last AS (
  SELECT DISTINCT ON (f.kind) f.kind, f.id FROM (
    SELECT g.kind, g.last_failed_id AS id, g.last_failed_at AS at FROM {schema}.failure_groups g WHERE g.last_failed_id IS NOT NULL
    UNION ALL
    SELECT i.kind, i.job_id, i.at FROM {schema}.failure_increments i WHERE i.ended) AS f
  WHERE f.at >= (SELECT w.since FROM {schema}.stats_window w)
  ORDER BY f.kind, f.at DESC, f.id DESC)
SELECT b.kind, b.ended, b.failed, false AS capped, b.failed::double precision / b.ended AS rate,
       j.id AS last_failed_id, j.finished_at AS last_failed_at, j.errors AS last_error
FROM by_kind b LEFT JOIN last l ON l.kind = b.kind LEFT JOIN {schema}.jobs j ON j.id = l.id AND j.state = 'failed';

CREATE OR REPLACE VIEW {schema}.stats_throughput AS
SELECT t.n AS ended, false AS capped, t.counted_for,
       t.n / greatest(extract(epoch FROM t.counted_for)::double precision, 0.001) AS per_second
FROM (SELECT coalesce(sum(c.n), 0)::bigint AS n, c.counted_for FROM {schema}.stats_window_counts c
      WHERE c.name = 'throughput' GROUP BY c.counted_for) AS t;
