-- The views of ends as they were before: over the newest rows of jobs.
CREATE OR REPLACE VIEW {schema}.stats_ended AS
WITH e AS MATERIALIZED (SELECT x.state FROM {schema}.stats_ends x)
SELECT s.state, count(e.state) AS ended, (SELECT count(*) FROM e) > 5000 AS capped
FROM unnest(ARRAY['completed', 'completed_with_errors', 'failed', 'cancelled', 'expired']) AS s(state)
LEFT JOIN e ON e.state = s.state GROUP BY s.state;

-- What failed last is read for each kind that has any failure.
CREATE OR REPLACE VIEW {schema}.stats_failures AS
WITH e AS MATERIALIZED (SELECT x.id, x.kind, x.state, x.finished_at FROM {schema}.stats_ends x),
by_kind AS (
  SELECT e.kind, count(*) AS ended, count(*) FILTER (WHERE e.state = 'failed') AS failed FROM e GROUP BY e.kind),
last AS (
  SELECT DISTINCT ON (e.kind) e.kind, e.id FROM e WHERE e.state = 'failed' ORDER BY e.kind, e.finished_at DESC, e.id DESC)
SELECT b.kind, b.ended, b.failed, (SELECT count(*) FROM e) > 5000 AS capped, b.failed::double precision / b.ended AS rate,
       l.id AS last_failed_id, j.finished_at AS last_failed_at, j.errors AS last_error
FROM by_kind b LEFT JOIN last l ON l.kind = b.kind LEFT JOIN {schema}.jobs j ON j.id = l.id;

-- counted_for: the window, or the part of it that the newest 5,001 ends cover.
CREATE OR REPLACE VIEW {schema}.stats_tenants AS
WITH e AS MATERIALIZED (SELECT x.tenant, x.state, x.finished_at FROM {schema}.stats_ends x),
spanned AS MATERIALIZED (
  SELECT count(*) > 5000 AS capped,
         CASE WHEN count(*) > 5000 THEN clock_timestamp() - min(e.finished_at)
              ELSE coalesce(nullif(current_setting('rowlock.within', true), ''), '1 hour')::interval END AS counted_for
  FROM e)
SELECT e.tenant, count(*) AS ended, count(*) FILTER (WHERE e.state = 'failed') AS failed, s.capped, s.counted_for,
       count(*) / greatest(extract(epoch FROM s.counted_for)::double precision, 0.001) AS per_second
FROM e CROSS JOIN spanned s GROUP BY e.tenant, s.capped, s.counted_for;

-- Counted in the index alone, so further than the others; by default the last five minutes.
CREATE OR REPLACE VIEW {schema}.stats_throughput AS
SELECT least(t.n, 20000) AS ended, t.n > 20000 AS capped, t.counted_for,
       least(t.n, 20000) / greatest(extract(epoch FROM t.counted_for)::double precision, 0.001) AS per_second
FROM (
  SELECT count(*) AS n,
         CASE WHEN count(*) > 20000 THEN clock_timestamp() - min(x.finished_at)
              ELSE coalesce(nullif(current_setting('rowlock.within', true), ''), '5 min')::interval END AS counted_for
  FROM (SELECT j.finished_at FROM {schema}.jobs j
        WHERE j.finished_at < 'infinity' AND j.finished_at > (
          SELECT clock_timestamp() - coalesce(nullif(current_setting('rowlock.within', true), ''), '5 min')::interval)
        ORDER BY j.finished_at DESC LIMIT 20001) AS x) AS t;
DROP VIEW {schema}.stats_window_ends, {schema}.stats_window, {schema}.stats_totals, {schema}.stats_counts;
DROP TRIGGER count_job_changes ON {schema}.jobs;
DROP FUNCTION {schema}.counts_fold(integer, integer), {schema}.count_job_changes(), {schema}.count_bucket(double precision);
DELETE FROM {schema}.duties WHERE name = 'counts';
DROP TABLE {schema}.counting, {schema}.count_series, {schema}.count_totals, {schema}.counts_by_hour, {schema}.counts_by_minute,
  {schema}.count_increments;
