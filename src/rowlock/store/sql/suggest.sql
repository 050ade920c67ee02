-- suggest: names that begin with what a person has typed. Every read is of a small table, of a bounded number of index
-- steps, or of the newest jobs that the caller sees; none depends on the size of the history.

-- name: suggest_kinds
-- Registered kinds, a small table.
SELECT k.name AS value FROM {schema}.kinds k WHERE k.name LIKE :like::text ORDER BY k.name LIMIT :n::integer

-- name: suggest_lanes
-- Lanes, a small table.
SELECT l.name AS value FROM {schema}.lanes l WHERE l.name LIKE :like::text ORDER BY l.name LIMIT :n::integer

-- name: suggest_workers
-- Workers of the last day; gone ones stay that long, and so do the jobs that name them.
SELECT w.name AS value FROM {schema}.workers w WHERE w.name LIKE :like::text GROUP BY w.name ORDER BY w.name LIMIT :n::integer

-- name: suggest_tenants
-- Tenants whose ends are counted one by one.
SELECT s.tenant AS value FROM {schema}.count_series s WHERE s.tenant LIKE :like::text AND s.tenant NOT IN ('', '(other)')
GROUP BY s.tenant ORDER BY s.tenant LIMIT :n::integer

-- name: suggest_errors
-- Classes of exceptions of the failure groups that the caller sees.
SELECT g.error ->> 'type' AS value FROM {schema}.failure_groups g
WHERE {own_failures} AND g.error ->> 'type' LIKE :like::text GROUP BY 1 ORDER BY max(g.last_seen) DESC, 1 LIMIT :n::integer

-- name: suggest_fingerprints
-- Failure groups that the caller sees, the last failure first.
SELECT g.fingerprint AS value FROM {schema}.failure_groups g
WHERE {own_failures} AND g.fingerprint LIKE :like::text GROUP BY 1 ORDER BY max(g.last_seen) DESC, 1 LIMIT :n::integer

-- name: suggest_ref_values
-- Values of a reference, or tags, by a loose scan of the key of job_refs: one index step per value, `steps` at most. The order is that of
-- the database's collation, so the beginning is compared again.
WITH RECURSIVE v AS (
  (SELECT r.value, 1 AS step FROM {schema}.job_refs r WHERE r.name = :name::text AND r.value >= :typed::text
    ORDER BY r.value LIMIT 1)
  UNION ALL
  SELECT n.value, v.step + 1 FROM v CROSS JOIN LATERAL (
    SELECT r.value FROM {schema}.job_refs r WHERE r.name = :name::text AND r.value > v.value ORDER BY r.value LIMIT 1) AS n
  WHERE v.step < :steps::integer)
SELECT v.value FROM v WHERE v.value LIKE :like::text ORDER BY v.value LIMIT :n::integer

-- name: suggest_ref_names
-- Names of references, by the same loose scan.
WITH RECURSIVE v AS (
  (SELECT r.name, 1 AS step FROM {schema}.job_refs r ORDER BY r.name LIMIT 1)
  UNION ALL
  SELECT n.name, v.step + 1 FROM v CROSS JOIN LATERAL (
    SELECT r.name FROM {schema}.job_refs r WHERE r.name > v.name ORDER BY r.name LIMIT 1) AS n
  WHERE v.step < :steps::integer)
SELECT v.name AS value FROM v WHERE v.name LIKE :like::text AND v.name <> 'tag' ORDER BY v.name LIMIT :n::integer

-- name: suggest_own_labels
-- Tags and references of the caller's newest jobs, through the index on owners: job_refs does not say whose a value is. OFFSET 0: the newest
-- jobs first, then what they are labelled with. The second condition is that of the partial index, which the planner does not conclude
-- from the first.
SELECT l.name, l.value FROM (
  SELECT x.* FROM {schema}.jobs x
  WHERE coalesce(x.tenant, x.submitted_by) = coalesce(:tenant::text, :subject::text)
    AND (x.tenant IS NOT NULL OR x.submitted_by IS NOT NULL)
  ORDER BY x.id DESC LIMIT :newest::integer OFFSET 0) AS j
CROSS JOIN LATERAL (
  SELECT 'tag' AS name, t.tag AS value FROM unnest(j.tags) AS t(tag)
  UNION ALL SELECT r.key, r.value FROM jsonb_each_text(coalesce(j.refs, '{}'::jsonb)) AS r) AS l
WHERE {visible} GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 1000
