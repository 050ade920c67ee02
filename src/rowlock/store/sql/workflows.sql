-- workflows: jobs that wait for jobs, and jobs that wait for a signal. Work that takes several statements under one
-- lock is a function of the schema (store/functions): each of its statements has a snapshot taken after the lock, which
-- a single statement would not have.

-- name: workflow_start
-- One statement, so that it joins a user's transaction like any enqueue. what = kept: a live workflow has the key
-- already.
SELECT x.workflow_id, x.what, x.name, x.job_id, x.kind, x.priority, x.share, x.state, x.run_after
FROM {schema}.workflow_start(:name::text, :tenant::text, :submitted_by::text, :unique_key::text, :meta::text::jsonb, :plan::text::jsonb) AS x

-- name: workflow_add
-- job and fence: the claim of the job that adds; fence NULL: a person adds behind that job; job NULL: a person adds to
-- the workflow.
SELECT x.workflow_id, x.what, x.name, x.job_id, x.kind, x.priority, x.share, x.state, x.run_after
FROM {schema}.workflow_add(:job::bigint, :fence::integer, :workflow::bigint, :plan::text::jsonb, :channel::text) AS x

-- name: workflow_cancel
-- Committed before any step is touched: from here on nothing is released or added, and if the canceller dies, the duty
-- does the rest. Answers the workflow as it is; `asked`: whether this order changed anything.
WITH asked AS (
  UPDATE {schema}.workflows w SET cancel_requested = true
  WHERE w.id = :workflow::bigint AND w.state = 'running' AND NOT w.cancel_requested RETURNING w.id)
SELECT w.id, w.state, w.finished_at IS NOT NULL AS final, EXISTS (SELECT 1 FROM asked) AS asked
FROM {schema}.workflows w WHERE w.id = :workflow::bigint

-- fragment: halting
-- The steps of a workflow that is being cancelled, waiting and running ones, locked in id order by one CTE; the
-- statement adds whether it waits.
SELECT {ending_columns} FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id
WHERE s.workflow_id = :workflow::bigint AND NOT s.ended AND j.finished_at IS NULL AND NOT (j.state = 'running' AND j.cancel_requested)
  AND EXISTS (SELECT 1 FROM {schema}.workflows w WHERE w.id = :workflow::bigint AND w.cancel_requested AND w.state = 'running')
  AND {among}
ORDER BY j.id LIMIT 500

-- fragment: halted
ending AS (SELECT l.* FROM live l WHERE l.state <> 'running'),
{end_jobs},
flagged AS (
  UPDATE {schema}.jobs j SET cancel_requested = true, seq = j.seq + 1 FROM live l WHERE j.id = l.id AND l.state = 'running'
  RETURNING j.id)
SELECT coalesce(array_agg(m.id), '{}') || ARRAY(SELECT f.id FROM flagged f) AS ids, {left_places} AS promoted, {notified} AS notified, {followed},
       (SELECT {schema}.notify_ids(:channel::text, 'cancel', array_agg(f.id)) FROM flagged f HAVING count(*) > 0) AS asked
FROM ended m

-- name: workflow_halt
-- A batch of the live steps: waiting steps end at once, running ones are asked to stop. Run it until it answers no ids:
-- a step that is given back at this moment waits again.
WITH live AS MATERIALIZED ({halting} FOR NO KEY UPDATE OF j),
{halted}

-- name: workflow_halt_unheld
-- The same without the steps that another transaction holds: after workflow_halt waited too long for one of them.
WITH live AS MATERIALIZED ({halting} FOR NO KEY UPDATE OF j SKIP LOCKED),
{halted}

-- name: workflow_live_steps
-- For a halt that is run in parts, because a step was refused: the steps that it may end, and others that it leaves alone.
SELECT s.job_id AS id FROM {schema}.workflow_steps s WHERE s.workflow_id = :workflow::bigint AND NOT s.ended ORDER BY s.job_id LIMIT 20000

-- name: workflow_retry
-- A function of the schema: it reads again behind its locks what it read before them.
SELECT x.workflow_id, x.what, x.name, x.job_id, x.kind, x.priority, x.share, x.state, x.run_after
FROM {schema}.workflow_retry(:workflow::bigint, :step::text, :by_whom::text, :note::text) AS x

-- name: workflow_step_of
-- No row: a plain job.
SELECT s.workflow_id, s.name FROM {schema}.workflow_steps s WHERE s.job_id = :id::bigint

-- name: signal_send
-- A function of the schema: sender and waiter both lock the job's row first, so each sees what the other wrote.
SELECT x.what, x.state, x.released, x.timed_out
FROM {schema}.signal_send(:id::bigint, :name::text, :payload::text::jsonb, :by_whom::text) AS x

-- name: signal_of
-- What a waiting handler looks for first. No row: the claim is lost; NULL: no signal has come.
SELECT CASE WHEN g.job_id IS NOT NULL THEN jsonb_build_object('payload', g.payload, 'timed_out', g.timed_out) END AS signal
FROM {schema}.jobs j LEFT JOIN {schema}.signals g ON g.job_id = j.id AND g.name = :name::text
WHERE j.id = :id::bigint AND j.fence = :fence::integer AND j.finished_at IS NULL

-- name: signals_overdue
-- A function of the schema; rows that are locked are passed over.
SELECT x.ids, x.released FROM {schema}.signals_overdue(:batch::integer) AS x

-- name: outputs
-- The results of other steps of the job's workflow, by name; NULL for a step without one.
SELECT s.name, j.result FROM {schema}.workflow_steps s LEFT JOIN {schema}.jobs j ON j.id = s.job_id
WHERE s.workflow_id = (SELECT m.workflow_id FROM {schema}.workflow_steps m WHERE m.job_id = :id::bigint) AND s.name = ANY (:names::text[])

-- name: workflow_repair
-- A function of the schema; looks at a bounded number of live workflows.
SELECT x.ids, x.released FROM {schema}.workflow_repair(:flows::integer, :steps::integer, :channel::text) AS x

-- name: workflows_cancelling
-- Workflows whose canceller may have died: a step still waits, or runs without having been asked to stop.
SELECT w.id FROM {schema}.workflows w
WHERE w.finished_at IS NULL AND w.cancel_requested AND w.state = 'running'
  AND EXISTS (SELECT 1 FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id
               WHERE s.workflow_id = w.id AND NOT s.ended AND j.finished_at IS NULL AND NOT (j.state = 'running' AND j.cancel_requested))
ORDER BY w.id LIMIT 50

-- name: judge_workflows
-- Retention counts from the end of the whole workflow, by the rule for '*'. A step whose own rule keeps it longer keeps
-- all of them, and that instant is stored, so that later rounds need not look again. A workflow that is being retried
-- is passed over.
UPDATE {schema}.workflows w SET kept_until = w.finished_at + (longest.keep - rule.keep)
FROM (SELECT r.keep FROM {schema}.retention r WHERE r.kind = '*' AND r.state = '*') AS rule
CROSS JOIN LATERAL (
  SELECT o.id FROM {schema}.workflows o
  WHERE o.finished_at IS NOT NULL AND coalesce(o.kept_until, o.finished_at) < now() - rule.keep
    AND (:only::text[] IS NULL OR 'workflow ' || o.id = ANY (:only::text[]))
  ORDER BY coalesce(o.kept_until, o.finished_at) LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED) AS old
CROSS JOIN LATERAL (
  SELECT max(own.keep) AS keep FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id
  CROSS JOIN LATERAL (
    SELECT r.keep FROM {schema}.retention r WHERE r.kind IN ('*', j.kind) AND r.state IN ('*', j.state)
    ORDER BY (r.kind <> '*')::integer * 2 + (r.state <> '*')::integer DESC LIMIT 1) AS own
  WHERE s.workflow_id = old.id) AS longest
WHERE w.id = old.id AND w.finished_at IS NOT NULL AND longest.keep > rule.keep AND w.finished_at >= now() - longest.keep
RETURNING w.id

-- name: old_workflow_names
-- For judge_workflows when it is run in parts.
SELECT 'workflow ' || w.id AS id FROM {schema}.workflows w
WHERE w.finished_at IS NOT NULL
  AND coalesce(w.kept_until, w.finished_at) < now() - (SELECT r.keep FROM {schema}.retention r WHERE r.kind = '*' AND r.state = '*')
ORDER BY coalesce(w.kept_until, w.finished_at), w.id LIMIT 5000

-- name: prune_workflows
-- Whole workflows, oldest first, as many as fit the batch (at least one). Job rows are locked before the workflow, as
-- by a retry. A workflow that is being retried is passed over: its rows are deleted together or not at all. `only`: after
-- a run has failed because of one row, the workflows of this run, each named by one of its steps. `careful`: a workflow
-- may not have been judged, because its row was refused; one with a step whose own rule keeps it longer is left.
WITH rule AS (SELECT r.keep FROM {schema}.retention r WHERE r.kind = '*' AND r.state = '*'),
old AS MATERIALIZED (
  SELECT o.id FROM (
    SELECT w.id, sum(w.total) OVER (ORDER BY coalesce(w.kept_until, w.finished_at), w.id) - w.total AS before
    FROM (SELECT x.id, x.total, x.kept_until, x.finished_at FROM {schema}.workflows x
          WHERE x.finished_at IS NOT NULL AND coalesce(x.kept_until, x.finished_at) < now() - (SELECT rule.keep FROM rule)
            AND (:only::bigint[] IS NULL
                 OR x.id IN (SELECT s.workflow_id FROM {schema}.workflow_steps s WHERE s.job_id = ANY (:only::bigint[])))
            AND NOT (:careful::boolean AND EXISTS (
              SELECT 1 FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id
              CROSS JOIN LATERAL (
                SELECT r.keep FROM {schema}.retention r WHERE r.kind IN ('*', j.kind) AND r.state IN ('*', j.state)
                ORDER BY (r.kind <> '*')::integer * 2 + (r.state <> '*')::integer DESC LIMIT 1) AS own
              WHERE s.workflow_id = x.id AND x.finished_at >= now() - own.keep))
          ORDER BY coalesce(x.kept_until, x.finished_at), x.id LIMIT 500) AS w) AS o
  WHERE o.before < :batch::integer),
rows AS MATERIALIZED (
  SELECT j.id, j.workflow_id FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id
  WHERE s.workflow_id IN (SELECT old.id FROM old) ORDER BY j.id FOR UPDATE OF j),
whole AS MATERIALIZED (
  SELECT w.id FROM {schema}.workflows w
  WHERE w.id IN (SELECT old.id FROM old) AND w.finished_at IS NOT NULL AND (SELECT count(*) FROM rows) >= 0
  ORDER BY w.id FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM {schema}.jobs j USING rows WHERE j.id = rows.id AND rows.workflow_id IN (SELECT whole.id FROM whole) AND j.finished_at IS NOT NULL
  RETURNING j.id, j.refs, j.tags),
{gone_beside},
steps AS (DELETE FROM {schema}.workflow_steps s WHERE s.workflow_id IN (SELECT whole.id FROM whole) RETURNING s.job_id),
edges AS (DELETE FROM {schema}.edges e USING steps s WHERE e.upstream = s.job_id),
flows AS (DELETE FROM {schema}.workflows w WHERE w.id IN (SELECT whole.id FROM whole) RETURNING w.id)
SELECT (SELECT count(*) FROM flows) AS workflows, count(*) AS pruned FROM gone

-- name: old_workflows
-- For a deletion that is run in parts: the first step of every workflow that may be deleted, and of others that will not.
SELECT f.id FROM (
  SELECT (SELECT min(s.job_id) FROM {schema}.workflow_steps s WHERE s.workflow_id = w.id) AS id
  FROM {schema}.workflows w
  WHERE w.finished_at IS NOT NULL
    AND coalesce(w.kept_until, w.finished_at) < now() - (SELECT r.keep FROM {schema}.retention r WHERE r.kind = '*' AND r.state = '*')
  ORDER BY coalesce(w.kept_until, w.finished_at), w.id LIMIT 5000) AS f
WHERE f.id IS NOT NULL
