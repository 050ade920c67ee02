-- testing: scratch databases, and time travel. Used by rowlock.testing alone.

-- name: join_run
-- Shared by every process of a test run, and held until its connection ends, also by a crash: a process that gets it
-- exclusively knows that the run is over.
SELECT pg_advisory_lock_shared(:run::bigint)

-- name: leave_run
-- The end of join_run.
SELECT pg_advisory_unlock_shared(:run::bigint)

-- name: run_is_over
-- Exclusive: fails while any process of the run is alive.
SELECT pg_try_advisory_lock(:run::bigint) AS over

-- name: forget_run
-- The end of run_is_over.
SELECT pg_advisory_unlock(:run::bigint)

-- name: try_build
-- One process of the run builds the template. The others poll instead of waiting: lock_timeout counts while waiting.
SELECT pg_try_advisory_lock(hashtext(:name::text), 1) AS mine

-- name: built
-- The end of try_build.
SELECT pg_advisory_unlock(hashtext(:name::text), 1)

-- name: scratch_databases
-- Databases of all runs, by their name.
SELECT d.datname::text AS name FROM pg_database d WHERE d.datname ~ '^rowlock_test_[0-9a-f]{16}_' ORDER BY 1

-- name: create_text
-- Names cannot be parameters of these statements: the server quotes them, and its answer is executed.
SELECT format('CREATE DATABASE %I TEMPLATE %I STRATEGY %s', :name::text, :template::text, :strategy::text) AS text

-- name: drop_text
-- As create_text.
SELECT format('DROP DATABASE IF EXISTS %I WITH (FORCE)', :name::text) AS text

-- name: rename_text
-- As create_text.
SELECT format('ALTER DATABASE %I RENAME TO %I', :name::text, :to::text) AS text

-- name: close_text
-- As create_text. A template must have no connections while it is copied.
SELECT format('ALTER DATABASE %I ALLOW_CONNECTIONS %s', :name::text, CASE WHEN :open::boolean THEN 'true' ELSE 'false' END) AS text

-- name: hang_up
-- Ends every other connection to a database.
SELECT count(pg_terminate_backend(a.pid)) AS ended FROM pg_stat_activity a
WHERE a.datname = :name::text AND a.pid <> pg_backend_pid()

-- name: shift_text
-- Shifts every stored instant of the schema. From the catalogue, so that later tables are covered; partitions move with
-- their table. In hours: days have the length of the session's time zone, and not all instants would move as far.
-- Tables with an instant in a unique index take a detour through an age without rows: their rows move one by one, and
-- that of this hour would meet that of the hour before.
SELECT coalesce(string_agg(t.text, ';' || chr(10) ORDER BY t.relname, t.step), '') AS text
FROM (
  SELECT c.relname, m.step, format('UPDATE %I.%I SET %s', n.nspname, c.relname,
                                   string_agg(format('%1$I = %1$I - %2$L::interval', a.attname, m.span), ', ' ORDER BY a.attnum)) AS text
  FROM (SELECT make_interval(secs => extract(epoch FROM :span::interval)::double precision) AS wanted,
               make_interval(hours => 35000000) AS far) AS s
  CROSS JOIN pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
  CROSS JOIN LATERAL unnest(CASE WHEN EXISTS (
      SELECT FROM pg_index i JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = ANY (i.indkey)
      WHERE i.indrelid = c.oid AND i.indisunique AND k.atttypid = 'timestamptz'::regtype)
    THEN ARRAY[s.wanted + s.far, - s.far] ELSE ARRAY[s.wanted] END) WITH ORDINALITY AS m(span, step)
  WHERE n.nspname = :schema::text AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND a.atttypid = 'timestamptz'::regtype
  GROUP BY n.nspname, c.relname, m.step, m.span) AS t

-- name: still_alive
-- Live workers have beaten during the travelled time; lost ones have not.
UPDATE {schema}.workers w SET seen_at = clock_timestamp()
WHERE w.state <> 'gone' AND NOT (w.id = ANY (:lost::bigint[]))
  AND w.seen_at > clock_timestamp() - interval '15 s' - :span::interval

-- name: every_duty_due
-- After time travel.
UPDATE {schema}.duties d SET last_run_at = '-infinity', last_ms = 0

-- name: rescue_travelled
-- `rescue` without its two checks, how long this process and the server have been up: travelled time counts as well.
WITH leaving AS (
  {lost_claims}
  WHERE j.state = 'running' AND w.seen_at < clock_timestamp() - coalesce(l.stale_after, interval '60 s')
  ORDER BY j.id LIMIT 500 FOR NO KEY UPDATE OF j SKIP LOCKED),
{requeue},
{places}
SELECT m.id, m.state, places.promoted
FROM moved m CROSS JOIN places

-- name: heads
-- Pairs with queued jobs.
SELECT p.kind, p.priority, p.share, p.low_water FROM {schema}.pairs p WHERE p.low_water IS NOT NULL

-- name: any_running
-- Time does not travel while a job runs.
SELECT EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.state = 'running') AS found

-- name: next_due
-- In the order of a strict lane: priority, then queue position. wait: time until the first job is due, negative if it
-- is.
SELECT j.id, j.run_after <= clock_timestamp() AS due, j.run_after - clock_timestamp() AS wait
FROM {schema}.jobs j
WHERE j.state = 'queued' AND j.kind = ANY (:kinds::text[]) AND NOT (j.id = ANY (:without::bigint[]))
ORDER BY j.run_after > clock_timestamp(), CASE WHEN j.run_after <= clock_timestamp() THEN -j.priority END, j.run_after, j.id
LIMIT 1

-- name: next_schedule
-- Time until the next schedule is due.
SELECT s.next_at - clock_timestamp() AS wait FROM {schema}.schedules s
WHERE s.enabled AND s.next_at IS NOT NULL AND s.kind = ANY (:kinds::text[]) ORDER BY s.next_at LIMIT 1

-- name: due_steps
-- Due steps in the workflows of these jobs.
SELECT j.id FROM {schema}.jobs j
WHERE j.state = 'queued' AND j.run_after <= clock_timestamp() AND j.kind = ANY (:kinds::text[]) AND NOT (j.id = ANY (:without::bigint[]))
  AND j.workflow_id IN (SELECT o.workflow_id FROM {schema}.jobs o WHERE o.id = ANY (:ids::bigint[]))
ORDER BY j.priority DESC, j.run_after, j.id LIMIT 1

-- name: jobs_enqueued
-- Every job of a kind, or of all kinds, for assertions.
SELECT {job_view} FROM {job_sources} WHERE :kind::text IS NULL OR j.kind = :kind::text ORDER BY j.id

-- name: lose_worker
-- The claim passes to a worker that has just beaten and never will again, as after kill -9 of the process that ran the
-- job.
WITH ghost AS (
  INSERT INTO {schema}.workers (name, host, pid, version, hungry)
  SELECT 'lost-' || :id::bigint, 'nowhere', 0, '0', false
  WHERE EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.id = :id::bigint AND j.state = 'running')
  RETURNING id)
UPDATE {schema}.jobs j SET claimed_by = ghost.id FROM ghost
WHERE j.id = :id::bigint AND j.state = 'running' RETURNING ghost.id AS worker
