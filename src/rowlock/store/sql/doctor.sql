-- doctor: what `rowlock doctor` reads. Every statement looks at a bounded number of rows.

-- name: doctor_server
-- Settings of the server that decide whether Rowlock works well on it, and how many connections are left.
SELECT current_setting('server_version') AS version, current_setting('server_version_num')::integer AS number,
       pg_is_in_recovery() AS standby, clock_timestamp() AS now,
       current_setting('autovacuum') AS autovacuum, current_setting('track_counts') AS track_counts,
       current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('max_connections')::integer AS max_connections,
       current_setting('superuser_reserved_connections')::integer
         + coalesce(current_setting('reserved_connections', true), '0')::integer AS reserved,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.backend_type = 'client backend') AS connected,
       (SELECT count(*) FROM pg_stat_activity a
         WHERE a.backend_type = 'client backend' AND a.application_name LIKE 'rowlock:%') AS ours

-- name: doctor_transactions
-- Old transactions: their snapshot keeps vacuum from removing rows that died since.
SELECT x.what, x.who, x.state, clock_timestamp() - x.since AS age
FROM (
  (SELECT 'process ' || a.pid AS what, coalesce(nullif(a.application_name, ''), a.usename, '') AS who,
          coalesce(a.state, '') AS state, a.xact_start AS since
   FROM pg_stat_activity a
   WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start < clock_timestamp() - :older::interval)
  UNION ALL
  (SELECT 'prepared transaction ' || p.gid, p.owner::text, 'prepared', p.prepared FROM pg_prepared_xacts p
   WHERE p.database = current_database() AND p.prepared < clock_timestamp() - :older::interval)) AS x
ORDER BY x.since LIMIT 5

-- name: doctor_slots
-- Inactive replication slots: they retain write-ahead log, and with an xmin dead rows, too.
SELECT s.slot_name AS name, coalesce(s.wal_status, '') AS wal_status,
       s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL AS holds_rows,
       pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
                       s.restart_lsn)::bigint AS bytes
FROM pg_replication_slots s WHERE NOT s.active ORDER BY s.slot_name LIMIT 5

-- name: doctor_tables
-- Tables with autovacuum switched off, and dead rows by table.
SELECT c.relname AS name, coalesce('autovacuum_enabled=false' = ANY (c.reloptions), false) AS unvacuumed,
       coalesce(t.n_live_tup, 0) AS live, coalesce(t.n_dead_tup, 0) AS dead, t.last_autovacuum
FROM pg_class c LEFT JOIN pg_stat_user_tables t ON t.relid = c.oid
WHERE c.relnamespace = to_regnamespace(:schema::text) AND c.relkind = 'r' ORDER BY c.relname LIMIT 100

-- name: doctor_oldest
-- The job that has been due for longest, found through the heads of the pairs.
WITH RECURSIVE {queued_heads},
first AS MATERIALIZED (
  SELECT * FROM (SELECT h.kind, h.priority, h.share, h.run_after FROM h LIMIT 2000) AS heads
  WHERE heads.run_after <= clock_timestamp() ORDER BY heads.run_after LIMIT 1)
SELECT q.id, f.kind, clock_timestamp() - f.run_after AS age
FROM first f CROSS JOIN LATERAL (
  SELECT j.id FROM {schema}.jobs j
  WHERE j.state = 'queued' AND j.kind = f.kind AND j.priority = f.priority AND j.share = f.share AND j.run_after = f.run_after
  ORDER BY j.id LIMIT 1) AS q

-- name: doctor_pending
-- approval 1: the job awaits approval. Any other pending job is held for a person because its worker died.
SELECT p.approval & 3 = 1 AS asked, count(*) AS n, min(p.id) AS id, clock_timestamp() - min(p.created_at) AS age,
       (SELECT string_agg(r.name, ', ' ORDER BY r.name) FROM {schema}.roles r WHERE :permission::text = ANY (r.permissions)) AS roles
FROM (SELECT j.id, j.approval, j.created_at FROM {schema}.jobs j WHERE j.state = 'pending' ORDER BY j.id LIMIT :cap::integer) AS p
GROUP BY 1

-- name: doctor_quarantined
-- Looks at the newest failures only.
SELECT count(*) AS n, max(f.id) AS id, clock_timestamp() - max(f.finished_at) AS age
FROM (SELECT j.id, j.finished_at, j.errors FROM {schema}.jobs j WHERE j.state = 'failed'
      ORDER BY j.id DESC LIMIT :cap::integer) AS f
WHERE f.errors ->> 'reason' = 'quarantined'

-- name: doctor_stalls
-- Running jobs that their lane will soon take back for lack of progress, and jobs without progress for `long` in a lane
-- without that limit. Jobs of silent workers are left to the check of workers.
SELECT r.lane, r.stall_after, count(*) AS n, (array_agg(r.id ORDER BY r.since))[1] AS id, clock_timestamp() - min(r.since) AS age
FROM (SELECT j.id, l.name AS lane, l.stall_after, greatest(j.claimed_at, p.reported_at) AS since
      FROM ({running_rows}) AS j JOIN {schema}.lanes l ON l.name = j.lane
      JOIN {schema}.workers w ON w.id = j.claimed_by AND w.seen_at >= clock_timestamp() - interval '15 s'
      LEFT JOIN {schema}.job_progress p ON p.job_id = j.id AND p.fence = j.fence) AS r
WHERE r.since < clock_timestamp() - coalesce(r.stall_after / 2, :long::interval)
GROUP BY r.lane, r.stall_after ORDER BY age DESC, r.lane LIMIT 5

-- name: doctor_upkeep
-- The search for orphans is the one duty that the beat never leaves out, also when no job waits: its age shows whether
-- upkeep runs at all. A worker that has just started gets a moment to run it.
SELECT d.name, clock_timestamp() - greatest(d.last_run_at, w.started_at) AS age FROM {schema}.duties d
CROSS JOIN (SELECT min(x.started_at) AS started_at FROM {schema}.workers x
            WHERE x.state = 'up' AND x.seen_at >= clock_timestamp() - interval '15 s') AS w
WHERE d.name = 'orphans' AND isfinite(greatest(d.last_run_at, w.started_at))

-- name: doctor_failing
-- Kinds of which most jobs failed within the last hour, with the commonest error among the newest failures.
WITH kinds AS MATERIALIZED (
  SELECT f.kind, f.ended, f.failed, f.last_failed_id AS id FROM {schema}.stats_failures f
  WHERE (f.ended >= :least::integer AND f.rate > :share::float8) OR (f.ended >= :all_of::integer AND f.failed = f.ended)
  ORDER BY f.failed DESC, f.kind LIMIT 5)
SELECT k.kind, k.ended, k.failed, k.id, e.error, e.n AS times
FROM kinds k
LEFT JOIN LATERAL (
  SELECT concat_ws(': ', x.errors ->> 'reason', x.errors ->> 'type', left(x.errors ->> 'message', 120)) AS error, count(*) AS n
  FROM (SELECT j.kind, j.errors FROM {schema}.jobs j WHERE j.state = 'failed' AND j.finished_at < 'infinity'
        ORDER BY j.finished_at DESC LIMIT :cap::integer) AS x
  WHERE x.kind = k.kind GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1) AS e ON true
ORDER BY k.failed DESC, k.kind

-- name: serving
-- The backend that serves this connection; behind a transaction pooler it changes.
SELECT pg_backend_pid() AS pid

-- name: doctor_notify_queue
-- How full the server's queue of notifications is, and the oldest session that is idle in a transaction: a listener in
-- such a state, in whatever database, keeps the queue from being emptied.
SELECT pg_notification_queue_usage() AS usage, a.pid, coalesce(nullif(a.application_name, ''), a.usename, '') AS who,
       clock_timestamp() - a.xact_start AS age
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (SELECT x.* FROM pg_stat_activity x WHERE x.state LIKE 'idle in transaction%' ORDER BY x.xact_start LIMIT 1) AS a ON true
