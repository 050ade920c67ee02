-- access: roles, tokens, sessions, failed logins, audit.

-- fragment: asked_by
-- Who asks, from the JSON that Guard.asker makes: one parameter, so that an order's statement grows by one.
jsonb_to_record(:asker::jsonb) AS who(subject text, kind text, acting_for text, tenant text, request_id text, address text)

-- fragment: audited
-- In the statement that changes the jobs, so that neither exists without the other. Needs a CTE `ended (id, after jsonb)`. A
-- statement sees rows as they were when it began: `was` is the job before. The id is written as text: one column for all targets.
audited AS (
  INSERT INTO {schema}.audit (subject, kind, acting_for, tenant, action, target, before, after, note, request_id, address)
  SELECT who.subject, who.kind, who.acting_for, who.tenant, 'job.' || :verb::text, 'job:' || e.id,
         jsonb_strip_nulls(jsonb_build_object('state', was.state, 'priority', CASE WHEN e.after ? 'priority' THEN was.priority END)),
         e.after, :note::text, who.request_id, who.address
  FROM ended e JOIN {schema}.jobs was ON was.id = e.id CROSS JOIN {asked_by})

-- name: audit_add
-- Right after a change that takes several statements, or that another room makes.
INSERT INTO {schema}.audit (subject, kind, acting_for, tenant, action, target, before, after, note, request_id, address)
SELECT who.subject, who.kind, who.acting_for, who.tenant, :action::text, :target::text, :before::jsonb, :after::jsonb, :note::text,
       who.request_id, who.address
FROM {asked_by}

-- name: audit_list
-- Newest first by primary key, or through the index of the target or the subject when one is named.
SELECT a.id, a.at, a.subject, a.kind, a.acting_for, a.tenant, a.action, a.target, a.before, a.after, a.note, a.request_id, a.address
FROM {schema}.audit a
WHERE a.id < :before_id::bigint
  AND (:target::text IS NULL OR a.target = :target::text)
  AND (:by_subject::text IS NULL OR a.subject = :by_subject::text)
  AND (:action::text IS NULL OR a.action = :action::text)
  AND (:since::timestamptz IS NULL OR a.at >= :since::timestamptz)
  AND (:sees_all::boolean OR a.tenant = :tenant::text OR (:tenant::text IS NULL AND a.tenant IS NULL AND a.subject = :subject::text))
ORDER BY a.id DESC LIMIT :n::integer

-- name: prune_audit
-- By id, which grows with time: the old ones are the first, and a batch that finds none young enough to stay ends at once.
DELETE FROM {schema}.audit a
WHERE a.id IN (SELECT x.id FROM (SELECT o.id, o.at FROM {schema}.audit o ORDER BY o.id LIMIT :batch::integer) AS x
               WHERE x.at < clock_timestamp() - :keep::interval)
RETURNING 1

-- name: roles
SELECT r.name, r.permissions, r.updated_at FROM {schema}.roles r ORDER BY r.name

-- name: role_set
INSERT INTO {schema}.roles AS r (name, permissions) VALUES (:name::text, :permissions::text[])
ON CONFLICT (name) DO UPDATE SET permissions = excluded.permissions, updated_at = now()
RETURNING r.name, r.permissions, r.updated_at

-- name: role_delete
-- With its grants: a role of the same name that comes later is another one.
WITH ungranted AS (DELETE FROM {schema}.role_grants g WHERE g.role = :name::text)
DELETE FROM {schema}.roles r WHERE r.name = :name::text RETURNING r.name, r.permissions, r.updated_at

-- name: role_grant
-- The role is held meanwhile, so that a delete at the same moment either comes first or takes this grant along.
WITH held AS (SELECT r.name FROM {schema}.roles r WHERE r.name = :role::text FOR SHARE)
INSERT INTO {schema}.role_grants AS g (subject, role, granted_by) SELECT :subject::text, held.name, :by_whom::text FROM held
ON CONFLICT (subject, role) DO NOTHING RETURNING g.role

-- name: role_revoke
DELETE FROM {schema}.role_grants g WHERE g.subject = :subject::text AND g.role = :role::text RETURNING g.role

-- name: role_grants
SELECT g.subject, g.role, g.granted_at, g.granted_by FROM {schema}.role_grants g
WHERE (:subject::text IS NULL OR g.subject = :subject::text) ORDER BY g.subject, g.role LIMIT :n::integer

-- name: permissions_for
-- What a subject may do: by the roles somebody vouches for, and by those granted here.
SELECT r.name, r.permissions, g.role IS NOT NULL AS granted
FROM {schema}.roles r LEFT JOIN {schema}.role_grants g ON g.role = r.name AND g.subject = :subject::text
WHERE r.name = ANY (:roles::text[]) OR g.role IS NOT NULL
ORDER BY r.name

-- fragment: token_columns
t.id, t.name, t.subject, t.tenant, t.permissions, t.roles, t.created_at, t.created_by, t.expires_at, t.last_used_at, t.revoked_at

-- fragment: token_rights
-- A token's own permissions and those of its roles as they are today.
t.subject, t.tenant, t.name, t.roles,
t.permissions || ARRAY(SELECT p FROM {schema}.roles r CROSS JOIN unnest(r.permissions) AS p WHERE r.name = ANY (t.roles)) AS permissions

-- fragment: token_lives
t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())

-- name: token_add
INSERT INTO {schema}.tokens AS t (id, hash, name, subject, tenant, permissions, roles, created_by, expires_at)
VALUES (:id::text, :hash::bytea, :name::text, :subject::text, :tenant::text, :permissions::text[], :roles::text[], :by_whom::text,
        now() + :expires_in::interval)
RETURNING {token_columns}

-- name: tokens
SELECT {token_columns} FROM {schema}.tokens t
WHERE (:sees_all::boolean OR t.tenant = :tenant::text OR (:tenant::text IS NULL AND t.tenant IS NULL))
ORDER BY t.created_at DESC, t.id LIMIT :n::integer

-- name: token_revoke
UPDATE {schema}.tokens t SET revoked_at = coalesce(t.revoked_at, now())
WHERE t.id = :id::text
  AND (:sees_all::boolean OR t.tenant = :tenant::text OR (:tenant::text IS NULL AND t.tenant IS NULL))
RETURNING {token_columns}

-- name: token_find
-- One read by primary keys for each request: the token, what its roles allow today, and whether this address has guessed too
-- often. The hash is compared by the caller, in constant time.
SELECT t.id, t.hash, {token_lives} AS lives, coalesce(t.last_used_at < now() - interval '1 min', true) AS unused, {token_rights}
FROM {schema}.tokens t WHERE t.id = :id::text

-- name: token_used
-- At most one write a minute: whoever comes second finds it written.
UPDATE {schema}.tokens t SET last_used_at = now()
WHERE t.id = :id::text AND (t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 min')

-- name: login_blocked
-- Seconds until the next try is heard, for keys that failed too often within the window; no row: go on.
SELECT ceil(extract(epoch FROM max(f.since + :within::interval - now())))::integer AS seconds
FROM unnest(:keys::text[], :limits::integer[]) AS k(key, most) JOIN {schema}.login_failures f ON f.key = k.key
WHERE f.failures >= k.most AND f.since > now() - :within::interval
HAVING count(*) > 0

-- name: login_failed
-- Counted per window; in key order, as two processes may count the same keys at once.
INSERT INTO {schema}.login_failures AS f (key, failures, since)
SELECT k, 1, now() FROM unnest(:keys::text[]) AS k ORDER BY k
ON CONFLICT (key) DO UPDATE
SET failures = CASE WHEN f.since > now() - :within::interval THEN f.failures + 1 ELSE 1 END,
    since = CASE WHEN f.since > now() - :within::interval THEN f.since ELSE now() END

-- name: session_open
INSERT INTO {schema}.sessions (hash, token_id) VALUES (:hash::bytea, :token::text)

-- fragment: session_lives
s.seen_at > now() - :idle::interval AND s.created_at > now() - :longest::interval

-- name: session_find
SELECT s.token_id AS id, s.seen_at < now() - interval '1 min' AS unused, {token_rights}
FROM {schema}.sessions s JOIN {schema}.tokens t ON t.id = s.token_id
WHERE s.hash = :hash::bytea AND {session_lives} AND {token_lives}

-- name: session_seen
UPDATE {schema}.sessions s SET seen_at = now() WHERE s.hash = :hash::bytea AND s.seen_at < now() - interval '1 min'

-- name: session_close
DELETE FROM {schema}.sessions s WHERE s.hash = :hash::bytea RETURNING s.token_id

-- name: prune_access
-- Sessions that ran out and failures long past; both tables are as small as the people who use the dashboard are few.
WITH gone AS (DELETE FROM {schema}.sessions s WHERE NOT ({session_lives}))
DELETE FROM {schema}.login_failures f WHERE f.since < now() - :within::interval

-- name: kind_defaults
SELECT k.defaults FROM {schema}.kinds k WHERE k.name = :name::text

-- name: kinds_told
-- For a message, so it is bounded.
SELECT k.name FROM {schema}.kinds k ORDER BY k.name LIMIT 50
