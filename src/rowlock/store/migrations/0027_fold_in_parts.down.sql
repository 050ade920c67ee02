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

CREATE OR REPLACE FUNCTION {schema}.failures_fold(p_batch integer, p_groups integer) RETURNS integer LANGUAGE plpgsql AS $$
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

ALTER TABLE {schema}.jobs SET (fillfactor = 85);
DROP FUNCTION {schema}.counts_fold_only(integer, integer, text[]), {schema}.failures_fold_only(integer, integer, text[]);
DROP FUNCTION {schema}.count_increment_name({schema}.count_increments), {schema}.failure_increment_name({schema}.failure_increments);
