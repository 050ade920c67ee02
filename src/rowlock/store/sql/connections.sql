-- connections: what connections find out about themselves and about each other.

-- name: my_backend
-- Compared with the handshake: behind a pooler they differ.
SELECT pg_backend_pid()

-- name: is_at_work
-- Whether a backend works on a statement, and since when it is in its present state; no row when the server that had it
-- is gone. A backend that waits for the client in the middle of a statement has answered all it was asked so far,
-- except during COPY, whose rows may take long to arrive. Roles see their own sessions; a server that does not track
-- activity (state 'disabled') counts as busy.
SELECT coalesce(a.state, 'active') NOT LIKE 'idle%' AND (a.wait_event IS DISTINCT FROM 'ClientRead' OR a.query ILIKE 'copy%') AS busy,
       a.state_change AS since
FROM pg_stat_activity a WHERE a.pid = :pid::integer

-- name: blockers_of
-- The sessions that a waiting backend waits for, for the message of the call that waits: pg_blocking_pids stops the lock
-- manager for a moment, so it is asked once per wait. Roles see names and ages of their own sessions only; a prepared
-- transaction is process 0 and has no session.
SELECT string_agg(CASE WHEN b.pid = 0 THEN 'a prepared transaction' ELSE
         'process ' || b.pid || coalesce(' (' || nullif(concat_ws(', ', coalesce(nullif(a.application_name, ''), a.usename::text), a.state,
           'transaction open for ' || round(extract(epoch FROM clock_timestamp() - a.xact_start)) || ' s'), '') || ')', '') END,
         ', ' ORDER BY a.xact_start, b.pid)
FROM (SELECT DISTINCT unnest(pg_blocking_pids(:pid::integer)) AS pid) AS b LEFT JOIN pg_stat_activity a ON a.pid = b.pid

-- name: limit_lock_wait
-- For the rest of the transaction; works behind a pooler, too. The statement after it serves many rows or a person: one
-- row that another session holds, or a unique key that an open transaction has taken, must not keep it for long.
SELECT set_config('lock_timeout', :wait::text, true)

-- name: wal_position
-- How far the primary has written, in bytes, to be compared with what the replica has replayed. Asked of a standby that
-- was configured as the primary, it must not fail.
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0'::pg_lsn)::bigint AS position

-- name: replay_position
-- How far the replica has replayed, and the age of the last transaction that it has. A promoted one is not recovering.
SELECT pg_is_in_recovery() AS recovering, (coalesce(pg_last_wal_replay_lsn(), '0/0'::pg_lsn) - '0/0'::pg_lsn)::bigint AS position,
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 AS seconds
