-- The views and functions as they were before; the trigger first, since it writes to a table that goes.
CREATE OR REPLACE FUNCTION {schema}.count_job_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM new_jobs n WHERE n.state <> 'running') THEN RETURN NULL; END IF;
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
   GROUP BY 1, 2, 3, 4, 5, 6, 7;
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

CREATE OR REPLACE VIEW {schema}.stats_window_ends AS
SELECT c.kind, c.lane, c.tenant, c.state, c.n
FROM {schema}.stats_counts c
WHERE c.step = (SELECT w.step FROM {schema}.stats_window w) AND c.since >= (SELECT w.since FROM {schema}.stats_window w)
  AND c.since < 'infinity'
  AND c.measure <> 'wait' AND c.state <> '';

CREATE OR REPLACE VIEW {schema}.stats_throughput AS
SELECT t.n AS ended, false AS capped, t.counted_for,
       t.n / greatest(extract(epoch FROM t.counted_for)::double precision, 0.001) AS per_second
FROM (
  SELECT (SELECT coalesce(sum(c.n), 0)::bigint FROM {schema}.stats_counts c
           WHERE c.step = w.step AND c.since >= w.since AND c.since < 'infinity' AND c.measure <> 'wait' AND c.state <> '') AS n,
         w.counted_for
  FROM (
    SELECT x.step, s.since, clock_timestamp() - greatest(s.since, (SELECT max(b.since) FROM {schema}.counting b)) AS counted_for
    FROM {schema}.stats_window x
    CROSS JOIN LATERAL (
      SELECT CASE WHEN nullif(current_setting('rowlock.within', true), '') IS NULL
                  THEN date_trunc('minute', clock_timestamp() - interval '5 min', 'UTC') ELSE x.since END AS since) AS s OFFSET 0) AS w OFFSET 0) AS t;

CREATE OR REPLACE VIEW {schema}.stats_failures AS
WITH by_kind AS MATERIALIZED (
  SELECT e.kind, sum(e.n)::bigint AS ended, (coalesce(sum(e.n) FILTER (WHERE e.state = 'failed'), 0))::bigint AS failed
  FROM {schema}.stats_window_ends e GROUP BY e.kind),
last AS (
  SELECT DISTINCT ON (f.kind) f.kind, f.id FROM (
    SELECT j.kind, j.id, j.finished_at FROM {schema}.jobs j
    WHERE j.state = 'failed' AND j.finished_at < 'infinity' AND j.finished_at >= (SELECT w.since FROM {schema}.stats_window w)
    ORDER BY j.finished_at DESC LIMIT 5000) AS f
  ORDER BY f.kind, f.finished_at DESC, f.id DESC)
SELECT b.kind, b.ended, b.failed, false AS capped, b.failed::double precision / b.ended AS rate,
       l.id AS last_failed_id, j.finished_at AS last_failed_at, j.errors AS last_error
FROM by_kind b LEFT JOIN last l ON l.kind = b.kind LEFT JOIN {schema}.jobs j ON j.id = l.id;

CREATE OR REPLACE VIEW {schema}.stats_counts AS
SELECT 'minute' AS step, c.since, c.kind, c.lane, c.tenant, c.outcome, c.state, c.measure, c.bucket, c.n, c.seconds
FROM {schema}.counts_by_minute c
UNION ALL
SELECT 'hour', c.since, c.kind, c.lane, c.tenant, c.outcome, c.state, c.measure, c.bucket, c.n, c.seconds
FROM {schema}.counts_by_hour c
UNION ALL
SELECT s.step, date_trunc(s.step, i.at, 'UTC'), i.kind, i.lane, i.tenant,
       coalesce(nullif(i.outcome, ''), i.state), i.state, m.measure, m.bucket, i.n, m.seconds
FROM {schema}.count_increments i
CROSS JOIN (VALUES ('minute'), ('hour')) AS s(step)
CROSS JOIN LATERAL (VALUES
  (CASE WHEN i.run_bucket IS NULL THEN 'none' ELSE 'run' END, coalesce(i.run_bucket, 0::smallint), i.run_seconds),
  ('wait', i.wait_bucket, i.wait_seconds)) AS m(measure, bucket, seconds)
WHERE m.bucket IS NOT NULL;
DROP VIEW {schema}.stats_window_counts, {schema}.stats_windows;
DROP FUNCTION {schema}.failures_fold(integer, integer),
  {schema}.failure_fingerprint(text, jsonb), {schema}.failure_message(text);
DROP TABLE {schema}.deploys, {schema}.saved_views, {schema}.failures_by_hour, {schema}.failure_groups, {schema}.failure_increments, {schema}.counts_by_ten_minutes;
