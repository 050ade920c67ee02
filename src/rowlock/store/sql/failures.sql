-- failures: groups of failures with the same cause. Groups are few, 500 per kind at most, and read whole; failures reach
-- them through failure_increments (functions/failures.sql).

-- fragment: own_failures
-- A group has a row per tenant. A caller of no tenant who does not see all jobs has none.
(:sees_all::boolean OR g.tenant = :tenant::text)

-- fragment: failures_lock
-- As failures_fold takes it, so that one transaction at a time writes rows of several groups or tenants.
SELECT pg_advisory_xact_lock(hashtextextended('{schema}.failures', 0))

-- name: failure_groups
-- The rows of all tenants that the caller sees, as one group each. The traceback stays where it is: it is long, and lists do not
-- show it. within: failures since :since.
WITH seen AS MATERIALIZED (
  SELECT g.fingerprint, g.kind, min(g.first_seen) AS first_seen, max(g.last_seen) AS last_seen, sum(g.failed)::bigint AS failed,
         sum(g.retried)::bigint AS retried, (array_agg(g.last_job_id ORDER BY g.last_seen DESC))[1] AS last_job_id,
         (array_agg(g.error ORDER BY g.sampled_at DESC) FILTER (WHERE g.error IS NOT NULL))[1] AS error,
         CASE WHEN bool_and(g.muted_at IS NOT NULL) THEN max(g.muted_at) END AS muted_at,
         (array_agg(g.muted_by ORDER BY g.muted_at DESC NULLS LAST))[1] AS muted_by,
         (array_agg(g.note ORDER BY g.muted_at DESC NULLS LAST))[1] AS note,
         g.fingerprint = {schema}.failure_fingerprint(g.kind, jsonb_build_object('reason', '(other)')) AS other
  FROM {schema}.failure_groups g
  WHERE {own_failures} AND (:fingerprint::text IS NULL OR g.fingerprint = :fingerprint::text)
    AND (:kind::text IS NULL OR g.kind = :kind::text)
  GROUP BY g.fingerprint, g.kind),
counted AS (
  SELECT h.fingerprint, sum(h.n)::bigint AS n FROM {schema}.failures_by_hour h JOIN {schema}.failure_groups g USING (fingerprint, tenant)
  WHERE h.since >= :counted_since::timestamptz AND h.since < 'infinity' AND {own_failures} GROUP BY h.fingerprint)
SELECT s.fingerprint, s.kind, s.first_seen, s.last_seen, s.failed, s.retried, s.last_job_id, s.muted_at,
       CASE WHEN s.muted_at IS NOT NULL THEN s.muted_by END AS muted_by, CASE WHEN s.muted_at IS NOT NULL THEN s.note END AS note,
       s.other, CASE WHEN :whole::boolean THEN s.error ELSE s.error - 'traceback' END AS error,
       {schema}.failure_message(s.error ->> 'message') AS message, coalesce(c.n, 0) AS within
FROM seen s LEFT JOIN counted c ON c.fingerprint = s.fingerprint
WHERE (:muted::boolean IS NULL OR (s.muted_at IS NOT NULL) = :muted::boolean) AND s.last_seen >= :since::timestamptz
ORDER BY CASE :sort::text WHEN 'count' THEN coalesce(c.n, 0) END DESC, CASE :sort::text WHEN 'new' THEN s.first_seen END DESC,
         s.last_seen DESC, s.fingerprint
LIMIT :n::integer

-- name: failure_hours
-- Failures by step for the small charts, from the counts by hour, by primary key.
SELECT h.fingerprint, date_bin(make_interval(secs => :step::float8), h.since, timestamptz 'epoch') AS at, sum(h.n)::bigint AS n
FROM {schema}.failures_by_hour h JOIN {schema}.failure_groups g USING (fingerprint, tenant)
WHERE h.fingerprint = ANY (:fingerprints::text[]) AND h.since >= :since::timestamptz AND {own_failures} GROUP BY 1, 2

-- name: failure_mute
-- A group that is muted already keeps who muted it and when. A group has a row per tenant, which failures_fold writes in
-- another order: each comes after the other's commit.
WITH alone AS MATERIALIZED ({failures_lock})
UPDATE {schema}.failure_groups g SET muted_at = clock_timestamp(), muted_by = :by_whom::text, note = :note::text
FROM alone WHERE g.fingerprint = :fingerprint::text AND {own_failures} AND g.muted_at IS NULL RETURNING g.kind

-- name: failure_unmute
-- The end of failure_mute.
WITH alone AS MATERIALIZED ({failures_lock})
UPDATE {schema}.failure_groups g SET muted_at = NULL, muted_by = NULL, note = NULL
FROM alone WHERE g.fingerprint = :fingerprint::text AND {own_failures} AND g.muted_at IS NOT NULL RETURNING g.kind
