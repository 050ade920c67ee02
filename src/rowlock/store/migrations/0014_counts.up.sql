-- Counts of what happens to jobs, kept as it happens: so that failure rates, throughput and durations are those of all jobs,
-- not of the newest few thousand, and Prometheus gets counters and histograms. A trigger appends increments in the
-- transaction of the change, and a duty of upkeep moves them into counts by minute, by hour and in total. Online: a trigger
-- takes its lock for a moment; what ended before is not counted, and `counting` says since when there are counts.
-- For code made for version 2 or later.

-- One row per statement that ended attempts or jobs, and per combination of the columns below; read by readers until a duty
-- has moved it. No index: it is only appended to, read whole and emptied. REPLICA IDENTITY FULL: a publication of all tables
-- refuses to delete from a table without key.
-- outcome: how the attempt ended (as in job_attempts; completed, completed_with_errors, failed or cancelled if its worker
-- ended it), unstarted: the job ended without running, reopened: a person retried it; '' here: the same as state. state: the
-- final state of the job, '' while it goes on. lane, tenant: '' for none. The buckets are NULL where no attempt ended. The
-- row is as narrow as it can be: every finish writes one.
CREATE TABLE {schema}.count_increments (
  at timestamptz NOT NULL DEFAULT now(),
  run_seconds real NOT NULL, wait_seconds real NOT NULL, n integer NOT NULL, run_bucket smallint, wait_bucket smallint,
  outcome text NOT NULL, state text NOT NULL, kind text NOT NULL, lane text NOT NULL, tenant text NOT NULL)
  WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE {schema}.count_increments REPLICA IDENTITY FULL;

-- measure: run, wait, or none for rows without an attempt. Each attempt is counted once under run and once under wait, each
-- time in the bucket of its duration; seconds is their sum.
CREATE TABLE {schema}.counts_by_minute (
  since timestamptz, kind text, lane text, tenant text, outcome text, state text, measure text, bucket smallint,
  n bigint NOT NULL, seconds double precision NOT NULL,
  PRIMARY KEY (since, kind, lane, tenant, outcome, state, measure, bucket))
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
CREATE TABLE {schema}.counts_by_hour (
  since timestamptz, kind text, lane text, tenant text, outcome text, state text, measure text, bucket smallint,
  n bigint NOT NULL, seconds double precision NOT NULL,
  PRIMARY KEY (since, kind, lane, tenant, outcome, state, measure, bucket))
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
-- For counters that never go down; a series that has not been counted for a month is forgotten.
CREATE TABLE {schema}.count_totals (
  kind text, lane text, tenant text, outcome text, state text, measure text, bucket smallint,
  n bigint NOT NULL, seconds double precision NOT NULL, counted_at timestamptz NOT NULL,
  PRIMARY KEY (kind, lane, tenant, outcome, state, measure, bucket))
  WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
-- The combinations that are counted one by one; all others are (other).
CREATE TABLE {schema}.count_series (kind text, lane text, tenant text, PRIMARY KEY (kind, lane, tenant));
-- One row: since when there are counts.
CREATE TABLE {schema}.counting (since timestamptz PRIMARY KEY DEFAULT now());
INSERT INTO {schema}.counting DEFAULT VALUES;
INSERT INTO {schema}.duties (name, every) VALUES ('counts', '10 s');

-- The histogram bucket of a duration: how many bounds are smaller than it. A duration equal to a bound belongs to that
-- bound, as `le` of Prometheus says. The bounds are those of model/job_counts.py.
CREATE FUNCTION {schema}.count_bucket(p_seconds double precision) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
  SELECT (17 - width_bucket(-p_seconds,
    '{-14400,-3600,-900,-300,-60,-30,-10,-5,-2.5,-1,-0.5,-0.25,-0.1,-0.05,-0.025,-0.01,-0.005}'::float8[]))::smallint
$$;

-- Runs after every statement that updates jobs, in its transaction: an end is counted exactly when it is accepted,
-- whichever path, release or SQL client wrote it. It only appends, so no writer waits for the counts of another. A
-- statement that only claims leaves at once: starts are ends of attempts plus running jobs. FULL JOIN and OFFSET 0: the
-- plan is kept from the first call on, usually one with a single row, and a full join is never a nested loop, which
-- would compare every row of a batch of 500 with every other. The subquery is entered only for the rows that need it.
-- A claim that its gate or rate puts back has no claimed_at any more, and was no attempt. An attempt that ends without
-- ending its job is described by its attempt row, unless no worker could read the job twice for the same cause.
CREATE FUNCTION {schema}.count_job_changes() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- Moves increments into the counts by minute, by hour and in total, in one transaction: a reader sees each of them
-- either here or there. What is deleted is what is counted, so increments that commit late, or in another order, are
-- counted by a later call. A combination of kind, lane and tenant that is new gets a series of its own while there is
-- room: three quarters of p_series are for any, the rest is for kinds without their tenants, and everything beyond is
-- (other). Two calls at once would wait for each other's rows; the second leaves. Returns how many were moved.
CREATE FUNCTION {schema}.counts_fold(p_batch integer, p_series integer) RETURNS integer LANGUAGE plpgsql AS $$
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

CREATE TRIGGER count_job_changes AFTER UPDATE ON {schema}.jobs REFERENCING OLD TABLE AS old_jobs NEW TABLE AS new_jobs
  FOR EACH STATEMENT EXECUTE FUNCTION {schema}.count_job_changes();

-- Every count of a minute or hour, moved or not. A reader chooses one step and a range of since.
CREATE VIEW {schema}.stats_counts AS
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

-- The counts since the tables have them, moved or not, under the names that they have once they are moved.
CREATE VIEW {schema}.stats_totals AS
SELECT c.kind, c.lane, c.tenant, c.outcome, c.state, c.measure, c.bucket, c.n, c.seconds FROM {schema}.count_totals c
UNION ALL
SELECT CASE WHEN r.many AND s.kind IS NULL AND o.kind IS NULL THEN '(other)' ELSE i.kind END,
       CASE WHEN r.many AND s.kind IS NULL AND o.kind IS NULL THEN '(other)' ELSE i.lane END,
       CASE WHEN r.many AND s.kind IS NULL THEN '(other)' ELSE i.tenant END,
       coalesce(nullif(i.outcome, ''), i.state), i.state, m.measure, m.bucket, i.n, m.seconds
FROM {schema}.count_increments i
CROSS JOIN (SELECT count(*) >= 1500 AS many FROM {schema}.count_series) AS r
LEFT JOIN {schema}.count_series s ON (s.kind, s.lane, s.tenant) = (i.kind, i.lane, i.tenant)
LEFT JOIN {schema}.count_series o ON (o.kind, o.lane, o.tenant) = (i.kind, i.lane, '(other)')
CROSS JOIN LATERAL (VALUES
  (CASE WHEN i.run_bucket IS NULL THEN 'none' ELSE 'run' END, coalesce(i.run_bucket, 0::smallint), i.run_seconds),
  ('wait', i.wait_bucket, i.wait_seconds)) AS m(measure, bucket, seconds)
WHERE m.bucket IS NOT NULL;

-- The window of the views below: whole minutes, or whole hours if it is longer than a day. counted_for begins with the first
-- of them, or where the counts begin.
CREATE VIEW {schema}.stats_window AS
SELECT w.step, w.since, clock_timestamp() - greatest(w.since, (SELECT max(b.since) FROM {schema}.counting b)) AS counted_for, w.within
FROM (
  SELECT x.within, CASE WHEN x.within > interval '1 day' THEN 'hour' ELSE 'minute' END AS step,
         date_trunc(CASE WHEN x.within > interval '1 day' THEN 'hour' ELSE 'minute' END, clock_timestamp() - x.within, 'UTC') AS since
  FROM (SELECT coalesce(nullif(current_setting('rowlock.within', true), ''), '1 hour')::interval AS within) AS x) AS w;

-- The counts of jobs that ended within the window.
CREATE VIEW {schema}.stats_window_ends AS
SELECT c.kind, c.lane, c.tenant, c.state, c.n
FROM {schema}.stats_counts c
WHERE c.step = (SELECT w.step FROM {schema}.stats_window w) AND c.since >= (SELECT w.since FROM {schema}.stats_window w)
  AND c.measure <> 'wait' AND c.state <> '';

CREATE OR REPLACE VIEW {schema}.stats_ended AS
WITH e AS MATERIALIZED (SELECT x.state, sum(x.n)::bigint AS n FROM {schema}.stats_window_ends x GROUP BY x.state)
SELECT s.state, coalesce(e.n, 0) AS ended, false AS capped
FROM unnest(ARRAY['completed', 'completed_with_errors', 'failed', 'cancelled', 'expired']) AS s(state)
LEFT JOIN e ON e.state = s.state;

-- What failed last is looked for among the newest 5,000 failures.
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

CREATE OR REPLACE VIEW {schema}.stats_tenants AS
WITH e AS MATERIALIZED (
  SELECT x.tenant, sum(x.n)::bigint AS ended, (coalesce(sum(x.n) FILTER (WHERE x.state = 'failed'), 0))::bigint AS failed
  FROM {schema}.stats_window_ends x GROUP BY x.tenant),
w AS MATERIALIZED (SELECT x.counted_for FROM {schema}.stats_window x)
SELECT nullif(e.tenant, '') AS tenant, e.ended, e.failed, false AS capped, w.counted_for,
       e.ended / greatest(extract(epoch FROM w.counted_for)::double precision, 0.001) AS per_second
FROM e CROSS JOIN w;

-- By default the last five minutes; else the window.
CREATE OR REPLACE VIEW {schema}.stats_throughput AS
SELECT t.n AS ended, false AS capped, t.counted_for,
       t.n / greatest(extract(epoch FROM t.counted_for)::double precision, 0.001) AS per_second
FROM (
  SELECT coalesce(sum(c.n), 0)::bigint AS n, w.counted_for
  FROM (
    SELECT x.step, s.since, clock_timestamp() - greatest(s.since, (SELECT max(b.since) FROM {schema}.counting b)) AS counted_for
    FROM {schema}.stats_window x
    CROSS JOIN LATERAL (
      SELECT CASE WHEN nullif(current_setting('rowlock.within', true), '') IS NULL
                  THEN date_trunc('minute', clock_timestamp() - interval '5 min', 'UTC') ELSE x.since END AS since) AS s OFFSET 0) AS w
  LEFT JOIN {schema}.stats_counts c ON c.step = w.step AND c.since >= w.since AND c.measure <> 'wait' AND c.state <> ''
  GROUP BY w.counted_for) AS t;
