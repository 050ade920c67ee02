-- link: what connections ask about themselves.

-- name: my_backend
SELECT pg_backend_pid()

-- name: is_at_work
-- Whether a backend is at a statement, and since when it does what it does; no row when the server that had it is gone. One that
-- waits for the client in the middle of a statement has answered what it was asked so far, but for COPY, whose rows may be long in
-- coming. Roles see their own sessions; a server that does not track what they do (state is 'disabled') is believed to be busy.
SELECT coalesce(a.state, 'active') NOT LIKE 'idle%' AND (a.wait_event IS DISTINCT FROM 'ClientRead' OR a.query ILIKE 'copy%') AS busy,
       a.state_change AS since
FROM pg_stat_activity a WHERE a.pid = :pid::integer
