-- history: reading jobs. Keyset pages; no counts over the whole table.

-- fragment: job_row
j.id, j.kind, j.state, j.priority, j.attempt, j.max_attempts, j.losses, j.fence, j.seq, j.lane, j.tenant, j.submitted_by,
j.created_at, j.run_after, j.claimed_at, j.finished_at, j.expires_at, j.too_old_at, j.claimed_by, j.cancel_requested,
j.unique_key, j.gate_key, j.tags, j.refs, j.meta, j.args, j.result, j.errors, j.approval, j.refunds,
w.name AS worker, p.phase, p.progress, p.reported_at

-- fragment: progress_counts
p.n AS report, p.phases, p.items_in_progress, p.items_completed, p.items_skipped, p.items_failed

-- fragment: job_view
-- The name of the step is looked up for steps only.
{job_row}, {progress_counts}, j.runs_before, j.workflow_id,
(SELECT y.backend_job_id FROM {schema}.job_deliveries y WHERE y.job_id = j.id) AS backend_job_id,
CASE WHEN j.workflow_id IS NOT NULL THEN (SELECT s.name FROM {schema}.workflow_steps s WHERE s.job_id = j.id) END AS step

-- fragment: own_progress
-- The progress of the current attempt, or of the last one while none runs; progress of earlier attempts does not count.
p.job_id = j.id AND p.fence >= j.fence - (j.state <> 'running')::integer

-- fragment: job_sources
{schema}.jobs j
LEFT JOIN {schema}.workers w ON w.id = j.claimed_by
LEFT JOIN {schema}.job_progress p ON {own_progress}

-- fragment: own_job
-- A principal with a tenant owns the jobs of that tenant; one without, the jobs without tenant that it submitted itself,
-- since under a tenant the same name may be another person's.
(j.tenant = :tenant::text OR (:tenant::text IS NULL AND j.tenant IS NULL AND j.submitted_by = :subject::text))

-- fragment: lane_of_job
-- The lane that claimed the job last; before its first claim, the lane that would take it now.
coalesce(j.lane, (SELECT l.name FROM {schema}.lanes l WHERE j.kind = ANY (l.kinds) ORDER BY l.name LIMIT 1),
         (SELECT l.name FROM {schema}.lanes l WHERE '*' = ANY (l.kinds) ORDER BY l.name LIMIT 1))

-- fragment: granted_scopes
-- The scopes of a principal's permissions, from the JSON that Guard.granted makes; kind and lane are patterns of LIKE.
jsonb_to_recordset(:granted::jsonb) AS g(kind text, lane text, everyone boolean)

-- fragment: visible
-- Which jobs j a principal sees. sees_all: it holds jobs:read_all; tenant and subject: its own. granted: NULL unless one
-- of its permissions has a scope, so that others pay nothing for scopes: a CASE evaluates one branch alone.
(CASE WHEN :granted::jsonb IS NULL THEN :sees_all::boolean OR {own_job}
      ELSE EXISTS (SELECT 1 FROM {granted_scopes}
                   WHERE j.kind LIKE g.kind AND (g.lane = '%' OR {lane_of_job} LIKE g.lane) AND (g.everyone OR {own_job})) END)

-- name: kinds_within
-- The kinds that a principal reaches, each in the lane that takes it now; asked only if a permission has a scope.
SELECT j.kind FROM (SELECT k.kind, NULL::text AS lane FROM unnest(:kinds::text[]) AS k(kind)) AS j
WHERE EXISTS (SELECT 1 FROM {granted_scopes} WHERE j.kind LIKE g.kind AND (g.lane = '%' OR {lane_of_job} LIKE g.lane))

-- name: jobs_by_id
-- Jobs that the caller may see, by primary key.
SELECT {job_view} FROM {job_sources} WHERE j.id = ANY (:ids::bigint[]) AND {visible} ORDER BY j.id

-- name: few_jobs
-- The ids of all jobs in these states, through the partial indexes, if they are few: a list of dead letters or
-- approvals must not read a history of millions. Jobs that wait for other jobs or a signal may have ended meanwhile, so
-- every row is checked again. If one state has more than the cap, a search by id finds them soon enough.
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
-- A final job with everything that belongs to it; its idempotency key has a retention of its own. The audit keeps what
-- it was. A step stays while its workflow is live: others wait for it, or read its result.
WITH gone AS (
  DELETE FROM {schema}.jobs j WHERE j.id = :id::bigint AND j.finished_at IS NOT NULL
     AND NOT EXISTS (SELECT 1 FROM {schema}.workflows f WHERE f.id = j.workflow_id AND f.finished_at IS NULL)
  RETURNING j.id, j.refs, j.tags),
{gone_beside},
ended AS (SELECT gone.id, NULL::jsonb AS after FROM gone),
{audited}
SELECT gone.id FROM gone

-- name: previous_job
-- The last job of the same kind and tenant before this one that has run, among the ids just below: there is no index by
-- kind, and a page that compares arguments must not wait for one. A range of ids, not a number of rows: with statistics
-- that are behind, the planner read the whole table for the latter.
SELECT x.id FROM {schema}.jobs x JOIN {schema}.jobs o ON o.id = :id::bigint
WHERE x.id < :id::bigint AND x.id >= :id::bigint - :walk::integer AND x.kind = o.kind AND x.tenant IS NOT DISTINCT FROM o.tenant AND x.claimed_at IS NOT NULL ORDER BY x.id DESC LIMIT 1

-- name: job_relatives
-- The jobs that this one waits or waited for and those that wait for it, by the keys of edges; the job after whose outcome
-- this hook runs; the hooks after outcomes of this job, by an index of hooks only. A number of 18 digits at most, since a
-- kind may be spelled like a hook's and take any argument.
(SELECT 'parent' AS relation, j.id, j.kind, j.state, s.name AS step, e.met FROM {schema}.edges e JOIN {schema}.jobs j ON j.id = e.upstream
  LEFT JOIN {schema}.workflow_steps s ON s.job_id = j.id WHERE e.downstream = :id::bigint AND {visible} ORDER BY j.id LIMIT :n::integer)
UNION ALL
(SELECT 'child', j.id, j.kind, j.state, s.name, e.met FROM {schema}.edges e JOIN {schema}.jobs j ON j.id = e.downstream
  LEFT JOIN {schema}.workflow_steps s ON s.job_id = j.id WHERE e.upstream = :id::bigint AND {visible} ORDER BY j.id LIMIT :n::integer)
UNION ALL
(SELECT 'hooked', j.id, j.kind, j.state, s.name, NULL FROM {schema}.jobs h
  JOIN {schema}.jobs j ON j.id = substring(h.args ->> 'job' FROM '^[0-9]{1,18}$')::bigint
  LEFT JOIN {schema}.workflow_steps s ON s.job_id = j.id
  WHERE h.id = :id::bigint AND h.kind = ANY (ARRAY[j.kind || '/on_success', j.kind || '/on_failure', j.kind || '/on_exhausted'])
    AND {visible})
UNION ALL
(SELECT 'hook', j.id, j.kind, j.state, NULL, NULL FROM {schema}.jobs j JOIN {schema}.jobs o ON o.id = :id::bigint
  WHERE j.args ->> 'job' = :id::bigint::text AND j.kind LIKE '%/on\_%'
    AND j.kind = ANY (ARRAY[o.kind || '/on_success', o.kind || '/on_failure', o.kind || '/on_exhausted']) AND {visible}
  ORDER BY j.id LIMIT :n::integer)

-- name: attempts_of
-- Attempts that the job's own row does not describe, in their order.
SELECT a.fence, a.attempt, a.worker_name, a.started_at, a.ended_at, a.outcome, a.error
FROM {schema}.job_attempts a WHERE a.job_id = :id::bigint ORDER BY a.fence

-- name: acts_of
-- Orders of people, in their order.
SELECT c.at, c.verb, c.by_whom, c.note FROM {schema}.job_acts c WHERE c.job_id = :id::bigint ORDER BY c.id

-- name: outcome_of
-- For job.wait(): narrow, since it is polled.
SELECT j.state, j.finished_at IS NOT NULL AS final, j.result, j.errors FROM {schema}.jobs j WHERE j.id = :id::bigint

-- name: await_job
-- Registered before the state is read: a finish that commits later sees the waiter and notifies.
INSERT INTO {schema}.job_waiters AS w (job_id, waiter, until)
VALUES (:id::bigint, :waiter::uuid, clock_timestamp() + :seconds::interval)
ON CONFLICT (job_id, waiter) DO UPDATE SET until = excluded.until

-- name: forget_waiter
-- The caller waits no more; a row left behind by a crash runs out by itself.
DELETE FROM {schema}.job_waiters w WHERE w.job_id = :id::bigint AND w.waiter = :waiter::uuid
