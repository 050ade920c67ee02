-- The design's queries for operators, literally, on its QueueJob table (the view queue_job). :pid is a project's id.

-- name: backlog_depth
SELECT count(*), kind FROM queue_job WHERE status = 'queued' GROUP BY kind;

-- name: active_work
SELECT * FROM queue_job WHERE status = 'in_progress';

-- name: edition_update_activity
SELECT * FROM queue_job WHERE status = 'in_progress' AND project_id = :pid AND phase = 'editions';

-- name: error_rates
SELECT count(*) FROM queue_job WHERE status IN ('failed', 'completed_with_errors') AND date_completed > now() - interval '1 hour';

-- name: throughput_by_org
SELECT org_id, count(*) FROM queue_job WHERE status = 'completed' AND date_completed > now() - interval '1 hour' GROUP BY org_id;

-- name: slow_jobs
SELECT * FROM queue_job WHERE status = 'in_progress' AND date_started < now() - interval '10 minutes';
