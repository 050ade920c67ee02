-- finish: running -> any other state, under the claim (id, fence). Arrays arrive sorted by id: all writers lock job
-- rows in id order, so none deadlock.

-- fragment: left_places
-- The places that the leaving rows held: at their gate, and at the cap of their lane. Keys without a gate row are
-- ignored.
{schema}.gate_leave(array_remove(array_agg(m.gate_key) || array_agg('lane:' || m.lane), NULL))

-- fragment: followed
-- For rows that are steps of workflows: the jobs that their ends release, [id, kind, priority, share, run_after as
-- epoch] each. After the places, since workflows are locked after gates. Without steps the function is not entered.
{schema}.workflow_follow(array_agg(m.id) FILTER (WHERE m.workflow_id IS NOT NULL), :channel::text) AS released

-- fragment: not_again
-- Judged on the locked row (j): a cancel that commits while this statement waits for the row is still seen. It also
-- ends a job that would be held for a person (pending).
(l.state <> 'failed' AND (j.cancel_requested OR was.twin IS NOT NULL))

-- fragment: requeue
-- Needs a CTE `leaving (id, fence, state, delay, refund, loss, death, outcome, error, owner)`. Serves the owner's retry,
-- snooze and interruption, and the rescue and disowning of claims, so that every way back to the queue obeys one set of
-- rules:
--   a requested cancel wins over another attempt
--   a job of scope 'waiting' whose trailing twin already waits is not needed any more: it ends as superseded (a twin that
--   commits at this very moment raises a unique violation: the statement is run again, and then sees it)
--   several jobs of one key may run, and may come back in one statement: the newest goes back, the others end as
--   superseded
--   a revocation (owner NULL) clears claimed_by, the owner's own write keeps it: `settled` relies on that
--   the owner is checked as in `mine`
--   a job that no worker can read comes back again and again: one attempt row per cause, and no limit on how often
--   attempt + losses + refunds + runs_before never falls: what leaves one of them enters another
moved AS (
  UPDATE {schema}.jobs j
  SET state = CASE WHEN {not_again} THEN 'cancelled' ELSE l.state END,
      finished_at = CASE WHEN {not_again} OR l.state = 'failed' THEN now() END,
      errors = CASE WHEN was.twin IS NOT NULL AND {not_again} THEN jsonb_build_object('reason', 'superseded', 'by', was.twin)
                    ELSE l.error END,
      run_after = CASE WHEN l.state = 'queued' THEN clock_timestamp() + make_interval(secs => l.delay) ELSE j.run_after END,
      approval = CASE WHEN l.state = 'pending' THEN (j.approval & 32764) | 1 ELSE j.approval END,
      approvers = CASE WHEN l.state = 'pending' THEN NULL ELSE j.approvers END,
      attempt = j.attempt - l.refund, losses = least(32000, j.losses + l.loss), deaths = least(32000, j.deaths + l.death),
      refunds = least(32000, j.refunds + l.refund * (1 - l.loss) * (l.outcome <> 'unreadable')::integer),
      runs_before = CASE WHEN l.outcome = 'unreadable' THEN coalesce(j.runs_before, 0) + l.refund ELSE j.runs_before END,
      fence = j.fence + 1, seq = j.seq + 1, gate_place = 0, rate_turn = CASE WHEN l.outcome = 'limited' THEN true END,
      claimed_by = l.owner
  FROM leaving l
  CROSS JOIN LATERAL (
    SELECT me.claimed_by, me.claimed_at, me.attempt, me.errors ->> 'cause' AS cause, twin.id AS twin
    FROM {schema}.jobs me
    LEFT JOIN LATERAL (
      (SELECT t.id FROM {schema}.jobs t
        WHERE me.unique_scope = 'waiting' AND t.unique_key = me.unique_key AND t.unique_scope = 'waiting'
          AND t.state IN ('pending', 'blocked', 'queued') LIMIT 1)
      UNION ALL
      (SELECT t.id FROM leaving o JOIN {schema}.jobs t ON t.id = o.id AND t.fence = o.fence AND t.finished_at IS NULL
        WHERE me.unique_scope = 'waiting' AND t.unique_key = me.unique_key AND t.unique_scope = 'waiting'
          AND t.id > me.id AND o.state <> 'failed' AND NOT t.cancel_requested LIMIT 1)
      LIMIT 1) AS twin ON true
    WHERE me.id = l.id) AS was
  WHERE j.id = l.id AND j.fence = l.fence AND j.finished_at IS NULL AND (l.owner IS NULL OR j.claimed_by = l.owner)
  RETURNING j.id, l.fence, was.attempt, was.claimed_by, was.claimed_at, was.cause, l.outcome, l.error, j.gate_key, j.lane,
            j.state, j.kind, j.priority, j.share, j.run_after, j.tenant, j.workflow_id, j.meta -> 'trace_context' AS trace),
logged AS (
  INSERT INTO {schema}.job_attempts (job_id, fence, attempt, worker_id, worker_name, started_at, outcome, error)
  SELECT m.id, m.fence, m.attempt, m.claimed_by, w.name, m.claimed_at, m.outcome, m.error
  FROM moved m LEFT JOIN {schema}.workers w ON w.id = m.claimed_by
  WHERE m.outcome <> 'unreadable' OR m.error ->> 'cause' IS DISTINCT FROM m.cause
  ON CONFLICT DO NOTHING)

-- fragment: places
-- For statements that answer a row per job: gives back the places of the moved rows, once. As a joined subquery it
-- could be run for each row, and every run would give the same places back again.
places AS MATERIALIZED (SELECT {left_places} AS promoted, {followed} FROM moved m)

-- fragment: notified
-- If a caller awaits one of these jobs: as few messages as hold their ids. Usually job_waiters is empty, and this costs
-- one page.
(SELECT {schema}.notify_ids(:channel::text, 'done', array_agg(DISTINCT w.job_id))
 FROM {schema}.job_waiters w WHERE w.job_id = ANY (array_agg(m.id)) HAVING count(*) > 0)

-- fragment: hooked
-- Needs a CTE `hooking (id, fence, attempt, state, error, tenant, trace, hook, hook_attempts)` of rows that this
-- statement has moved. A hook is a job, inserted with the outcome that it follows: a stale claim moves no row and so
-- inserts no hook, and a kill after the commit loses none. It goes on with the trace of the job that it follows; the
-- rest of that job's meta stays with that job.
hooked AS (
  INSERT INTO {schema}.jobs (kind, max_attempts, tenant, meta, args)
  SELECT h.hook, h.hook_attempts, h.tenant,
         CASE WHEN h.trace IS NOT NULL THEN jsonb_build_object('trace_context', h.trace) END,
         jsonb_build_object('job', h.id, 'fence', h.fence, 'attempt', h.attempt, 'state', h.state, 'error', h.error)
  FROM hooking h
  RETURNING kind, run_after)

-- fragment: hooks_notified
-- Where the hooks are: their pairs are (kind, 0, 0).
(SELECT array_agg(DISTINCT h.kind) FROM hooked h) AS hook_kinds, (SELECT min(h.run_after) FROM hooked h) AS hooks_at

-- fragment: mine
-- The guard of every completion. It never names `state`: with it the planner may pick the small jobs_running index and
-- read 60 times the buffers. A server that has lost commits (a lagging replica that was promoted, a restored backup)
-- gives ids and fences out again: the worker's id distinguishes a claim of the lost history from one that another
-- worker has got since.
j.claimed_by = :worker::bigint AND j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL

-- name: complete
-- Final states with results and errors, for a batch of claims. Places, waiters and following steps are served in the
-- same transaction.
WITH m AS (
  UPDATE {schema}.jobs j
  SET state = d.state, finished_at = now(), result = d.result, errors = d.error, fence = j.fence + 1, seq = j.seq + 1,
      gate_place = 0
  FROM unnest(:ids::bigint[], :fences::integer[], :states::text[], :results::jsonb[], :errors::jsonb[])
       AS d(id, fence, state, result, error)
  WHERE {mine}
  RETURNING j.id, j.gate_key, j.lane, j.workflow_id)
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed} FROM m

-- name: complete_plain
-- `complete` for a batch of jobs that all returned nothing: two arrays instead of five, for client and server alike.
WITH m AS (
  UPDATE {schema}.jobs j
  SET state = 'completed', finished_at = now(), result = NULL, errors = NULL, fence = j.fence + 1, seq = j.seq + 1, gate_place = 0
  FROM unnest(:ids::bigint[], :fences::integer[]) AS d(id, fence)
  WHERE {mine}
  RETURNING j.id, j.gate_key, j.lane, j.workflow_id)
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed} FROM m

-- name: complete_hooked
-- `complete` for batches with kinds that have hooks; other batches do not pay for the CTEs.
WITH m AS (
  UPDATE {schema}.jobs j
  SET state = d.state, finished_at = now(), result = d.result, errors = d.error, fence = j.fence + 1, seq = j.seq + 1,
      gate_place = 0
  FROM unnest(:ids::bigint[], :fences::integer[], :states::text[], :results::jsonb[], :errors::jsonb[], :hooks::text[],
              :hook_attempts::smallint[])
       AS d(id, fence, state, result, error, hook, hook_attempts)
  WHERE {mine}
  RETURNING j.id, j.gate_key, j.lane, j.workflow_id, d.fence, j.attempt, j.state, j.tenant, j.meta -> 'trace_context' AS trace,
            d.error, d.hook, d.hook_attempts),
hooking AS (
  SELECT m.id, m.fence, m.attempt, m.state, CASE WHEN m.state = 'failed' THEN m.error END AS error, m.tenant, m.trace,
         m.hook, m.hook_attempts
  FROM m WHERE m.hook IS NOT NULL),
{hooked}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed}, {hooks_notified} FROM m

-- name: give_back
-- Retry, snooze, interruption, unreadable arguments, death of a child process: the owner's own way back to the queue,
-- or (held) to a person.
WITH leaving AS (
  SELECT d.id, d.fence, d.state, d.delay, d.refund, d.death AS loss, d.death, d.outcome, d.error, :worker::bigint AS owner
  FROM unnest(:ids::bigint[], :fences::integer[], :states::text[], :delays::float8[], :refunds::integer[], :deaths::integer[],
              :outcomes::text[], :errors::jsonb[])
       AS d(id, fence, state, delay, refund, death, outcome, error)),
{requeue}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed},
       min(m.run_after) FILTER (WHERE m.state = 'queued') AS again_at FROM moved m

-- name: give_back_hooked
-- `give_back` with hooks. A job that a cancel or a twin ended, instead of another attempt, gets none.
WITH leaving AS (
  SELECT d.id, d.fence, d.state, d.delay, d.refund, d.death AS loss, d.death, d.outcome, d.error, :worker::bigint AS owner
  FROM unnest(:ids::bigint[], :fences::integer[], :states::text[], :delays::float8[], :refunds::integer[], :deaths::integer[],
              :outcomes::text[], :errors::jsonb[])
       AS d(id, fence, state, delay, refund, death, outcome, error)),
{requeue},
hooking AS (
  SELECT m.id, m.fence, m.attempt, m.state, m.error, m.tenant, m.trace, d.hook, d.hook_attempts
  FROM moved m JOIN unnest(:ids::bigint[], :hooks::text[], :hook_attempts::smallint[]) AS d(id, hook, hook_attempts) ON d.id = m.id
  WHERE d.hook IS NOT NULL AND m.state = 'queued'),
{hooked}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed},
       min(m.run_after) FILTER (WHERE m.state = 'queued') AS again_at, {hooks_notified} FROM moved m

-- name: suspend
-- running -> blocked until a signal comes. Otherwise a way back like any other, so a requested cancel and a trailing
-- twin win over it. signal_await runs after every row is moved, with a snapshot of its own, so that a signal committed
-- while this statement waited for the row is seen. It comes before the ends are followed: else a suspended step could
-- be taken for one whose edges are fulfilled.
WITH leaving AS (
  SELECT d.id, d.fence, 'blocked'::text AS state, 0::float8 AS delay, 1 AS refund, 0 AS loss, 0 AS death, 'waiting'::text AS outcome,
         jsonb_build_object('reason', 'waits for a signal', 'signal', d.signal) AS error, :worker::bigint AS owner
  FROM unnest(:ids::bigint[], :fences::integer[], :signals::text[]) AS d(id, fence, signal)),
{requeue}
SELECT coalesce(array_agg(m.id), '{}') AS ids,
       {schema}.signal_await(array_agg(m.id), :ids::bigint[], :signals::text[], :seconds::float8[]) AS resumed,
       {left_places} AS promoted, {notified} AS notified, {followed}
FROM moved m

-- name: settled
-- What became of writes that hit no row. Every transition adds exactly one to the fence and every revocation clears
-- claimed_by, so fence + 1 with my id is my own earlier write, whose acknowledgement was lost; after the job moved on,
-- its attempt row says the same. Anything else is a lost claim.
SELECT d.id, d.fence, (j.fence = d.fence + 1 AND j.claimed_by = :worker::bigint)
          OR coalesce(a.worker_id = :worker::bigint AND a.outcome NOT IN ('lost', 'disowned', 'stopped'), false) AS applied
FROM unnest(:ids::bigint[], :fences::integer[]) AS d(id, fence)
LEFT JOIN {schema}.jobs j ON j.id = d.id
LEFT JOIN {schema}.job_attempts a ON a.job_id = d.id AND a.fence = d.fence

-- name: guard
-- ctx.guarded(), inside the user's own transaction. FOR SHARE holds the claim until their commit: a revocation waits,
-- so their rows are committed only while the claim still stands. The worker is checked as in `mine`.
SELECT j.id FROM {schema}.jobs j
WHERE j.claimed_by = :worker::bigint AND j.id = :id::bigint AND j.fence = :fence::integer AND j.finished_at IS NULL FOR SHARE
