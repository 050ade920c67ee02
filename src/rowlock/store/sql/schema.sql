-- schema: what the tables look like, for `rowlock schema verify`.

-- name: shape
-- One line per column, index, constraint, function and view, comparable between two schemas. The optional index is
-- nobody's mistake. The search path is the schema alone: views are printed without its name then.
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
UNION ALL
SELECT 'view ' || v.viewname || ' ' || md5(v.definition) FROM pg_views v WHERE v.schemaname = :schema::text
