-- watch: following jobs while they run, once a second for all of them together.

-- fragment: sighting
-- Narrow on purpose: arguments and results may have a megabyte each.
j.id, j.kind, j.state, j.attempt, j.max_attempts, j.fence, j.seq, j.lane, w.name AS worker, j.cancel_requested,
j.run_after, j.claimed_at, j.finished_at, clock_timestamp() AS now,
p.reported_at, p.phase, p.progress, {progress_counts},
jsonb_strip_nulls(jsonb_build_object('reason', j.errors -> 'reason', 'type', j.errors -> 'type',
                                     'message', j.errors -> 'message'))::text AS error

-- fragment: sighting_sources
{schema}.jobs j
LEFT JOIN {schema}.workers w ON w.id = j.claimed_by
LEFT JOIN {schema}.job_progress p ON {own_progress}

-- name: watched_jobs
-- Followed jobs by primary key.
SELECT {sighting} FROM {sighting_sources} WHERE j.id = ANY (:ids::bigint[]) ORDER BY j.id

-- name: watched_running_jobs
-- What runs now, `n` jobs at most, and the present state of those seen before. MATERIALIZED: a few ids first, then
-- their rows.
WITH wanted AS MATERIALIZED (
  (SELECT r.id FROM {schema}.jobs r WHERE r.state = 'running' ORDER BY r.claimed_by, r.id LIMIT :n::integer)
  UNION
  SELECT s.id FROM unnest(:seen::bigint[]) AS s(id))
SELECT {sighting} FROM {sighting_sources} WHERE j.id IN (SELECT wanted.id FROM wanted) ORDER BY j.id

-- name: await_jobs
-- As await_job, for all of them at once.
INSERT INTO {schema}.job_waiters AS w (job_id, waiter, until)
SELECT d.id, :waiter::uuid, clock_timestamp() + :seconds::interval FROM unnest(:ids::bigint[]) AS d(id) ORDER BY d.id
ON CONFLICT (job_id, waiter) DO UPDATE SET until = excluded.until

-- name: forget_jobs
-- The end of await_jobs, in the same order of rows.
DELETE FROM {schema}.job_waiters w
USING (SELECT x.job_id FROM {schema}.job_waiters x
       WHERE x.waiter = :waiter::uuid AND x.job_id = ANY (:ids::bigint[]) ORDER BY x.job_id FOR UPDATE) AS own
WHERE w.waiter = :waiter::uuid AND w.job_id = own.job_id
