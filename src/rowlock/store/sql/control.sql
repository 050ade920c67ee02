-- control: what a person orders. Every order leaves a job_acts row in the same statement.

-- fragment: end_jobs
-- Needs a CTE `ending (id)` in id order and the parameters state, error; ends jobs in any live state at once and revokes the
-- claim: the late result of a running one is refused. `ending` has locked the rows, so the old values are read from it.
ended AS (
  UPDATE {schema}.jobs j
  SET state = :state::text, finished_at = now(), errors = coalesce(:error::jsonb, j.errors), fence = j.fence + 1, seq = j.seq + 1,
      claimed_by = NULL, gate_place = 0
  FROM ending e WHERE j.id = e.id
  RETURNING j.id, j.kind, j.tenant, e.fence, e.attempt, e.state, e.claimed_by, e.claimed_at, jsonb_build_object('state', j.state) AS after,
            CASE WHEN e.gate_place > 0 THEN j.gate_key END AS gate_key, CASE WHEN e.state = 'running' THEN j.lane END AS lane),
logged AS (
  INSERT INTO {schema}.job_attempts (job_id, fence, attempt, worker_id, worker_name, started_at, outcome, error)
  SELECT e.id, e.fence, e.attempt, e.claimed_by, w.name, e.claimed_at, 'stopped', :error::jsonb
  FROM ended e LEFT JOIN {schema}.workers w ON w.id = e.claimed_by WHERE e.state = 'running'
  ON CONFLICT DO NOTHING)

-- fragment: ending_columns
j.id, j.fence, j.attempt, j.state, j.claimed_by, j.claimed_at, j.gate_place

-- fragment: recorded
-- Who, when and why, for the rows of a CTE `ended (id, after jsonb)`: for the job's history, and for the audit.
recorded AS (
  INSERT INTO {schema}.job_acts (job_id, verb, by_whom, note)
  SELECT e.id, :verb::text, :by_whom::text, :note::text FROM ended e),
{audited}

-- name: cancel_waiting
-- A waiting job ends at once. The lock makes a concurrent claim either see it cancelled or be seen as running below.
WITH ending AS (
  SELECT {ending_columns} FROM {schema}.jobs j
  WHERE j.id = ANY (:ids::bigint[]) AND j.state IN ('pending', 'blocked', 'queued') ORDER BY j.id FOR UPDATE),
{end_jobs},
{recorded}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {told} AS told FROM ended m

-- name: cancel_running
-- A running one gets the flag (no transition: only seq moves); its worker hears of it at once and with its next beat.
WITH ended AS (
  UPDATE {schema}.jobs j SET cancel_requested = true, seq = j.seq + 1
  WHERE j.id = ANY (:ids::bigint[]) AND j.state = 'running' AND NOT j.cancel_requested
  RETURNING j.id, jsonb_build_object('state', j.state, 'cancel_requested', true) AS after),
{recorded}
SELECT coalesce(array_agg(e.id), '{}') AS ids,
       (SELECT pg_notify(:channel::text, json_build_object('cancel', json_agg(x.id))::text) FROM ended x HAVING count(*) > 0) AS told
FROM ended e

-- name: stop
-- State and fence at once, whatever the handler does; the message only makes its worker notice sooner.
WITH ending AS (
  SELECT {ending_columns} FROM {schema}.jobs j
  WHERE j.id = ANY (:ids::bigint[]) AND j.finished_at IS NULL ORDER BY j.id FOR UPDATE),
{end_jobs},
{recorded}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {told} AS told,
       (SELECT pg_notify(:channel::text, json_build_object('lost', json_agg(x.id))::text)
        FROM ended x WHERE x.state = 'running' HAVING count(*) > 0) AS stopped
FROM ended m

-- name: approve
-- pending -> queued at today's position: a job that waited for approval does not land behind the claim cursors.
WITH ended AS (
  UPDATE {schema}.jobs j
  SET state = 'queued', approval = 2, fence = j.fence + 1, seq = j.seq + 1, run_after = greatest(j.run_after, clock_timestamp())
  WHERE j.id = ANY (:ids::bigint[]) AND j.state = 'pending'
  RETURNING j.id, j.kind, j.priority, j.share, j.run_after, jsonb_build_object('state', j.state) AS after),
{recorded}
SELECT e.id, e.kind, e.priority, e.share, e.run_after FROM ended e ORDER BY e.id

-- name: reject
WITH ending AS (
  SELECT {ending_columns} FROM {schema}.jobs j
  WHERE j.id = ANY (:ids::bigint[]) AND j.state = 'pending' ORDER BY j.id FOR UPDATE),
{end_jobs},
{recorded}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {told} AS told FROM ended m

-- name: retry
-- A person's retry: new attempt budget; the finished run goes to history under its own fence, so that a late re-flush of it
-- is still recognised. A job whose unique key is held by a live twin stays as it is (blocked_by names the twin); a twin that
-- commits at this very moment raises a unique violation and the statement is run again. Never approved: back to pending.
WITH old AS (
  SELECT j.id, j.fence, j.attempt, j.claimed_by, j.claimed_at, j.finished_at, j.state, j.errors, twin.id AS blocked_by
  FROM {schema}.jobs j
  LEFT JOIN LATERAL (
    SELECT t.id FROM {schema}.jobs t
    WHERE t.unique_key = j.unique_key AND t.unique_scope = j.unique_scope AND t.finished_at IS NULL
      AND (t.unique_scope = 'live' OR t.state IN ('pending', 'blocked', 'queued')) LIMIT 1) AS twin ON true
  WHERE j.id = ANY (:ids::bigint[]) AND j.finished_at IS NOT NULL ORDER BY j.id FOR UPDATE OF j),
logged AS (
  INSERT INTO {schema}.job_attempts (job_id, fence, attempt, worker_id, worker_name, started_at, ended_at, outcome, error)
  SELECT o.id, o.fence - 1, o.attempt, o.claimed_by, w.name, o.claimed_at, o.finished_at, o.state, o.errors
  FROM old o LEFT JOIN {schema}.workers w ON w.id = o.claimed_by
  WHERE o.claimed_by IS NOT NULL AND o.blocked_by IS NULL ON CONFLICT DO NOTHING),
ended AS (
  UPDATE {schema}.jobs j
  SET state = CASE WHEN j.approval = 1 THEN 'pending' ELSE 'queued' END,
      finished_at = NULL, result = NULL, errors = NULL, attempt = 0, losses = 0, deaths = 0, refunds = 0, cancel_requested = false,
      claimed_by = NULL, claimed_at = NULL, lane = NULL, expires_at = NULL, too_old_at = NULL,
      run_after = clock_timestamp(), fence = j.fence + 1, seq = j.seq + 1
  FROM old o WHERE j.id = o.id AND o.blocked_by IS NULL
  RETURNING j.id, j.kind, j.priority, j.share, j.run_after, j.state, jsonb_build_object('state', j.state) AS after),
{recorded}
SELECT o.id, o.blocked_by, e.kind, e.priority, e.share, e.run_after, e.state
FROM old o LEFT JOIN ended e ON e.id = o.id ORDER BY o.id

-- name: reprioritise
-- No transition, so the fence stays; a new position in the new pair, never behind its cursor.
WITH ended AS (
  UPDATE {schema}.jobs j
  SET priority = :priority::smallint, seq = j.seq + 1, run_after = greatest(j.run_after, clock_timestamp())
  WHERE j.id = ANY (:ids::bigint[]) AND j.state IN ('pending', 'blocked', 'queued')
  RETURNING j.id, j.kind, j.priority, j.share, j.run_after, j.state,
            jsonb_build_object('state', j.state, 'priority', j.priority) AS after),
{recorded}
SELECT e.id, e.kind, e.priority, e.share, e.run_after, e.state FROM ended e ORDER BY e.id
