-- control: orders that people give to jobs. Every order writes a job_acts row in the same statement.

-- fragment: mark
-- The position of an act in its job's history: fence and seq after it. Streams order acts by this, never by the clock.
-- `stays`: the act was no transition, only seq moved.
jsonb_build_object('fence', j.fence, 'seq', j.seq)

-- fragment: end_jobs
-- Needs a CTE `ending (id, …)` in id order and the parameters state and error. Ends jobs in any live state at once and
-- revokes the claim, so that the late result of a running job is refused. `ending` has locked the rows, so the old
-- values are read from it.
ended AS (
  UPDATE {schema}.jobs j
  SET state = :state::text, finished_at = now(), errors = coalesce(:error::jsonb, j.errors), fence = j.fence + 1, seq = j.seq + 1,
      claimed_by = NULL, gate_place = 0
  FROM ending e WHERE j.id = e.id
  RETURNING j.id, j.kind, j.tenant, j.meta -> 'trace_context' AS trace, j.workflow_id, e.fence, e.attempt, e.state, e.claimed_by, e.claimed_at, jsonb_build_object('state', j.state) AS after,
            CASE WHEN e.gate_place > 0 THEN j.gate_key END AS gate_key, CASE WHEN e.state = 'running' THEN j.lane END AS lane,
            {mark} AS mark),
logged AS (
  INSERT INTO {schema}.job_attempts (job_id, fence, attempt, worker_id, worker_name, started_at, outcome, error)
  SELECT e.id, e.fence, e.attempt, e.claimed_by, w.name, e.claimed_at, 'stopped', :error::jsonb
  FROM ended e LEFT JOIN {schema}.workers w ON w.id = e.claimed_by WHERE e.state = 'running'
  ON CONFLICT DO NOTHING)

-- fragment: ending_columns
j.id, j.fence, j.attempt, j.state, j.claimed_by, j.claimed_at, j.gate_place

-- fragment: recorded
-- By whom, when and why, for the rows of a CTE `ended (id, after, mark)`: in the job's history and in the audit.
recorded AS (
  INSERT INTO {schema}.job_acts (job_id, verb, by_whom, note, detail)
  SELECT e.id, :verb::text, :by_whom::text, :note::text, e.mark FROM ended e),
{audited}

-- name: cancel_waiting
-- A waiting job ends at once. Because of the lock a concurrent claim either finds it cancelled, or came first; then
-- cancel_running applies.
WITH ending AS (
  SELECT {ending_columns} FROM {schema}.jobs j
  WHERE j.id = ANY (:ids::bigint[]) AND j.state IN ('pending', 'blocked', 'queued') ORDER BY j.id FOR NO KEY UPDATE),
{end_jobs},
{recorded}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed} FROM ended m

-- name: cancel_running
-- A running job gets the flag, which is no transition: only seq moves. The notification reaches its worker at once; the
-- next beat does, too. Locked in id order first: an UPDATE alone locks rows in the order of its plan.
WITH asked AS MATERIALIZED (
  SELECT j.id FROM {schema}.jobs j
  WHERE j.id = ANY (:ids::bigint[]) AND j.state = 'running' AND NOT j.cancel_requested ORDER BY j.id FOR NO KEY UPDATE),
ended AS (
  UPDATE {schema}.jobs j SET cancel_requested = true, seq = j.seq + 1 FROM asked a WHERE j.id = a.id
  RETURNING j.id, jsonb_build_object('state', j.state, 'cancel_requested', true) AS after,
            {mark} || jsonb_build_object('stays', true) AS mark),
{recorded}
SELECT coalesce(array_agg(e.id), '{}') AS ids,
       (SELECT {schema}.notify_ids(:channel::text, 'cancel', array_agg(x.id)) FROM ended x HAVING count(*) > 0) AS notified
FROM ended e

-- name: stop
-- Changes state and fence at once, whatever the handler does; the notification only makes its worker notice sooner.
WITH ending AS (
  SELECT {ending_columns} FROM {schema}.jobs j
  WHERE j.id = ANY (:ids::bigint[]) AND j.finished_at IS NULL ORDER BY j.id FOR NO KEY UPDATE),
{end_jobs},
{recorded}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed},
       (SELECT {schema}.notify_ids(:channel::text, 'lost', array_agg(x.id))
        FROM ended x WHERE x.state = 'running' HAVING count(*) > 0) AS stopped
FROM ended m

-- fragment: approved_columns
-- For an UPDATE of jobs j FROM a row g (enough, by_whom). jobs.approval in bits: the lowest two are 0 not needed, 1
-- needed, 2 given; bit 4: four eyes; the rest: how many beyond one must approve. The last approval moves pending ->
-- queued at a new position, so that the job does not land behind the claim cursors. Earlier approvals are no
-- transition: only seq moves.
SET approvers = array_append(j.approvers, g.by_whom), seq = j.seq + 1, fence = j.fence + g.enough::integer,
    state = CASE WHEN g.enough THEN 'queued' ELSE j.state END,
    approval = CASE WHEN g.enough THEN (j.approval & 32764) | 2 ELSE j.approval END,
    answer_by = CASE WHEN g.enough THEN NULL ELSE j.answer_by END,
    run_after = CASE WHEN g.enough THEN greatest(j.run_after, clock_timestamp()) ELSE j.run_after END

-- fragment: approved_rows
j.id, j.kind, j.priority, j.share, j.run_after, j.state,
jsonb_build_object('state', j.state, 'approvers', to_jsonb(j.approvers)) AS after,
{mark} || CASE WHEN j.state = 'pending' THEN jsonb_build_object('stays', true) ELSE '{}' END AS mark

-- fragment: approving
cardinality(coalesce(j.approvers, '{}')) >= (j.approval >> 3) AS enough

-- fragment: needs_others
-- Whether a submitter with permissions of its own is refused although four eyes are not asked for. Not for a job that is
-- held after its worker died: its approval was given or never needed.
(:principal::boolean AND j.approval & 3 = 1
 AND NOT coalesce((SELECT k.own_approval FROM {schema}.kinds k WHERE k.name = j.kind), false))

-- name: approve
-- Judged on the locked row, so two concurrent approvers count as two, and after the last one there is nothing left to
-- approve. `refused` says why an approval does not count: late (it should have been given before), own (they submitted
-- it), edited (they changed the arguments), unnamed, again. Own and edited: where four eyes are asked for, and for a
-- caller with permissions of its own (`principal`) also where they are not, unless the kind lets submitters approve.
WITH judged AS (
  SELECT j.id, {approving}, :by_whom::text AS by_whom, j.submitted_by,
         CASE WHEN j.answer_by <= clock_timestamp() THEN 'late'
              WHEN j.approval & 4 <> 0 AND coalesce(j.submitted_by = :by_whom::text, true) THEN 'own'
              WHEN {needs_others} AND j.submitted_by = :by_whom::text THEN 'own'
              WHEN (j.approval & 4 <> 0 OR {needs_others}) AND EXISTS (
                SELECT 1 FROM {schema}.job_acts a
                WHERE a.job_id = j.id AND a.verb = 'edit' AND a.by_whom = :by_whom::text AND a.detail ? 'args') THEN 'edited'
              WHEN j.approval >> 3 > 0 AND :by_whom::text IS NULL THEN 'unnamed'
              WHEN :by_whom::text = ANY (j.approvers) THEN 'again' END AS refused
  FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) AND j.state = 'pending' ORDER BY j.id FOR NO KEY UPDATE),
ended AS (
  UPDATE {schema}.jobs j {approved_columns}
  FROM judged g WHERE j.id = g.id AND g.refused IS NULL
  RETURNING {approved_rows}),
{recorded}
SELECT g.id, g.refused, g.submitted_by, e.kind, e.priority, e.share, e.run_after, e.state
FROM judged g LEFT JOIN ended e ON e.id = g.id ORDER BY g.id

-- name: auto_approve
-- Right after the insert, in its transaction, and only for jobs that need approval. Also after an edit that voided an
-- approval; a crash in between leaves the job to a person.
SELECT a.id, a.state, a.run_after FROM {schema}.approve_by_rule(:ids::bigint[]) AS a

-- name: approval_rules
-- Every rule; there are few.
SELECT r.id, r.kind, r.submitted_by, r.tenant, r.args, r.args_match, r.note, r.created_by, r.created_at
FROM {schema}.approval_rules r ORDER BY r.id

-- name: approval_rule_add
-- Applies to jobs enqueued from now on; pending ones are not judged again.
INSERT INTO {schema}.approval_rules AS r (kind, submitted_by, tenant, args, args_match, note, created_by)
VALUES (:kind::text, :submitted_by::text, :of_tenant::text, :args::text::jsonb, :args_match::text, :note::text, :by_whom::text)
RETURNING r.id, r.kind, r.submitted_by, r.tenant, r.args, r.args_match, r.note, r.created_by, r.created_at

-- name: approval_rule_remove
-- Approvals that the rule has given stay.
DELETE FROM {schema}.approval_rules r WHERE r.id = :id::bigint
RETURNING r.id, r.kind, r.submitted_by, r.tenant, r.args, r.args_match, r.note, r.created_by, r.created_at

-- name: approval_of
-- The approvals of one job so far.
SELECT j.approval, j.approvers, j.answer_by, k.own_approval FROM {schema}.jobs j
LEFT JOIN {schema}.kinds k ON k.name = j.kind WHERE j.id = :id::bigint

-- name: lane_needs
-- Kinds whose lane requires approval, and kinds whose lane is fair. rest, fair_rest: whether the lane of '*' does or
-- is; `named` lists the kinds that are not its own.
SELECT ARRAY(SELECT k FROM {schema}.lanes l CROSS JOIN unnest(l.kinds) AS k WHERE l.requires_approval AND k <> '*') AS kinds,
       EXISTS (SELECT 1 FROM {schema}.lanes l WHERE l.requires_approval AND '*' = ANY (l.kinds)) AS rest,
       ARRAY(SELECT k FROM {schema}.lanes l CROSS JOIN unnest(l.kinds) AS k WHERE k <> '*') AS named,
       ARRAY(SELECT k FROM {schema}.lanes l CROSS JOIN unnest(l.kinds) AS k WHERE l.ordering = 'fair' AND k <> '*') AS fair_kinds,
       EXISTS (SELECT 1 FROM {schema}.lanes l WHERE l.ordering = 'fair' AND '*' = ANY (l.kinds)) AS fair_rest

-- name: unanswered
-- Pending jobs that nobody approved in time. SKIP LOCKED passes over a job that is being approved; a later approval
-- finds it expired.
WITH due AS (
  SELECT x.id FROM {schema}.jobs x
  WHERE x.answer_by IS NOT NULL AND x.answer_by < now() AND x.state = 'pending'
    AND (:only::bigint[] IS NULL OR x.id = ANY (:only::bigint[])) ORDER BY x.answer_by LIMIT 500),
ending AS (
  SELECT {ending_columns} FROM {schema}.jobs j
  WHERE j.id IN (SELECT due.id FROM due) AND j.state = 'pending' AND j.answer_by < now()
  ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED),
{end_jobs},
{ended_concluded},
{exhausted}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed}, {hooks_notified} FROM ended m

-- name: reject
-- pending -> cancelled. Locked in id order, so that a concurrent approval either comes first or finds it ended.
WITH ending AS (
  SELECT {ending_columns} FROM {schema}.jobs j
  WHERE j.id = ANY (:ids::bigint[]) AND j.state = 'pending' ORDER BY j.id FOR NO KEY UPDATE),
{end_jobs},
{recorded}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed} FROM ended m

-- name: retry
-- A person's retry: a new attempt budget. The finished run goes to job_attempts under its own fence, so that a late
-- re-flush of it is still recognised. A job whose unique key is held by a live twin stays as it is (blocked_by names
-- the twin); a twin that commits at this very moment raises a unique violation, and the statement is run again. A job
-- that was never approved goes back to pending. keep_items: finished items stay finished, and only the others are run.
-- A step is retried together with the steps behind it (workflow_retry).
WITH old AS (
  SELECT j.id, j.fence, j.attempt, j.claimed_by, j.claimed_at, j.finished_at, j.state, j.errors, twin.id AS blocked_by
  FROM {schema}.jobs j
  LEFT JOIN LATERAL (
    SELECT t.id FROM {schema}.jobs t
    WHERE t.unique_key = j.unique_key AND t.unique_scope = j.unique_scope AND t.finished_at IS NULL
      AND (t.unique_scope = 'live' OR t.state IN ('pending', 'blocked', 'queued')) LIMIT 1) AS twin ON true
  WHERE j.id = ANY (:ids::bigint[]) AND j.finished_at IS NOT NULL AND j.workflow_id IS NULL ORDER BY j.id FOR NO KEY UPDATE OF j),
logged AS (
  INSERT INTO {schema}.job_attempts (job_id, fence, attempt, worker_id, worker_name, started_at, ended_at, outcome, error)
  SELECT o.id, o.fence - 1, o.attempt, o.claimed_by, w.name, o.claimed_at, o.finished_at, o.state, o.errors
  FROM old o LEFT JOIN {schema}.workers w ON w.id = o.claimed_by
  WHERE o.claimed_by IS NOT NULL AND o.blocked_by IS NULL ON CONFLICT DO NOTHING),
ended AS (
  UPDATE {schema}.jobs j
  SET state = CASE WHEN j.approval & 3 = 1 THEN 'pending' ELSE 'queued' END, approvers = NULL, answer_by = NULL,
      finished_at = NULL, result = NULL, errors = NULL, attempt = 0, losses = 0, deaths = 0, refunds = 0,
      runs_before = coalesce(j.runs_before, 0) + j.attempt + j.losses + j.refunds, cancel_requested = false,
      claimed_by = NULL, claimed_at = NULL, lane = NULL, expires_at = NULL, too_old_at = NULL, rate_turn = NULL,
      run_after = clock_timestamp(), fence = j.fence + 1, seq = j.seq + 1
  FROM old o WHERE j.id = o.id AND o.blocked_by IS NULL
  RETURNING j.id, j.kind, j.priority, j.share, j.run_after, j.state, jsonb_build_object('state', j.state) AS after,
            {mark} || jsonb_build_object('was', o.state, 'ended_at', o.finished_at) AS mark),
late AS (DELETE FROM {schema}.signals g USING ended e WHERE g.job_id = e.id AND g.timed_out),
kept AS (
  UPDATE {schema}.job_progress p SET keep_items = :keep_items::boolean
  FROM ended e WHERE p.job_id = e.id AND p.keep_items <> :keep_items::boolean),
{recorded}
SELECT o.id, o.blocked_by, e.kind, e.priority, e.share, e.run_after, e.state
FROM old o LEFT JOIN ended e ON e.id = o.id ORDER BY o.id

-- name: reprioritise
-- No transition, so the fence stays. A new position in the new pair, never behind its cursor. Locked in id order first,
-- as in cancel_running. A job that has the priority already keeps its place.
WITH waiting AS MATERIALIZED (
  SELECT j.id FROM {schema}.jobs j
  WHERE j.id = ANY (:ids::bigint[]) AND j.state IN ('pending', 'blocked', 'queued') AND j.priority <> :priority::smallint
  ORDER BY j.id FOR NO KEY UPDATE),
ended AS (
  UPDATE {schema}.jobs j
  SET priority = :priority::smallint, seq = j.seq + 1, run_after = greatest(j.run_after, clock_timestamp())
  FROM waiting w WHERE j.id = w.id
  RETURNING j.id, j.kind, j.priority, j.share, j.run_after, j.state,
            jsonb_build_object('state', j.state, 'priority', j.priority) AS after,
            {mark} || jsonb_build_object('stays', true, 'priority', j.priority) AS mark),
{recorded}
SELECT e.id, e.kind, e.priority, e.share, e.run_after, e.state FROM ended e ORDER BY e.id

-- name: edit
-- Given values change, NULL leaves a value as it is; only while the job waits and has the seq that was read, so that
-- `before`, which the reader redacted, describes this very row. The row is locked first (a claim passes it over, or
-- came first and leaves nothing to edit), then its gate, then the references. Changed arguments void an approval, also
-- an incomplete one: back to pending, which is a transition, and out of the gate's queue, else the next job to leave
-- would promote it past the approver (a job that waits for other jobs asks for approval when they have ended).
-- run_after is judged after waiting for the lock, never behind the cursors; expires_at moves along with it.
WITH old AS MATERIALIZED (
  SELECT j.id, j.state, j.args, j.run_after, j.priority, j.tags, j.refs, j.gate_place, j.approval,
         j.state = 'blocked' AND j.gate_place = 0 AS depends FROM {schema}.jobs j
  WHERE j.id = :id::bigint AND j.seq = :seq::integer AND j.state IN ('pending', 'blocked', 'queued') FOR NO KEY UPDATE),
meant AS MATERIALIZED (
  SELECT o.*, w.anew, w.anew AND o.approval <> 0 AS voids, w.anew AND o.approval <> 0 AND NOT o.depends AS asks,
         CASE WHEN w.moves OR coalesce(:priority::smallint <> o.priority, false)
              THEN greatest(clock_timestamp(), CASE WHEN w.moves THEN coalesce(:run_at::timestamptz, clock_timestamp() + :run_in::interval)
                                                    ELSE o.run_after END)
              ELSE o.run_after END AS due,
         w.moves
  FROM old o
  CROSS JOIN LATERAL (
    SELECT coalesce(:args::text::jsonb <> o.args, false) AS anew,
           :run_in::interval IS NOT NULL OR coalesce(:run_at::timestamptz <> o.run_after, false) AS moves) AS w),
ended AS (
  UPDATE {schema}.jobs j
  SET args = CASE WHEN w.anew THEN :args::text::jsonb ELSE j.args END, priority = coalesce(:priority::smallint, j.priority),
      tags = CASE WHEN :tags::text[] IS NULL THEN j.tags ELSE nullif(:tags::text[], '{}') END,
      refs = CASE WHEN w.anew THEN coalesce(:refs::text::jsonb, j.refs) ELSE j.refs END,
      run_after = w.due, expires_at = CASE WHEN w.moves THEN j.expires_at + (w.due - j.run_after) ELSE j.expires_at END,
      seq = j.seq + 1, fence = j.fence + (w.asks AND j.state <> 'pending')::integer,
      state = CASE WHEN w.asks THEN 'pending' ELSE j.state END,
      approval = CASE WHEN w.voids THEN (j.approval & 32764) | 1 ELSE j.approval END,
      approvers = CASE WHEN w.voids THEN NULL ELSE j.approvers END,
      answer_by = CASE WHEN w.voids THEN coalesce(clock_timestamp() + :answer_in::interval, j.answer_by) ELSE j.answer_by END,
      gate_place = CASE WHEN w.voids THEN 0 ELSE j.gate_place END
  FROM meant w
  WHERE j.id = w.id AND (w.anew OR w.due <> w.run_after OR coalesce(:priority::smallint <> w.priority, false)
                         OR coalesce(:tags::text[] <> coalesce(w.tags, '{}'), false))
  RETURNING j.id, j.kind, j.priority, j.share, j.run_after, j.state, j.tags, j.refs, w.state AS was_state, w.tags AS was_tags,
            w.refs AS was_refs, CASE WHEN w.voids AND w.gate_place > 0 THEN j.gate_key END AS gate_key, NULL::text AS lane,
            {mark} || CASE WHEN w.state = j.state THEN jsonb_build_object('stays', true) ELSE '{}' END
                   || CASE WHEN w.anew THEN jsonb_build_object('args', true) ELSE '{}' END AS mark),
was AS (
  SELECT e.id, p.name, p.value FROM ended e CROSS JOIN LATERAL (
    SELECT r.key AS name, r.value FROM jsonb_each_text(CASE WHEN jsonb_typeof(e.was_refs) = 'object' THEN e.was_refs END) AS r WHERE r.value IS NOT NULL
    UNION SELECT 'tag', t FROM unnest(e.was_tags) AS t) AS p),
becomes AS (
  SELECT e.id, p.name, p.value FROM ended e CROSS JOIN LATERAL (
    SELECT r.key AS name, r.value FROM jsonb_each_text(CASE WHEN jsonb_typeof(e.refs) = 'object' THEN e.refs END) AS r WHERE r.value IS NOT NULL
    UNION SELECT 'tag', t FROM unnest(e.tags) AS t) AS p),
unreferenced AS (
  DELETE FROM {schema}.job_refs r USING (SELECT * FROM was EXCEPT SELECT * FROM becomes) AS g
  WHERE r.name = g.name AND r.value = g.value AND r.job_id = g.id),
referenced AS (
  INSERT INTO {schema}.job_refs (name, value, job_id)
  SELECT n.name, n.value, n.id FROM (SELECT * FROM becomes EXCEPT SELECT * FROM was) AS n ON CONFLICT DO NOTHING),
noted AS (
  INSERT INTO {schema}.job_acts (job_id, verb, by_whom, note, detail)
  SELECT e.id, :verb::text, :by_whom::text, :note::text, e.mark FROM ended e),
audited AS (
  INSERT INTO {schema}.audit (subject, kind, acting_for, tenant, action, target, before, after, note, request_id, address)
  SELECT who.subject, who.kind, who.acting_for, who.tenant, 'job.' || :verb::text, 'job:' || e.id,
         :before::jsonb || jsonb_build_object('state', e.was_state),
         :after::jsonb || jsonb_build_object('state', e.state)
                       || CASE WHEN :before::jsonb ? 'run_after' THEN jsonb_build_object('run_after', e.run_after) ELSE '{}' END,
         :note::text, who.request_id, who.address
  FROM ended e CROSS JOIN {asked_by})
SELECT (SELECT count(*) FROM old) AS found, max(m.kind) AS kind, max(m.priority) AS priority, max(m.share) AS share,
       max(m.run_after) AS run_after, max(m.state) AS state, {left_places} AS promoted
FROM ended m
