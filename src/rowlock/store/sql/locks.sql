-- locks: PostgreSQL's session-level advisory locks, and a table with their names. pg_locks is the truth: a row whose
-- backend does not hold its lock is not shown, and upkeep deletes it.

-- fragment: advisory
-- The advisory locks of this database with a bigint as their key, which pg_locks shows in two halves. Read once:
-- reading pg_locks stops the lock manager for a moment.
here AS MATERIALIZED (
  SELECT l.pid, (l.classid::bigint << 32) | l.objid::bigint AS key FROM pg_locks l
  WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))

-- fragment: lives
-- The backend of a holder holds the lock itself, that of a waiter the lock of its session.
EXISTS (SELECT 1 FROM here h WHERE h.pid = k.pid AND h.key = CASE WHEN k.held THEN k.key ELSE k.session END)

-- name: lock_enter
-- A new connection for locks. Its own lock shows the others that it is alive. It must not be ended for being idle: it
-- is idle while its holders work. The server notices within half a minute that a host has vanished, and frees its
-- locks.
SELECT pg_backend_pid() AS pid, pg_try_advisory_lock(:session::bigint) AS alone, set_config('idle_session_timeout', '0', false) AS a,
       set_config('tcp_keepalives_idle', '10', false) AS b, set_config('tcp_keepalives_interval', '5', false) AS c,
       set_config('tcp_keepalives_count', '3', false) AS d

-- name: lock_take
-- Try, and record the result: a holder, or (note) a waiter. polite: waiters of other processes go first; only newcomers
-- ask for that, so that a stuck waiter holds nobody up for long.
WITH got AS MATERIALIZED (
  SELECT CASE WHEN :polite::boolean AND EXISTS (
                SELECT 1 FROM {schema}.locks w WHERE w.key = :key::bigint AND NOT w.held AND w.session <> :session::bigint)
              THEN false ELSE pg_try_advisory_lock(:key::bigint) END AS mine),
noted AS (
  INSERT INTO {schema}.locks AS k (session, n, pid, key, namespace, name, held, job_id, kind, process)
  SELECT :session::bigint, :n::bigint, pg_backend_pid(), :key::bigint, :namespace::text, :name::text, got.mine, :job_id::bigint,
         :kind::text, :process::text
  FROM got WHERE got.mine OR :note::boolean
  ON CONFLICT (session, n) DO UPDATE SET held = true, since = excluded.since WHERE excluded.held)
SELECT mine FROM got

-- name: lock_wait
-- For a caller that waits for another one in the same process: the connection cannot try for both.
INSERT INTO {schema}.locks (session, n, pid, key, namespace, name, held, job_id, kind, process)
VALUES (:session::bigint, :n::bigint, pg_backend_pid(), :key::bigint, :namespace::text, :name::text, false, :job_id::bigint,
        :kind::text, :process::text)
ON CONFLICT DO NOTHING

-- name: lock_leave
-- A caller gave up waiting.
DELETE FROM {schema}.locks k WHERE k.session = :session::bigint AND k.n = :n::bigint

-- name: lock_release
-- A function of the schema, for the reason given there.
SELECT r.was_held, r.heir FROM {schema}.lock_release(:key::bigint, :session::bigint, :n::bigint, :channel::text) AS r

-- name: lock_holder
-- For the error of a caller that did not get the lock.
WITH {advisory}
SELECT k.job_id, k.kind, k.process, k.since, clock_timestamp() AS now FROM {schema}.locks k
WHERE k.key = :key::bigint AND k.held AND {lives}

-- name: lock_list
-- Jobs are named only to callers who may see them. A few rows per process: no index would help.
WITH {advisory}
SELECT k.key, k.namespace, k.name, k.held, j.id AS job_id, CASE WHEN j.id IS NOT NULL THEN k.kind END AS kind, k.process, k.since,
       clock_timestamp() AS now
FROM {schema}.locks k LEFT JOIN {schema}.jobs j ON j.id = k.job_id AND {visible}
WHERE {lives}
ORDER BY k.namespace, k.name, k.key, k.held DESC, k.since, k.session, k.n

-- name: lock_waits
-- The locks that a running job waits for, and their holders (o).
WITH {advisory}
SELECT w.namespace, w.name, w.since, o.since AS held_since, o.process, j.id AS holder_id, j.kind AS holder_kind
FROM (SELECT k.* FROM {schema}.locks k WHERE k.job_id = :id::bigint AND NOT k.held AND {lives}) AS w
LEFT JOIN LATERAL (SELECT k.* FROM {schema}.locks k WHERE k.key = w.key AND k.held AND {lives} LIMIT 1) AS o ON true
LEFT JOIN {schema}.jobs j ON j.id = o.job_id AND {visible}
ORDER BY w.since

-- name: prune_locks
-- Rows of processes that were killed. A session takes its own lock before it writes its first row, so no live one is
-- hit.
WITH {advisory}
DELETE FROM {schema}.locks k
WHERE NOT EXISTS (SELECT 1 FROM here h WHERE h.pid = k.pid AND h.key = k.session) AND (:only::text[] IS NULL OR 'lock ' || k.namespace || ' ' || k.name = ANY (:only::text[]))

-- name: lock_names
-- For prune_locks when it is run in parts.
SELECT DISTINCT 'lock ' || k.namespace || ' ' || k.name AS id FROM {schema}.locks k
