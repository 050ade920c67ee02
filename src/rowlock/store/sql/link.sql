-- link: what a worker's long-lived connections ask about themselves.

-- name: my_backend
SELECT pg_backend_pid()

-- name: is_at_work
-- Whether a backend is at a statement; not when the server that had it is gone. Roles see their own sessions; a server that
-- does not track what they do (state is 'disabled') is believed to be busy.
SELECT EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.pid = :pid::integer AND coalesce(a.state, 'active') NOT LIKE 'idle%')
