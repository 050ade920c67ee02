-- webhooks: endpoints of other systems, their secrets and how their deliveries went. Deliveries themselves are jobs, which
-- store/functions/webhooks.sql inserts.

-- fragment: webhook_columns
-- Never the secrets.
w.id, w.url, w.kinds, w.states, w.tenant, w.include, w.description, w.enabled, w.disabled_reason, w.version, w.created_at,
w.created_by, w.updated_at, w.delivered_at, w.failed_at, w.last_error, w.failures, w.given_up

-- fragment: visible_webhook
-- An endpoint belongs to a tenant; those of no tenant are for callers that see the jobs of all.
(:sees_all::boolean OR w.tenant = :tenant::text)

-- name: webhooks
-- There are few. id NULL: all that the caller may see.
SELECT {webhook_columns} FROM {schema}.webhooks w
WHERE {visible_webhook} AND (:id::bigint IS NULL OR w.id = :id::bigint) ORDER BY w.id LIMIT :n::integer

-- name: webhook_for_change
-- Locked, so that the values that the audit calls `before` are those that the change replaces.
SELECT {webhook_columns} FROM {schema}.webhooks w WHERE w.id = :id::bigint AND {visible_webhook} FOR UPDATE

-- name: webhook_add
-- With its first secret, in one statement: an endpoint without a secret would have deliveries that nobody can verify. No row: there are
-- as many as there may be.
WITH added AS (
  INSERT INTO {schema}.webhooks AS w (url, kinds, states, tenant, include, description, created_by)
  SELECT :url::text, :kinds::text[], :states::text[], :tenant::text, :include::text[], :description::text, :by_whom::text
  WHERE (SELECT count(*) FROM {schema}.webhooks) < :most::integer
  RETURNING {webhook_columns}),
signed AS (INSERT INTO {schema}.webhook_secrets (webhook_id, secret) SELECT a.id, :secret::bytea FROM added a)
SELECT * FROM added

-- name: webhook_set
-- NULL leaves a value as it is, an empty description removes it. Enabling forgets the failures of before.
UPDATE {schema}.webhooks w
SET url = coalesce(:url::text, w.url), kinds = coalesce(:kinds::text[], w.kinds), states = coalesce(:states::text[], w.states),
    include = coalesce(:include::text[], w.include), description = nullif(coalesce(:description::text, w.description), ''),
    enabled = coalesce(:enabled::boolean, w.enabled), disabled_reason = CASE WHEN :enabled::boolean IS NULL THEN w.disabled_reason END,
    failures = CASE WHEN :enabled::boolean THEN 0 ELSE w.failures END, given_up = CASE WHEN :enabled::boolean THEN 0 ELSE w.given_up END,
    version = w.version + 1, updated_at = clock_timestamp()
WHERE w.id = :id::bigint RETURNING {webhook_columns}

-- name: webhook_delete
-- Its secrets go with it. Deliveries that still wait find no endpoint and end as cancelled.
WITH gone AS (DELETE FROM {schema}.webhooks w WHERE w.id = :id::bigint RETURNING w.id)
DELETE FROM {schema}.webhook_secrets s USING gone g WHERE s.webhook_id = g.id RETURNING s.id

-- name: webhook_rotate
-- The secret of before signs as well for the overlap; those whose time is over are deleted.
WITH expired AS (
  DELETE FROM {schema}.webhook_secrets s WHERE s.webhook_id = :id::bigint AND s.expires_at <= clock_timestamp()),
replaced AS (
  UPDATE {schema}.webhook_secrets s SET expires_at = clock_timestamp() + :overlap::interval
  WHERE s.webhook_id = :id::bigint AND s.expires_at IS NULL)
INSERT INTO {schema}.webhook_secrets (webhook_id, secret) VALUES (:id::bigint, :secret::bytea) RETURNING id

-- name: webhook_test
-- A delivery that no job caused, for a person who tries the endpoint out.
WITH sent AS (
  INSERT INTO {schema}.jobs (kind, max_attempts, tenant, submitted_by, gate_key, args, refs)
  SELECT :kind::text, 1, w.tenant, :by_whom::text, 'webhook:' || w.id, jsonb_build_object('webhook', w.id, 'at', clock_timestamp()),
         jsonb_build_object('webhook', w.id::text)
  FROM {schema}.webhooks w WHERE w.id = :id::bigint
  RETURNING id, run_after, refs),
named AS (INSERT INTO {schema}.job_refs (name, value, job_id) SELECT 'webhook', s.refs ->> 'webhook', s.id FROM sent s)
SELECT s.id, s.run_after FROM sent s

-- name: webhook_delivery
-- What a delivery needs: the endpoint, the secrets that sign now, the newest first, and the time, by the only clock that counts.
SELECT {webhook_columns}, clock_timestamp() AS now,
       ARRAY(SELECT s.secret FROM {schema}.webhook_secrets s
              WHERE s.webhook_id = w.id AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp()) ORDER BY s.id DESC) AS secrets
FROM {schema}.webhooks w WHERE w.id = :id::bigint

-- name: webhook_delivered
-- Ends a series of failures. At most one write in ten seconds while all is well: many deliveries would wait for this row.
UPDATE {schema}.webhooks w SET delivered_at = clock_timestamp(), failures = 0, given_up = 0
WHERE w.id = :id::bigint
  AND (w.failures > 0 OR w.given_up > 0 OR w.delivered_at IS NULL OR w.delivered_at < clock_timestamp() - interval '10 s')

-- name: webhook_failed
-- gives_up: no attempt follows. A series of so many deliveries that were given up, or `gone`, disables the endpoint; `was_enabled` says
-- whether this very statement did. The row is locked before it is read, so that of two deliveries one disables it.
WITH w AS (SELECT o.id, o.enabled, o.given_up FROM {schema}.webhooks o WHERE o.id = :id::bigint FOR UPDATE)
UPDATE {schema}.webhooks n
SET failed_at = clock_timestamp(), last_error = left(:error::text, 500), failures = n.failures + 1,
    given_up = n.given_up + :gives_up::boolean::integer,
    enabled = n.enabled AND NOT (:gone::boolean OR n.given_up + :gives_up::boolean::integer >= :streak::integer),
    disabled_reason = CASE WHEN NOT n.enabled THEN n.disabled_reason
                           WHEN :gone::boolean THEN 'the endpoint answered 410 Gone'
                           WHEN n.given_up + :gives_up::boolean::integer >= :streak::integer
                           THEN (n.given_up + 1) || ' deliveries in a row were given up' END
FROM w WHERE n.id = w.id
RETURNING n.enabled, w.enabled AS was_enabled, n.disabled_reason, n.tenant
