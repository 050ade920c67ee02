-- Rowlock's tables in the words of the design: its table QueueJob, as a view. Operators query it, and so does the API.
-- The single source of truth stays rowlock.jobs, with progress and items beside it.
CREATE OR REPLACE VIEW queue_job AS
SELECT j.id,
       d.backend_job_id,
       j.kind,
       CASE j.state WHEN 'running' THEN 'in_progress' WHEN 'pending' THEN 'queued' WHEN 'blocked' THEN 'queued'
                    WHEN 'expired' THEN 'cancelled' ELSE j.state END AS status,
       p.phase,
       o.id AS org_id,
       (j.refs ->> 'project')::integer AS project_id,
       (j.refs ->> 'build')::integer AS build_id,
       -- Of the editions until the end; before them, what the phase says of itself.
       CASE WHEN e.total > 0 THEN e.editions
            WHEN p.progress ->> 'message' IS NOT NULL THEN jsonb_build_object('message', p.progress ->> 'message') END AS progress,
       j.errors,
       j.created_at AS date_created,
       j.claimed_at AS date_started,
       j.finished_at AS date_completed,
       j.attempt
FROM rowlock.jobs j
LEFT JOIN organization o ON o.slug = j.tenant
LEFT JOIN rowlock.job_deliveries d ON d.job_id = j.id
LEFT JOIN rowlock.job_progress p ON p.job_id = j.id
LEFT JOIN LATERAL (
  SELECT count(*) AS total,
         jsonb_build_object(
           'editions_total', count(*),
           'editions_completed', coalesce(jsonb_agg(i.name ORDER BY i.ended_at) FILTER (WHERE i.state = 'completed'), '[]'),
           'editions_skipped', coalesce(jsonb_agg(jsonb_build_object('slug', i.name, 'reason', i.reason)
                                        ORDER BY i.ended_at) FILTER (WHERE i.state = 'skipped'), '[]'),
           'editions_failed', coalesce(jsonb_agg(jsonb_build_object('slug', i.name, 'error', i.error ->> 'message')
                                       ORDER BY i.ended_at) FILTER (WHERE i.state = 'failed'), '[]'),
           'editions_in_progress', coalesce(jsonb_agg(i.name ORDER BY i.name) FILTER (WHERE i.state = 'in_progress'), '[]')
         ) AS editions
  FROM rowlock.job_items i WHERE i.job_id = j.id AND i.fence = p.fence AND i.phase = 'editions') e ON true
WHERE j.kind IN ('build_processing', 'edition_update', 'dashboard_sync', 'lifecycle_eval', 'git_ref_audit',
                 'purgatory_cleanup', 'credential_reencrypt');
