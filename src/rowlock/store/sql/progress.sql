-- progress: what a running job reports, beside the jobs row and under its claim.

-- name: report_progress
-- One upsert for all jobs of a worker that have news. The row of an older attempt is taken over: progress starts anew with
-- each attempt, the checkpoint stays. A stale claim finds no job, writes nothing and is not in the answer; nor is one that
-- grew stale while this statement waited for the row of the attempt after it.
INSERT INTO {schema}.job_progress AS p (job_id, fence, phase, progress, checkpoint)
SELECT j.id, j.fence, d.phase, d.progress, d.checkpoint
FROM unnest(:ids::bigint[], :fences::integer[], :phases::text[], :progress::jsonb[], :checkpoints::jsonb[])
     AS d(id, fence, phase, progress, checkpoint)
JOIN {schema}.jobs j ON j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL
ORDER BY j.id
ON CONFLICT (job_id) DO UPDATE
SET fence = excluded.fence, n = p.n + 1, reported_at = clock_timestamp(), phase = excluded.phase,
    progress = excluded.progress, checkpoint = coalesce(excluded.checkpoint, p.checkpoint)
WHERE p.fence <= excluded.fence
RETURNING p.job_id, p.fence

-- name: checkpoint
-- What the attempt before this one saved; read only by handlers that ask.
SELECT p.checkpoint FROM {schema}.job_progress p WHERE p.job_id = :id::bigint
