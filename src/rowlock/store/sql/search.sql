-- search: fragments from which statements are composed, one condition per term. An access path reaches jobs in id order
-- through an index, `scan` rows at most; conditions are applied on the way, row by row. Conditions on other tables are
-- scalar subqueries: PostgreSQL would turn an EXISTS into a join that reads all of that table before the first row.

-- fragment: search_by_id
SELECT j.*, j.id AS key FROM {schema}.jobs j
WHERE j.id > :low::bigint AND j.id < :high::bigint ORDER BY j.id {direction} LIMIT :scan::integer

-- fragment: search_by_id_keys
SELECT j.id AS key FROM {schema}.jobs j
WHERE j.id > :low::bigint AND j.id < :high::bigint ORDER BY j.id {direction} LIMIT :scan::integer

-- fragment: search_by_ref_keys
-- One ordered scan of the key of job_refs per value, merged: `tag:eu,us` costs as much as two searches.
SELECT DISTINCT r.job_id AS key
FROM unnest(:ref_values::text[]) AS v(value) CROSS JOIN LATERAL (
  SELECT x.job_id FROM {schema}.job_refs x
  WHERE x.name = :ref_name::text AND x.value = v.value AND x.job_id > :low::bigint AND x.job_id < :high::bigint
  ORDER BY x.job_id {direction} LIMIT :scan::integer) AS r
ORDER BY key {direction} LIMIT :scan::integer

-- fragment: search_by_ref
-- OFFSET 0 keeps the lookup below the scan: by primary key, one at a time, and no further than the page needs.
SELECT j.*, f.key FROM ({search_by_ref_keys}) AS f
CROSS JOIN LATERAL (SELECT x.* FROM {schema}.jobs x WHERE x.id = f.key OFFSET 0) AS j ORDER BY f.key {direction}

-- fragment: search_by_fingerprint_keys
-- One ordered scan of jobs_failure_group per group, merged. The state repeats the index's own condition.
SELECT r.id AS key
FROM unnest(:fingerprints::text[]) AS v(fingerprint) CROSS JOIN LATERAL (
  SELECT x.id FROM {schema}.jobs x
  WHERE {schema}.failure_fingerprint(x.kind, x.errors) = v.fingerprint AND x.state = 'failed'
    AND x.id > :low::bigint AND x.id < :high::bigint
  ORDER BY x.id {direction} LIMIT :scan::integer) AS r
ORDER BY key {direction} LIMIT :scan::integer

-- fragment: search_by_fingerprint
SELECT j.*, f.key FROM ({search_by_fingerprint_keys}) AS f
CROSS JOIN LATERAL (SELECT x.* FROM {schema}.jobs x WHERE x.id = f.key OFFSET 0) AS j ORDER BY f.key {direction}

-- fragment: search_by_state_keys
-- One ordered scan of jobs_ended_badly per state, merged. The list repeats the index's own condition, which makes it
-- usable.
SELECT r.id AS key
FROM unnest(:ended::text[]) AS v(state) CROSS JOIN LATERAL (
  SELECT x.id FROM {schema}.jobs x
  WHERE x.state = v.state AND x.state IN ('completed_with_errors', 'failed', 'cancelled', 'expired')
    AND x.id > :low::bigint AND x.id < :high::bigint
  ORDER BY x.id {direction} LIMIT :scan::integer) AS r
ORDER BY key {direction} LIMIT :scan::integer

-- fragment: search_by_state
SELECT j.*, f.key FROM ({search_by_state_keys}) AS f
CROSS JOIN LATERAL (SELECT x.* FROM {schema}.jobs x WHERE x.id = f.key OFFSET 0) AS j ORDER BY f.key {direction}

-- fragment: search_by_tenant_keys
SELECT j.id AS key FROM {schema}.jobs j
WHERE coalesce(j.tenant, j.submitted_by) = :of_tenant::text AND j.tenant = :of_tenant::text
  AND j.id > :low::bigint AND j.id < :high::bigint ORDER BY j.id {direction} LIMIT :scan::integer

-- fragment: search_by_tenant
-- One tenant's jobs by the index on just those: `visible` is an OR, which would need a scan over everybody's history.
SELECT j.*, j.id AS key FROM {schema}.jobs j
WHERE coalesce(j.tenant, j.submitted_by) = :of_tenant::text AND j.tenant = :of_tenant::text
  AND j.id > :low::bigint AND j.id < :high::bigint ORDER BY j.id {direction} LIMIT :scan::integer

-- fragment: search_by_submitter_keys
SELECT j.id AS key FROM {schema}.jobs j
WHERE coalesce(j.tenant, j.submitted_by) = :submitter::text AND j.tenant IS NULL AND j.submitted_by = :submitter::text
  AND j.id > :low::bigint AND j.id < :high::bigint
ORDER BY j.id {direction} LIMIT :scan::integer

-- fragment: search_by_submitter
-- The same for a caller without tenant, who sees the jobs it submitted itself.
SELECT j.*, j.id AS key FROM {schema}.jobs j
WHERE coalesce(j.tenant, j.submitted_by) = :submitter::text AND j.tenant IS NULL AND j.submitted_by = :submitter::text
  AND j.id > :low::bigint AND j.id < :high::bigint
ORDER BY j.id {direction} LIMIT :scan::integer

-- fragment: search_by_list_keys
SELECT f.key FROM unnest(:few::bigint[]) AS f(key)
WHERE f.key > :low::bigint AND f.key < :high::bigint ORDER BY f.key {direction} LIMIT :scan::integer

-- fragment: search_by_list
SELECT j.*, f.key FROM ({search_by_list_keys}) AS f
CROSS JOIN LATERAL (SELECT x.* FROM {schema}.jobs x WHERE x.id = f.key OFFSET 0) AS j ORDER BY f.key {direction}

-- fragment: search_ids
SELECT j.id FROM ({walk}) AS j WHERE {conditions} ORDER BY j.key {direction} LIMIT :n::integer

-- fragment: search_reach
-- How far a scan came: if it was cut off, the next page begins there.
SELECT count(*) AS n, min(w.key) AS low, max(w.key) AS high FROM ({keys}) AS w

-- fragment: search_lock
-- Checked again under the lock: jobs that changed since they were found are left alone. In id order, like every other
-- writer.
SELECT j.id FROM {schema}.jobs j WHERE j.id = ANY (:locked::bigint[]) AND {conditions} ORDER BY j.id FOR NO KEY UPDATE OF j

-- fragment: search_not
-- A job without such a value fulfils a negated term.
NOT coalesce(({condition}), false)

-- fragment: search_texts
({column} = ANY (:exact::text[]) OR {column} LIKE ANY (:likes::text[]))

-- fragment: search_exact
{column} = ANY (:exact::text[])

-- fragment: search_numbers
{column} BETWEEN :least::integer AND :most::integer

-- fragment: search_times
({column} >= coalesce(:from::timestamptz, '-infinity') AND {column} < coalesce(:until::timestamptz, 'infinity'))

-- fragment: search_duration
(j.claimed_at IS NOT NULL AND (j.finished_at IS NOT NULL OR j.state = 'running')
 AND coalesce(j.finished_at, clock_timestamp()) - j.claimed_at BETWEEN :least::interval AND :most::interval)

-- fragment: search_lane
-- A job that was never claimed belongs to the lane that would take it. rest: the lane of '*' is among those searched
-- for.
(({search_texts}) OR (j.lane IS NULL AND (j.kind = ANY (:kinds::text[]) OR (:rest::boolean AND j.kind <> ALL (:named::text[])))))

-- fragment: search_id
j.id = ANY (:ids::bigint[])

-- fragment: search_tag
EXISTS (SELECT 1 FROM unnest(j.tags) AS t(tag) WHERE t.tag = ANY (:exact::text[]) OR t.tag LIKE ANY (:likes::text[]))

-- fragment: search_error
EXISTS (SELECT 1 FROM unnest(ARRAY[j.errors ->> 'type', j.errors ->> 'message', j.errors ->> 'reason']) AS e(said)
        WHERE e.said = ANY (:exact::text[]) OR e.said LIKE ANY (:likes::text[]))

-- fragment: search_fingerprint
-- Failed jobs alone: the function is not called for others.
CASE WHEN j.state = 'failed' THEN {schema}.failure_fingerprint(j.kind, j.errors) = ANY (:exact::text[])
     OR {schema}.failure_fingerprint(j.kind, j.errors) LIKE ANY (:likes::text[]) ELSE false END

-- fragment: search_args
j.args @> :document::text::jsonb

-- fragment: search_args_there
j.args #> :path::text[] IS NOT NULL

-- fragment: search_free
(j.id = ANY (:ids::bigint[]) OR j.kind LIKE ANY (:likes::text[]) OR j.errors ->> 'message' LIKE ANY (:likes::text[]))

-- fragment: search_column_state
j.state

-- fragment: search_column_kind
j.kind

-- fragment: search_column_lane
j.lane

-- fragment: search_column_tenant
j.tenant

-- fragment: search_column_by
j.submitted_by

-- fragment: search_column_priority
j.priority

-- fragment: search_column_attempt
j.attempt

-- fragment: search_column_created
j.created_at

-- fragment: search_column_finished
j.finished_at

-- fragment: search_column_worker
(SELECT w.name FROM {schema}.workers w WHERE w.id = j.claimed_by)

-- fragment: search_column_phase
(SELECT p.phase FROM {schema}.job_progress p WHERE p.job_id = j.id)

-- fragment: search_column_backend
(SELECT d.backend_job_id FROM {schema}.job_deliveries d WHERE d.job_id = j.id)

-- name: search_delivered_as
-- The jobs that carriers know by these ids, through their index.
SELECT d.job_id AS id FROM {schema}.job_deliveries d WHERE d.backend_job_id = ANY (:backend_job_ids::text[])
ORDER BY d.job_id LIMIT :cap::integer

-- fragment: search_column_ref
(j.refs ->> :name::text)

-- name: search_few_finished
-- The jobs that ended within these bounds, if they are few: through jobs_done, newest first.
SELECT ARRAY(
  SELECT j.id FROM {schema}.jobs j
  WHERE j.finished_at IS NOT NULL AND j.finished_at >= coalesce(:from::timestamptz, '-infinity')
    AND j.finished_at < coalesce(:until::timestamptz, 'infinity')
  ORDER BY j.finished_at DESC LIMIT :cap::integer + 1) AS ids

-- fragment: search_few_args
-- Used only when the index jobs_args is there.
SELECT ARRAY(SELECT j.id FROM {schema}.jobs j WHERE {conditions} LIMIT :cap::integer + 1) AS ids

-- name: search_names
-- For suggestions; read only when a search found nothing.
SELECT ARRAY(SELECT k.name FROM {schema}.kinds k ORDER BY k.name LIMIT 5000) AS kinds,
       ARRAY(SELECT l.name FROM {schema}.lanes l ORDER BY l.name LIMIT 5000) AS lanes

-- name: search_id_at
-- The id from which on jobs were created after an instant, by bisection: id and created_at are assigned in one
-- statement, so they rise together. The caller allows for clocks that were set and for slow statements.
WITH RECURSIVE half AS (
  SELECT ends.low, ends.high, 0 AS step
  FROM (SELECT (SELECT min(j.id) FROM {schema}.jobs j) - 1 AS low, (SELECT max(j.id) FROM {schema}.jobs j) + 1 AS high) AS ends
  UNION ALL
  SELECT CASE WHEN p.created_at < :at::timestamptz THEN greatest(m.middle, p.id) ELSE h.low END,
         CASE WHEN p.created_at < :at::timestamptz THEN h.high ELSE m.middle END, h.step + 1
  FROM half h
  CROSS JOIN LATERAL (SELECT (h.low + h.high) / 2 AS middle) AS m
  CROSS JOIN LATERAL (SELECT x.id, x.created_at FROM {schema}.jobs x WHERE x.id >= m.middle ORDER BY x.id LIMIT 1) AS p
  WHERE h.high - h.low > 100 AND h.step < 64)
SELECT h.low, h.high FROM half h ORDER BY h.step DESC LIMIT 1

-- name: args_index
-- NULL: there is none; false: its building was interrupted.
SELECT (SELECT i.indisvalid FROM pg_index i WHERE i.indexrelid = to_regclass('{schema}.jobs_args')) AS valid

-- name: create_args_index
-- Opt-in: every claim and finish writes a new version of the row, and with it an index entry per argument.
-- Concurrently, so that nobody waits for it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_args ON {schema}.jobs USING gin (args jsonb_path_ops)

-- name: drop_args_index
-- Concurrently, so that nobody waits for it.
DROP INDEX CONCURRENTLY IF EXISTS {schema}.jobs_args
