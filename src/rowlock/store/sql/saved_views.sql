-- saved views: searches that people keep. A few rows per person.

-- fragment: own_view
(v.owner = :subject::text AND v.tenant IS NOT DISTINCT FROM :tenant::text)

-- fragment: visible_view
-- Shared views are for the tenant of their owner; a caller who sees all jobs sees all that are shared.
({own_view} OR (v.shared AND (:sees_all::boolean OR v.tenant IS NOT DISTINCT FROM :tenant::text)))

-- fragment: view_columns
v.id, v.name, v.query, v.columns, v.sort, v.shared, v.owner, v.tenant, v.version, v.created_at, v.updated_at, {own_view} AS own

-- name: saved_views
-- One's own first, then shared ones, by name.
SELECT {view_columns} FROM {schema}.saved_views v WHERE {visible_view} AND (:id::bigint IS NULL OR v.id = :id::bigint)
ORDER BY {own_view} DESC, v.name, v.id LIMIT :n::integer

-- name: saved_view_add
-- No row: the owner has a view of that name, or as many as one may have.
INSERT INTO {schema}.saved_views AS v (owner, tenant, name, query, columns, sort, shared)
SELECT :subject::text, :tenant::text, :name::text, :query::text, :columns::text[], :sort::text, :shared::boolean
WHERE (SELECT count(*) FROM {schema}.saved_views v WHERE {own_view}) < :most::integer
ON CONFLICT (owner, coalesce(tenant, ''), name) DO NOTHING RETURNING {view_columns}

-- name: saved_view_change
-- NULL: as it is. A name that another view of the owner has raises a unique violation.
UPDATE {schema}.saved_views v
SET name = coalesce(:name::text, v.name), query = coalesce(:query::text, v.query), columns = coalesce(:columns::text[], v.columns),
    sort = coalesce(:sort::text, v.sort), shared = coalesce(:shared::boolean, v.shared), version = v.version + 1,
    updated_at = clock_timestamp()
WHERE v.id = :id::bigint RETURNING {view_columns}

-- name: saved_view_delete
-- By primary key.
DELETE FROM {schema}.saved_views v WHERE v.id = :id::bigint RETURNING v.id
