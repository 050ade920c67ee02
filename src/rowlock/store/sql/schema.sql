-- schema: the shape of the tables, for `rowlock schema verify`, and what an upgrade needs to know.

-- name: shape
-- One line per column, index, constraint and function, comparable between two schemas. The optional index on args is
-- left out. The search path is the schema alone, so that definitions are printed without its name.
SELECT 'column ' || c.table_name || '.' || c.column_name || ' ' || c.data_type || ' '
       || CASE c.is_nullable WHEN 'NO' THEN 'not null' ELSE 'null' END AS item
FROM information_schema.columns c WHERE c.table_schema = :schema::text
UNION ALL
SELECT 'index ' || replace(i.indexdef, ' ON ' || quote_ident(:schema::text) || '.', ' ON ') FROM pg_indexes i
WHERE i.schemaname = :schema::text AND i.indexname <> 'jobs_args'
UNION ALL
SELECT 'constraint ' || t.relname || ' ' || pg_get_constraintdef(c.oid)
FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE n.nspname = :schema::text AND c.contype <> 'n'
UNION ALL
-- Bodies are written with the schema always in quotes.
SELECT 'function ' || p.proname || ' ' || md5(replace(p.prosrc, '"' || replace(:schema::text, '"', '""') || '".', ''))
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = :schema::text

-- name: views_of
-- The views of a schema, as PostgreSQL prints them. The search path is the schema alone, as for `shape`.
SELECT v.viewname AS name, v.definition FROM pg_views v WHERE v.schemaname = :schema::text ORDER BY 1

-- name: ledgers_there
-- Which of the two tables that record applied steps exist; a schema without either has no version.
SELECT to_regclass(:newer::text) IS NOT NULL AS newer, to_regclass(:first::text) IS NOT NULL AS first

-- name: newest_step
-- The version of the schema, in the transaction of a migration tool.
SELECT max(m.version) AS version FROM {schema}.schema_steps m

-- name: newest_first_step
-- The same where the step that creates the newer ledger is not applied yet.
SELECT max(m.version) AS version FROM {schema}.migrations m

-- name: try_upgrade_lock
-- Polled, never waited for: while a statement waited, no index could be built concurrently. Ends with the transaction.
SELECT pg_try_advisory_xact_lock(:key::bigint) AS mine

-- name: schema_droppable
-- Whether the schema is the user's own and nothing is left in it; a type or a function of another owner would be lost.
SELECT n.nspname <> 'public' AND pg_get_userbyid(n.nspowner) = current_user
       AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid) AS droppable
FROM pg_namespace n WHERE n.nspname = :schema::text

-- name: index_valid
-- No row: there is no such index. false: its building was interrupted.
SELECT x.indisvalid AS valid FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema::text AND c.relname = :index::text

-- name: invalid_indexes
-- Indexes whose building was interrupted.
SELECT c.relname AS name FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema::text AND NOT x.indisvalid ORDER BY c.relname

-- name: lock_holders
-- Transactions that hold locks on the tables, the oldest first. Only of this database: a copy of it has tables with the
-- same OIDs.
SELECT a.pid, coalesce(nullif(a.application_name, ''), a.usename::text, '') || ', ' || coalesce(a.state, '') AS who,
       date_trunc('second', clock_timestamp() - a.xact_start)::text AS age
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL AND a.datname = current_database() AND EXISTS (
  SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE l.pid = a.pid AND l.granted AND n.nspname = :schema::text)
ORDER BY a.xact_start LIMIT 3
