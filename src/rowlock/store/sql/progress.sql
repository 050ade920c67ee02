-- progress: what a running job reports, in tables beside jobs and under its claim. The jobs table is not written. Lock
-- order: progress rows by job id, then the items of those jobs; never a job row.

-- name: report_progress
-- One upsert for all jobs of a worker that have something to report. The row of an earlier attempt is taken over:
-- progress starts anew with each attempt; checkpoint, cursors and log stay. A stale claim finds no job, writes nothing
-- and is not in the answer; nor is one that became stale while this statement waited for the row of a later attempt.
-- The worker is checked as in `mine`; logs and items are written afterwards, only for the jobs in this answer.
INSERT INTO {schema}.job_progress AS p (job_id, fence, phase, progress, phases, checkpoint, saved_at, cursors)
SELECT j.id, j.fence, d.phase, d.progress, d.phases, d.checkpoint, CASE WHEN d.checkpoint IS NOT NULL THEN clock_timestamp() END, d.cursors
FROM unnest(:ids::bigint[], :fences::integer[], :phases::text[], :progress::jsonb[], :passed::jsonb[], :checkpoints::jsonb[],
            :cursors::jsonb[])
     AS d(id, fence, phase, progress, phases, checkpoint, cursors)
JOIN {schema}.jobs j ON j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL AND j.claimed_by = :worker::bigint
ORDER BY j.id
ON CONFLICT (job_id) DO UPDATE
SET fence = excluded.fence, n = p.n + 1, reported_at = clock_timestamp(), phase = excluded.phase,
    progress = excluded.progress, phases = excluded.phases,
    checkpoint = coalesce(excluded.checkpoint, p.checkpoint), saved_at = coalesce(excluded.saved_at, p.saved_at),
    cursors = CASE WHEN excluded.cursors IS NULL THEN p.cursors ELSE coalesce(p.cursors, '{}') || excluded.cursors END,
    items_in_progress = CASE WHEN p.fence = excluded.fence THEN p.items_in_progress ELSE 0 END,
    items_completed = CASE WHEN p.fence = excluded.fence THEN p.items_completed ELSE 0 END,
    items_skipped = CASE WHEN p.fence = excluded.fence THEN p.items_skipped ELSE 0 END,
    items_failed = CASE WHEN p.fence = excluded.fence THEN p.items_failed ELSE 0 END
WHERE p.fence <= excluded.fence
RETURNING p.job_id, p.fence

-- name: write_items
-- The items of many jobs that changed since the last write. A target is the attempt whose items these are, with the
-- claim of the attempt that writes: usually the same, or that of a job which was handed the item. Both claims must
-- hold. The progress row is locked before its items, so that two writers of one job take turns. Each upsert keeps the
-- state it replaces, and the counts move by exactly that. Items of a later attempt are left alone.
WITH target AS MATERIALIZED (
  SELECT t.no, p.job_id, p.fence
  FROM unnest(:ids::bigint[], :fences::integer[], :by_ids::bigint[], :by_fences::integer[])
       WITH ORDINALITY AS t(id, fence, by_id, by_fence, no)
  JOIN {schema}.jobs j ON j.id = t.id AND j.fence = t.fence AND j.finished_at IS NULL
  JOIN {schema}.jobs b ON b.id = t.by_id AND b.fence = t.by_fence AND b.finished_at IS NULL
  JOIN {schema}.job_progress p ON p.job_id = t.id AND p.fence = t.fence
  ORDER BY p.job_id FOR UPDATE OF p),
moved AS (
  INSERT INTO {schema}.job_items AS i (job_id, phase, name, fence, state, started_at, ended_at, reason, error)
  SELECT t.job_id, d.phase, d.name, t.fence, d.state, d.started_at, d.ended_at, d.reason, d.error
  FROM unnest(:targets::integer[], :phases::text[], :names::text[], :states::text[], :started::timestamptz[], :ended::timestamptz[],
              :reasons::text[], :errors::jsonb[])
       AS d(no, phase, name, state, started_at, ended_at, reason, error)
  JOIN target t ON t.no = d.no
  ORDER BY 1, 2, 3
  ON CONFLICT (job_id, phase, name) DO UPDATE
  SET fence = excluded.fence, was = CASE WHEN i.fence = excluded.fence THEN i.state END, state = excluded.state,
      started_at = excluded.started_at, ended_at = excluded.ended_at, reason = excluded.reason, error = excluded.error
  WHERE i.fence <= excluded.fence
  RETURNING i.job_id, i.was, i.state),
counted AS (
  SELECT m.job_id,
         count(*) FILTER (WHERE m.state = 'in_progress') - count(*) FILTER (WHERE m.was = 'in_progress') AS in_progress,
         count(*) FILTER (WHERE m.state = 'completed') - count(*) FILTER (WHERE m.was = 'completed') AS completed,
         count(*) FILTER (WHERE m.state = 'skipped') - count(*) FILTER (WHERE m.was = 'skipped') AS skipped,
         count(*) FILTER (WHERE m.state = 'failed') - count(*) FILTER (WHERE m.was = 'failed') AS failed
  FROM moved m GROUP BY m.job_id),
progressed AS (
  UPDATE {schema}.job_progress p
  SET n = p.n + 1, reported_at = clock_timestamp(), items_in_progress = p.items_in_progress + c.in_progress,
      items_completed = p.items_completed + c.completed, items_skipped = p.items_skipped + c.skipped,
      items_failed = p.items_failed + c.failed
  FROM counted c WHERE p.job_id = c.job_id)
SELECT t.no FROM target t

-- name: keep_items
-- Items that a resuming attempt need not do again: the finished items of the phase become its own and are counted. Run
-- once more after a lost answer, it answers the same. No row unless the handler resumes or a person asked for it.
WITH held AS MATERIALIZED (
  SELECT p.job_id, p.fence FROM {schema}.job_progress p
  JOIN {schema}.jobs j ON j.id = p.job_id AND j.fence = p.fence AND j.finished_at IS NULL
  WHERE p.job_id = :id::bigint AND p.fence = :fence::integer AND (:resume::boolean OR p.keep_items) FOR UPDATE OF p),
kept AS (
  UPDATE {schema}.job_items i SET fence = h.fence, was = CASE WHEN i.fence = h.fence THEN i.state END
  FROM held h
  WHERE i.job_id = h.job_id AND i.phase = :phase::text AND i.state IN ('completed', 'skipped') AND i.fence <= h.fence
  RETURNING i.job_id, i.name, i.state, i.was),
counted AS (
  UPDATE {schema}.job_progress p
  SET n = p.n + 1, items_completed = p.items_completed + c.completed, items_skipped = p.items_skipped + c.skipped
  FROM (SELECT k.job_id, count(*) FILTER (WHERE k.state = 'completed') AS completed,
               count(*) FILTER (WHERE k.state = 'skipped') AS skipped
        FROM kept k WHERE k.was IS NULL GROUP BY k.job_id) AS c
  WHERE p.job_id = c.job_id)
SELECT k.name FROM kept k

-- name: write_logs
-- Lines of many jobs, after report_progress has made sure of their rows. A repeated write adds nothing, since n is
-- assigned by the writer.
WITH target AS MATERIALIZED (
  SELECT p.job_id, p.fence
  FROM unnest(:ids::bigint[], :fences::integer[]) AS t(id, fence)
  JOIN {schema}.jobs j ON j.id = t.id AND j.fence = t.fence AND j.finished_at IS NULL
  JOIN {schema}.job_progress p ON p.job_id = t.id AND p.fence = t.fence
  ORDER BY p.job_id FOR UPDATE OF p),
written AS (
  INSERT INTO {schema}.job_logs AS l (job_id, n, at, level, logger, message)
  SELECT d.id, d.n, d.at, d.level, d.logger, d.message
  FROM unnest(:line_ids::bigint[], :numbers::bigint[], :moments::timestamptz[], :levels::smallint[], :loggers::text[], :messages::text[])
       AS d(id, n, at, level, logger, message)
  JOIN target t ON t.job_id = d.id
  ON CONFLICT DO NOTHING
  RETURNING l.job_id, octet_length(l.message) AS bytes)
UPDATE {schema}.job_progress p
SET n = p.n + 1, reported_at = clock_timestamp(), log_lines = p.log_lines + c.lines, log_bytes = p.log_bytes + c.bytes
FROM (SELECT w.job_id, count(*) AS lines, sum(w.bytes) AS bytes FROM written w GROUP BY w.job_id) AS c
WHERE p.job_id = c.job_id
RETURNING p.job_id, p.log_lines, p.log_bytes

-- name: trim_logs
-- Keeps the newest lines. Run only when a log exceeds its limit, and then cuts well below it, so not with every write.
WITH sized AS (
  SELECT l.n, row_number() OVER newest AS lines, sum(octet_length(l.message)) OVER newest AS bytes
  FROM {schema}.job_logs l WHERE l.job_id = :id::bigint WINDOW newest AS (ORDER BY l.n DESC)),
gone AS (
  DELETE FROM {schema}.job_logs l
  WHERE l.job_id = :id::bigint
    AND l.n <= (SELECT max(s.n) FROM sized s WHERE s.lines > :lines::integer OR s.bytes > :bytes::integer)
  RETURNING octet_length(l.message) AS bytes)
UPDATE {schema}.job_progress p
SET log_lines = p.log_lines - c.lines, log_bytes = p.log_bytes - c.bytes
FROM (SELECT count(*) AS lines, coalesce(sum(g.bytes), 0) AS bytes FROM gone g) AS c
WHERE p.job_id = :id::bigint

-- name: checkpoint
-- The newest checkpoint of an earlier attempt, from either table; read only when a handler asks for it.
SELECT s.checkpoint FROM (
  SELECT p.checkpoint, p.saved_at FROM {schema}.job_progress p WHERE p.job_id = :id::bigint AND p.checkpoint IS NOT NULL
  UNION ALL
  SELECT c.checkpoint, c.saved_at FROM {schema}.job_checkpoints c WHERE c.job_id = :id::bigint) AS s
ORDER BY s.saved_at DESC NULLS LAST LIMIT 1

-- name: cursors
-- How far the loops of earlier attempts came.
SELECT p.cursors FROM {schema}.job_progress p WHERE p.job_id = :id::bigint

-- name: save_checkpoint
-- Inside the user's own transaction, with their rows: both are kept or neither is. FOR SHARE holds the claim until
-- their commit, as in ctx.guarded(). A new row each time, and only earlier rows of this job are deleted, so that no
-- transaction waits for another.
WITH mine AS MATERIALIZED (
  SELECT j.id FROM {schema}.jobs j
  WHERE j.claimed_by = :worker::bigint
    AND j.id = :id::bigint AND j.fence = :fence::integer AND j.finished_at IS NULL FOR SHARE),
older AS (DELETE FROM {schema}.job_checkpoints c USING mine WHERE c.job_id = mine.id)
INSERT INTO {schema}.job_checkpoints AS c (job_id, checkpoint)
SELECT mine.id, :checkpoint::text::jsonb FROM mine
RETURNING c.job_id

-- name: items_of
-- The items of the newest attempt that reported any, in key order; a page begins behind (phase, name).
SELECT i.phase, i.name, i.state, i.started_at, i.ended_at, i.reason, i.error
FROM {schema}.job_items i JOIN {schema}.job_progress p ON p.job_id = i.job_id AND p.fence = i.fence
WHERE i.job_id = :id::bigint AND (i.phase, i.name) > (:after_phase::text, :after_name::text)
  AND (:states::text[] IS NULL OR i.state = ANY (:states::text[]))
  AND (:phase::text IS NULL OR i.phase = :phase::text)
ORDER BY i.phase, i.name LIMIT :n::integer

-- name: logs_of
-- Lines in order, by primary key.
SELECT l.n, l.at, l.level, l.logger, l.message FROM {schema}.job_logs l
WHERE l.job_id = :id::bigint AND l.n > :after::bigint ORDER BY l.n LIMIT :n::integer

-- name: last_logs_of
-- The end of a log, newest line first.
SELECT l.n, l.at, l.level, l.logger, l.message FROM {schema}.job_logs l
WHERE l.job_id = :id::bigint AND l.n > :after::bigint ORDER BY l.n DESC LIMIT :n::integer
