CREATE OR REPLACE VIEW {schema}.stats_window_ends AS
SELECT c.kind, c.lane, c.tenant, c.state, c.n
FROM {schema}.stats_counts c
WHERE c.step = (SELECT w.step FROM {schema}.stats_window w) AND c.since >= (SELECT w.since FROM {schema}.stats_window w)
  AND c.measure <> 'wait' AND c.state <> '';

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
