-- system: the database as operators see it, and what changed in a span of time. Catalogues and small tables.

-- name: system_server
-- Sizes are those of files; the oldest transaction is that of this database, without the one that asks.
SELECT clock_timestamp() AS at, current_setting('server_version') AS server, pg_database_size(current_database()) AS database_bytes,
       pg_notification_queue_usage() AS notify_queue, current_setting('max_connections')::integer AS max_connections,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.backend_type = 'client backend') AS connections,
       o.pid, o.who, o.state, o.open_for
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
  SELECT a.pid, coalesce(nullif(a.application_name, ''), a.usename, '') AS who, coalesce(a.state, '') AS state,
         clock_timestamp() - a.xact_start AS open_for
  FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
  ORDER BY a.xact_start LIMIT 1) AS o ON true

-- name: system_tables
-- The largest first.
SELECT c.relname AS name, pg_table_size(c.oid) AS bytes, pg_indexes_size(c.oid) AS index_bytes, coalesce(t.n_live_tup, 0) AS live,
       coalesce(t.n_dead_tup, 0) AS dead, greatest(t.last_autovacuum, t.last_vacuum) AS vacuumed_at,
       greatest(t.last_autoanalyze, t.last_analyze) AS analyzed_at
FROM pg_class c LEFT JOIN pg_stat_user_tables t ON t.relid = c.oid
WHERE c.relnamespace = to_regnamespace(:schema::text) AND c.relkind = 'r'
ORDER BY pg_total_relation_size(c.oid) DESC, c.relname LIMIT 100

-- name: system_indexes
-- The largest first.
SELECT i.indexrelname AS name, i.relname AS "table", pg_relation_size(i.indexrelid) AS bytes, i.idx_scan AS scans
FROM pg_stat_user_indexes i WHERE i.schemaname = :name::text ORDER BY pg_relation_size(i.indexrelid) DESC, i.indexrelname LIMIT 100

-- name: system_steps
-- Applied migrations; those of before this ledger are in the older one.
SELECT s.version, s.name, s.applied_at FROM {schema}.schema_steps s
UNION
SELECT m.version, m.name, m.applied_at FROM {schema}.migrations m WHERE m.version NOT IN (SELECT s.version FROM {schema}.schema_steps s)
ORDER BY version

-- name: system_retention
-- A small table.
SELECT r.kind, r.state, r.keep FROM {schema}.retention r ORDER BY r.kind, r.state

-- name: system_duties
-- A small table.
SELECT d.name, d.every, nullif(d.last_run_at, '-infinity') AS last_run_at, make_interval(secs => d.last_ms / 1000.0) AS took
FROM {schema}.duties d ORDER BY d.name

-- name: deploys
-- The newest first, with what ended in the hour before and after the first worker of each: by ten minutes, or by hour where those are
-- removed already.
SELECT d.version, d.first_seen AS at, b.ended AS ended_before, b.failed AS failed_before, a.ended AS ended_after, a.failed AS failed_after,
       (SELECT count(*) FROM {schema}.workers w
         WHERE w.version = d.version AND w.state <> 'gone' AND w.seen_at > clock_timestamp() - interval '15 s') AS workers
FROM (SELECT x.* FROM {schema}.deploys x WHERE x.first_seen >= :since::timestamptz AND x.first_seen < :until::timestamptz
      ORDER BY x.first_seen DESC LIMIT :n::integer) AS d
CROSS JOIN LATERAL (
  SELECT CASE WHEN d.first_seen > now() - interval '23 hours' THEN 'ten_minutes' ELSE 'hour' END AS step,
         CASE WHEN d.first_seen > now() - interval '23 hours' THEN date_bin('10 min', d.first_seen, timestamptz 'epoch')
              ELSE date_trunc('hour', d.first_seen, 'UTC') END AS at) AS s
CROSS JOIN LATERAL (
  SELECT coalesce(sum(c.n), 0)::bigint AS ended, coalesce(sum(c.n) FILTER (WHERE c.state = 'failed'), 0)::bigint AS failed
  FROM {schema}.stats_counts c WHERE c.step = s.step AND c.since >= s.at - interval '1 hour' AND c.since < s.at
    AND c.measure <> 'wait' AND c.state <> '') AS b
CROSS JOIN LATERAL (
  SELECT coalesce(sum(c.n), 0)::bigint AS ended, coalesce(sum(c.n) FILTER (WHERE c.state = 'failed'), 0)::bigint AS failed
  FROM {schema}.stats_counts c WHERE c.step = s.step AND c.since >= s.at AND c.since < s.at + interval '1 hour'
    AND c.measure <> 'wait' AND c.state <> '') AS a
ORDER BY d.first_seen DESC

-- name: system_changes
-- What people and deploys changed, and failure groups that began, the newest first. The audit has no index by time, so its newest lines are read, `walk`
-- at most; `back_to` is the oldest of them, NULL if all were read. Of the audit only what concerns more than single jobs.
WITH newest AS MATERIALIZED (SELECT x.* FROM {schema}.audit x ORDER BY x.id DESC LIMIT :walk::integer),
back AS (SELECT CASE WHEN count(*) = :walk::integer THEN min(n.at) END AS back_to FROM newest n)
SELECT c.*, back.back_to FROM back LEFT JOIN LATERAL (
  SELECT * FROM (
    SELECT a.at, a.action AS what, a.target, coalesce(a.acting_for, a.subject) AS by_whom, a.note, a.before, a.after FROM newest a
    WHERE a.action LIKE ANY (ARRAY['lane.%', 'schedule.%', 'rate.%', 'gate.%', 'worker.%', 'operation.%', 'failure.%', 'rule.%', 'role.%'])
      AND (:sees_all::boolean OR a.tenant = :tenant::text OR (:tenant::text IS NULL AND a.tenant IS NULL AND a.subject = :subject::text))
    UNION ALL
    SELECT d.first_seen, 'deploy', d.version, NULL, NULL, NULL, NULL FROM {schema}.deploys d
    UNION ALL
    SELECT min(g.first_seen), 'failure.began', 'failure:' || g.fingerprint, NULL, NULL, NULL,
           jsonb_strip_nulls(jsonb_build_object('kind', g.kind, 'type', (array_agg(g.error ->> 'type'))[1],
             'message', (array_agg({schema}.failure_message(g.error ->> 'message')))[1]))
    FROM {schema}.failure_groups g WHERE {own_failures} AND :failures::boolean GROUP BY g.fingerprint, g.kind) AS u
  WHERE u.at >= :since::timestamptz AND u.at < :until::timestamptz
  ORDER BY u.at DESC, u.what, u.target LIMIT :n::integer) AS c ON true
