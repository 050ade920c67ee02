-- requests: the Idempotency-Key header of the REST API. Stored in job_keys beside the keys of jobs, in two rows: one
-- says that the key was used, the other for which body, so that another body under the same key is not taken for a
-- repetition.

-- name: lock_request
-- Held until the end of the transaction that writes the job. Not waited for: a second request is refused meanwhile.
SELECT pg_try_advisory_xact_lock(hashtextextended(:key::text, 7001)) AS mine

-- name: find_request
-- Two lookups by primary key. Run after lock_request: an earlier holder of that lock has committed.
SELECT k.kind, k.job_id, k.status, k.what FROM {schema}.job_keys k
WHERE k.key = :key::text AND k.kind IN (:scope::text, :scope::text || ' ' || :digest::text) AND k.expires_at > now()

-- name: keep_request
-- In the transaction that writes the job: neither exists without the other. An expired row is taken over.
INSERT INTO {schema}.job_keys AS k (kind, key, job_id, expires_at, status, what)
SELECT s.kind, :key::text, :job_id::bigint, clock_timestamp() + :keep_for::interval, :status::smallint, :what::text
FROM unnest(ARRAY[:scope::text, :scope::text || ' ' || :digest::text]) AS s (kind) ORDER BY s.kind
ON CONFLICT (kind, key) DO UPDATE
   SET job_id = excluded.job_id, created_at = clock_timestamp(), expires_at = excluded.expires_at, status = excluded.status,
       what = excluded.what

-- name: answer_request
-- A request that waited for its job's end is answered later than its job is written, and perhaps with another status.
-- In key order, as above.
UPDATE {schema}.job_keys k SET status = :status::smallint
WHERE k.key = :key::text AND k.job_id = :job_id::bigint AND k.kind IN (:scope::text, :scope::text || ' ' || :digest::text)
