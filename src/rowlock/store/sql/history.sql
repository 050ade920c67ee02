-- history: reading jobs. Keyset pages, no counts over the whole table.

-- fragment: job_row
j.id, j.kind, j.state, j.priority, j.attempt, j.max_attempts, j.losses, j.fence, j.seq, j.lane, j.tenant, j.submitted_by,
j.created_at, j.run_after, j.claimed_at, j.finished_at, j.expires_at, j.too_old_at, j.claimed_by, j.cancel_requested,
j.unique_key, j.gate_key, j.tags, j.refs, j.meta, j.args, j.result, j.errors, j.approval, j.refunds,
w.name AS worker, p.phase, p.progress, p.reported_at

-- fragment: progress_counts
p.n AS report, p.phases, p.items_in_progress, p.items_completed, p.items_skipped, p.items_failed

-- fragment: job_view
-- The step's name is looked up for steps alone.
{job_row}, {progress_counts}, j.workflow_id,
CASE WHEN j.workflow_id IS NOT NULL THEN (SELECT s.name FROM {schema}.workflow_steps s WHERE s.job_id = j.id) END AS step

-- fragment: own_progress
-- That of the attempt under way, or of the last one while none is; an earlier attempt's is none of this one's.
p.job_id = j.id AND p.fence >= j.fence - (j.state <> 'running')::integer

-- fragment: job_sources
{schema}.jobs j
LEFT JOIN {schema}.workers w ON w.id = j.claimed_by
LEFT JOIN {schema}.job_progress p ON {own_progress}

-- fragment: visible
-- Which jobs j somebody sees. Parameters: sees_all (they hold jobs:read_all), tenant and subject of the principal; in Python
-- Guard.sight yields all three. Whoever belongs to a tenant sees its jobs; whoever belongs to none, those of no tenant that they
-- submitted themselves: the same name may be somebody else's under another tenant.
(:sees_all::boolean OR j.tenant = :tenant::text
  OR (:tenant::text IS NULL AND j.tenant IS NULL AND j.submitted_by = :subject::text))

-- name: jobs_by_id
SELECT {job_view} FROM {job_sources} WHERE j.id = ANY (:ids::bigint[]) AND {visible} ORDER BY j.id

-- name: few_jobs
-- The ids of all jobs in these states, through the partial indexes, if they are few: a list of dead letters or approvals must
-- not walk a history of millions. Some that wait for other jobs, or for a signal, may have ended meanwhile: every row is looked
-- at again. One state with more than the cap: they are no needles then, and the walk by id finds them.
WITH RECURSIVE {gate_heads},
{queued_heads}
SELECT p.ids, cardinality(p.ids) <= :cap::integer
         AND NOT ('blocked' = ANY (:states::text[]) AND (SELECT count(*) FROM seen) >= 2000) AS complete FROM (SELECT ARRAY(
  (SELECT j.id FROM {schema}.jobs j WHERE j.state = 'pending' AND 'pending' = ANY (:states::text[])
    ORDER BY j.id LIMIT :cap::integer + 1)
  UNION ALL
  (SELECT parked.id FROM seen s CROSS JOIN LATERAL (
      SELECT j.id FROM {schema}.jobs j WHERE j.gate_key = s.gate_key AND j.gate_place = -1 AND j.finished_at IS NULL
      ORDER BY j.priority DESC, j.run_after, j.id LIMIT :cap::integer + 1) AS parked
    WHERE s.gate_place = -1 AND 'blocked' = ANY (:states::text[]) LIMIT :cap::integer + 1)
  UNION ALL
  (SELECT w.job_id FROM {schema}.waits w WHERE (w.go IS NULL OR w.signal IS NOT NULL) AND 'blocked' = ANY (:states::text[])
    ORDER BY w.job_id LIMIT :cap::integer + 1)
  UNION ALL
  (SELECT q.id FROM h CROSS JOIN LATERAL (
      SELECT j.id FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind = h.kind AND j.priority = h.priority AND j.share = h.share
      ORDER BY j.run_after, j.id LIMIT :cap::integer + 1) AS q
    WHERE 'queued' = ANY (:states::text[]) AND (:kind::text IS NULL OR h.kind = :kind::text) LIMIT :cap::integer + 1)
  UNION ALL
  (SELECT j.id FROM {schema}.jobs j WHERE j.state = 'running' AND 'running' = ANY (:states::text[])
    ORDER BY j.claimed_by, j.id LIMIT :cap::integer + 1)
  UNION ALL
  (SELECT j.id FROM {schema}.jobs j WHERE j.state = 'failed' AND 'failed' = ANY (:states::text[])
    ORDER BY j.id DESC LIMIT :cap::integer + 1)) AS ids) AS p

-- name: delete_job
-- A final job with everything beside it; its idempotency key keeps its own retention. The audit keeps what it was. A step stays
-- while its workflow goes on: others wait for it, or read its result.
WITH gone AS (
  DELETE FROM {schema}.jobs j WHERE j.id = :id::bigint AND j.finished_at IS NOT NULL
     AND NOT EXISTS (SELECT 1 FROM {schema}.workflows f WHERE f.id = j.workflow_id AND f.finished_at IS NULL)
  RETURNING j.id, j.refs, j.tags),
{gone_beside},
ended AS (SELECT gone.id, NULL::jsonb AS after FROM gone),
{audited}
SELECT gone.id FROM gone

-- name: attempts_of
SELECT a.fence, a.attempt, a.worker_name, a.started_at, a.ended_at, a.outcome, a.error
FROM {schema}.job_attempts a WHERE a.job_id = :id::bigint ORDER BY a.fence

-- name: acts_of
SELECT c.at, c.verb, c.by_whom, c.note FROM {schema}.job_acts c WHERE c.job_id = :id::bigint ORDER BY c.id

-- name: outcome_of
SELECT j.state, j.finished_at IS NOT NULL AS final, j.result, j.errors FROM {schema}.jobs j WHERE j.id = :id::bigint

-- name: await_job
-- Registered before the state is looked at: a finish that commits later sees the waiter and notifies.
INSERT INTO {schema}.job_waiters AS w (job_id, waiter, until)
VALUES (:id::bigint, :waiter::uuid, clock_timestamp() + :seconds::interval)
ON CONFLICT (job_id, waiter) DO UPDATE SET until = excluded.until

-- name: forget_waiter
DELETE FROM {schema}.job_waiters w WHERE w.job_id = :id::bigint AND w.waiter = :waiter::uuid
