-- workflow views: workflows as people read them, and what a step waits for. Nothing here waits for a lock.

-- fragment: workflow_columns
j.id, j.name, j.state, j.total, j.open, j.failed, j.cancelled, j.with_errors, j.created_at, j.finished_at, j.verdict,
j.undo_error, j.cancel_requested, j.tenant, j.submitted_by, j.unique_key, j.meta

-- fragment: visible_workflow
-- Which workflows j a principal sees: as for jobs; a permission with a scope reaches a workflow if it reaches each of
-- its steps. Needs `this (workflow)`, the workflow's id, since j is a step within.
(CASE WHEN :granted::jsonb IS NULL THEN :sees_all::boolean OR {own_job}
      ELSE coalesce((SELECT bool_and({visible}) FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id
                     WHERE s.workflow_id = this.workflow), false) END)

-- name: workflow_by_id
-- The alias j is that of a job, so that the fragment `own_job` decides about workflows as about jobs.
SELECT {workflow_columns} FROM {schema}.workflows j CROSS JOIN LATERAL (SELECT j.id) AS this(workflow)
WHERE j.id = :id::bigint AND {visible_workflow}

-- name: workflow_page
-- Newest first by primary key. Looks at a bounded number of workflows: a name that no workflow has must not read all of
-- them. looked: the oldest one that was looked at, where the next page begins if this one is not full.
WITH newest AS MATERIALIZED (
  SELECT {workflow_columns} FROM {schema}.workflows j CROSS JOIN LATERAL (SELECT j.id) AS this(workflow)
  WHERE j.id < :before_id::bigint AND {visible_workflow} ORDER BY j.id DESC LIMIT :most::integer)
SELECT {workflow_columns}, (SELECT CASE WHEN count(*) = :most::integer THEN min(s.id) END FROM newest s) AS looked
FROM (SELECT 1) AS always LEFT JOIN LATERAL (
  SELECT * FROM newest s
  WHERE (:states::text[] IS NULL OR s.state = ANY (:states::text[])) AND (:name::text IS NULL OR s.name = :name::text)
  ORDER BY s.id DESC LIMIT :n::integer) AS j ON true
ORDER BY j.id DESC

-- name: workflow_steps_of
-- Of a compensation only its kind: its arguments may be secret.
SELECT s.name, s.job_id, j.kind, j.state, j.attempt, j.max_attempts, j.created_at, j.run_after, j.claimed_at, j.finished_at, j.errors,
       coalesce(w.any_of, false) AS any_of, s.undo ->> 'kind' AS undo, s.undoes, w.signal, w.until
FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id LEFT JOIN {schema}.waits w ON w.job_id = s.job_id
WHERE s.workflow_id = :id::bigint ORDER BY s.job_id LIMIT :n::integer

-- name: workflow_edges_of
-- Edges by the names of their steps.
SELECT u.name AS upstream, d.name AS downstream, e.needs, e.met
FROM {schema}.workflow_steps d JOIN {schema}.edges e ON e.downstream = d.job_id JOIN {schema}.workflow_steps u ON u.job_id = e.upstream
WHERE d.workflow_id = :id::bigint ORDER BY e.upstream, e.downstream LIMIT :n::integer

-- name: workflow_results
-- Results of steps that completed.
SELECT s.name, s.job_id, j.result FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id
WHERE s.workflow_id = :id::bigint AND s.name = ANY (:names::text[]) AND j.state IN ('completed', 'completed_with_errors')

-- name: workflow_jobs
-- The jobs of some steps of a workflow; unknown names are left out.
SELECT s.name, s.job_id FROM {schema}.workflow_steps s WHERE s.workflow_id = :id::bigint AND s.name = ANY (:names::text[])

-- name: workflow_names
-- The names in a workflow with this prefix, which a new step must not have.
SELECT s.name FROM {schema}.workflow_steps s WHERE s.workflow_id = :id::bigint AND starts_with(s.name, :prefix::text) LIMIT 30000

-- name: job_waits
-- Why a step is blocked: its place in its workflow, and what it waits for.
SELECT s.name AS step, f.id AS workflow_id, f.name AS workflow, f.state, f.cancel_requested, w.remaining, w.any_of, w.signal, w.until
FROM {schema}.jobs j LEFT JOIN {schema}.workflows f ON f.id = j.workflow_id LEFT JOIN {schema}.workflow_steps s ON s.job_id = j.id
LEFT JOIN {schema}.waits w ON w.job_id = j.id WHERE j.id = :id::bigint

-- name: waited_for
-- Some edges of a step that are not judged yet.
SELECT s.name, u.id AS job_id, u.kind, u.state, e.needs
FROM {schema}.edges e JOIN {schema}.jobs u ON u.id = e.upstream JOIN {schema}.workflow_steps s ON s.job_id = e.upstream
WHERE e.downstream = :id::bigint AND e.met IS NULL ORDER BY u.id LIMIT :n::integer
