-- Failure groups: failures of the same cause, by their fingerprint. docs/decisions/0019 says why they are made so, and what
-- they cost.

-- An error message without what differs from one failure to the next: ids, quoted texts, numbers. Read by people, too.
-- A quote inside a word is an apostrophe.
CREATE FUNCTION {schema}.failure_message(p_message text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT regexp_replace(regexp_replace(regexp_replace(regexp_replace(left(p_message, 500),
    '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}', '<uuid>', 'g'),
    '(^|[^[:alnum:]_])(''[^'']*''|"[^"]*")', '\1<text>', 'g'),
    '\m(?:0x[0-9a-f]+|(?=[a-f]*[0-9])[0-9a-f]{8,})\M', '<hex>', 'gi'),
    '[0-9]+(?:[.,:][0-9]+)*', '<n>', 'g')
$$;

-- The group that a failure belongs to: kind, class of the exception (or the reason, without one), message without what
-- differs, and the innermost function of the application. In the database, so that failures which no worker wrote
-- (a lost worker, a job that is too old, code of the release before) have one, too. The index jobs_failure_group
-- stores what it answers: a change of it is a function with a new name and an index beside the old one.
CREATE FUNCTION {schema}.failure_fingerprint(p_kind text, p_error jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT left(encode(sha256(convert_to(concat_ws(E'\x1f', p_kind, coalesce(p_error ->> 'type', p_error ->> 'reason', ''),
    coalesce({schema}.failure_message(p_error ->> 'message'), ''), p_error ->> 'frame'), 'UTF8')), 'hex'), 16)
$$;

-- As count_increment_name: the group, and the hour of its counts.
CREATE FUNCTION {schema}.failure_increment_name(p {schema}.failure_increments) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT concat_ws(' ', 'failures of', p.kind, nullif(p.tenant, ''), p.fingerprint, to_char(p.at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:00'))
$$;

-- Moves increments into the groups and into the counts by hour, as counts_fold does. A group that is new gets a row while
-- its kind has room, p_groups rows with their tenants; further ones are (other), one row per kind. The sample is read
-- here, not in the failing transaction: the error is already stored with the job or its attempt. It is kept for an hour,
-- so that a failure that goes on does not write its traceback again and again. p_only: as of counts_fold_only. Returns
-- how many increments were moved.
CREATE FUNCTION {schema}.failures_fold_only(p_batch integer, p_groups integer, p_only text[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE v_taken {schema}.failure_increments[]; r record;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('{schema}.failures', 0)) THEN RETURN 0; END IF;
  WITH gone AS (
    DELETE FROM {schema}.failure_increments i
     WHERE i.ctid = ANY (ARRAY(SELECT x.ctid FROM {schema}.failure_increments x
                                WHERE p_only IS NULL OR {schema}.failure_increment_name(x) = ANY (p_only) LIMIT p_batch)) RETURNING i)
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

-- For code of the release before, which knows no increments by name.
CREATE FUNCTION {schema}.failures_fold(p_batch integer, p_groups integer) RETURNS integer LANGUAGE sql AS $$
  SELECT {schema}.failures_fold_only(p_batch, p_groups, NULL)
$$;
