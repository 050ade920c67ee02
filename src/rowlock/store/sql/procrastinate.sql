-- procrastinate: the table of another queue, from which waiting jobs are moved. {source} is its schema, in the same
-- database or in another one. Rows are never deleted: a moved job is `cancelled` there, which its workers, its command
-- line and its events understand, and from which a person can take it back.

-- name: procrastinate_place
-- No row: there is no such table. Without a schema the path of the connection finds it, as Procrastinate does. Database
-- and oid tell one table from another in the keys of moved jobs.
SELECT n.nspname::text AS source, format('%s/%s', current_database(), c.oid) AS place
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(coalesce(quote_ident(:source::text) || '.', '') || 'procrastinate_jobs')

-- name: procrastinate_path
-- Procrastinate's triggers name its tables without a schema, so they must be found on the path; for this transaction.
SELECT set_config('search_path', format('%I, ', :source::text) || current_setting('search_path'), true)

-- fragment: procrastinate_backlog
-- What waits and what runs, by task and queue: unknown tasks are refused before the first job is moved.
SELECT j.task_name, j.queue_name, j.status::text AS status, count(*) AS jobs FROM {source}.procrastinate_jobs j
WHERE j.status IN ('todo', 'doing') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3

-- fragment: procrastinate_waiting
-- In the order of ids, in which jobs of equal priority run there, and therefore here. Unlocked: taking them decides.
SELECT {procrastinate_columns} FROM {source}.procrastinate_jobs j
WHERE j.status = 'todo' AND j.id > :after::bigint ORDER BY j.id LIMIT :n::bigint

-- fragment: procrastinate_columns
-- round: how often the job was cancelled. It is part of the key of the moved job, so that a job that was taken back can
-- be moved again, while a move that broke off finds its own key.
j.id, j.task_name, j.queue_name, j.priority, j.lock, j.queueing_lock, (j.args - 'rowlock_moving')::text AS args,
j.scheduled_at, j.attempts,
(SELECT count(*) FROM {source}.procrastinate_events e WHERE e.job_id = j.id AND e.type = 'cancelled') AS round

-- fragment: procrastinate_take
-- A job that one of its workers is fetching at this moment is locked, and left to it. parked: the job is written in
-- another database next; the mark says that it is not there yet, and survives a crash.
WITH held AS MATERIALIZED (
  SELECT j.id FROM {source}.procrastinate_jobs j WHERE j.id = ANY(:ids::bigint[]) AND j.status = 'todo'
  ORDER BY j.id FOR UPDATE SKIP LOCKED)
UPDATE {source}.procrastinate_jobs j
SET status = 'cancelled',
    args = CASE WHEN :parked::boolean THEN j.args || jsonb_build_object('rowlock_moving', true) ELSE j.args END
FROM held WHERE j.id = held.id RETURNING j.id

-- fragment: procrastinate_taken
-- Read after the take, in its transaction: the trigger has counted the cancellation by now.
SELECT {procrastinate_columns} FROM {source}.procrastinate_jobs j WHERE j.id = ANY(:ids::bigint[]) ORDER BY j.id

-- fragment: procrastinate_parked
-- Jobs that an earlier move took and perhaps did not write.
SELECT j.id FROM {source}.procrastinate_jobs j
WHERE j.status = 'cancelled' AND jsonb_exists(j.args, 'rowlock_moving') ORDER BY j.id

-- fragment: procrastinate_settle
-- The jobs are written on the other side: the mark goes.
UPDATE {source}.procrastinate_jobs j SET args = j.args - 'rowlock_moving' WHERE j.id = ANY(:ids::bigint[]) RETURNING j.id

-- fragment: procrastinate_give_back
-- A job that Rowlock refused waits there again, unless another one with its queueing lock has come meanwhile.
UPDATE {source}.procrastinate_jobs j SET status = 'todo', args = j.args - 'rowlock_moving'
WHERE j.id = ANY(:ids::bigint[]) AND j.status = 'cancelled'
  AND NOT EXISTS (SELECT 1 FROM {source}.procrastinate_jobs o
                  WHERE o.queueing_lock = j.queueing_lock AND o.status = 'todo' AND o.id <> j.id)
RETURNING j.id
