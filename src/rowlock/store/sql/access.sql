-- access: roles, tokens, sessions, failed logins, and the audit log.

-- fragment: asked_by
-- The caller, from the JSON that Guard.asker() makes: a single parameter for every statement that needs it.
jsonb_to_record(:asker::jsonb) AS who(subject text, kind text, acting_for text, tenant text, request_id text, address text)

-- fragment: audited
-- In the statement that changes the jobs, so that neither exists without the other. Needs a CTE `ended (id, after
-- jsonb)`. A statement sees rows as they were when it began, so `was` is the job before the change. The id is stored as
-- text: one column serves all targets.
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
-- Newest first by primary key, or through the index on target or subject if one is given.
SELECT a.id, a.at, a.subject, a.kind, a.acting_for, a.tenant, a.action, a.target, a.before, a.after, a.note, a.request_id, a.address
FROM {schema}.audit a
WHERE a.id < :before_id::bigint
  AND (:target::text IS NULL OR a.target = :target::text)
  AND (:by_subject::text IS NULL OR a.subject = :by_subject::text)
  AND (:action::text IS NULL OR a.action = :action::text)
  AND (:since::timestamptz IS NULL OR a.at >= :since::timestamptz)
  AND (:sees_all::boolean OR a.tenant = :tenant::text OR (:tenant::text IS NULL AND a.tenant IS NULL AND a.subject = :subject::text))
ORDER BY a.id DESC LIMIT :n::integer

-- name: audit_limited
-- For refusals and readings, which strangers and polling clients can repeat without end: a line while every key has been
-- counted at most as often as its limit within the window, and the count alone afterwards. `unlisted` of a line is what
-- was counted without a line in the window before. In key order, since two processes may count the same keys at once.
WITH asked AS (SELECT k.key, k.most FROM unnest(:keys::text[], :limits::integer[]) AS k(key, most) ORDER BY k.key),
before AS MATERIALIZED (
  SELECT coalesce(max(f.failures - k.most) FILTER (WHERE f.since <= now() - :within::interval AND f.failures > k.most), 0) AS unlisted
  FROM asked k JOIN {schema}.login_failures f ON f.key = k.key),
counted AS (
  INSERT INTO {schema}.login_failures AS f (key, failures, since) SELECT k.key, 1, now() FROM asked k ORDER BY k.key
  ON CONFLICT (key) DO UPDATE
  SET failures = CASE WHEN f.since > now() - :within::interval THEN f.failures + 1 ELSE 1 END,
      since = CASE WHEN f.since > now() - :within::interval THEN f.since ELSE now() END
  RETURNING f.key, f.failures)
INSERT INTO {schema}.audit (subject, kind, acting_for, tenant, action, target, after, request_id, address)
SELECT who.subject, who.kind, who.acting_for, who.tenant, :action::text, :target::text,
       nullif(coalesce(:after::jsonb, '{}') || CASE WHEN b.unlisted > 0 THEN jsonb_build_object('unlisted', b.unlisted) ELSE '{}' END, '{}'),
       who.request_id, who.address
FROM {asked_by} CROSS JOIN before b
WHERE NOT EXISTS (SELECT 1 FROM counted c JOIN asked k ON k.key = c.key WHERE c.failures > k.most)

-- name: audit_seal
-- Lines that wait for their seal, a batch at a time: the function holds the chain's lock until the end of the statement.
SELECT {schema}.audit_seal(:most::integer) AS sealed

-- name: audit_checked
-- A page of the chain with, of each seal, whether its line is there and fits. previous: the hash before the page.
SELECT s.n, s.audit_id, s.hash, s.sealed_at, a.id IS NULL AS missing,
       coalesce({schema}.audit_hash(s.n, coalesce(lag(s.hash) OVER (ORDER BY s.n), :previous::bytea), a) = s.hash, false) AS intact
FROM {schema}.audit_seals s LEFT JOIN {schema}.audit a ON a.id = s.audit_id
WHERE s.n > :after_n::bigint ORDER BY s.n LIMIT :n::integer

-- name: audit_never_sealed
-- The first line since the chain began that neither has a seal nor waits for one. Reads the whole audit, on a person's
-- order.
SELECT min(a.id) AS id FROM {schema}.audit a
WHERE a.id > (SELECT min(s.audit_id) FROM {schema}.audit_seals s)
  AND NOT EXISTS (SELECT 1 FROM {schema}.audit_seals s WHERE s.audit_id = a.id)
  AND NOT EXISTS (SELECT 1 FROM {schema}.audit_unsealed u WHERE u.audit_id = a.id)

-- name: audit_export
-- Sealed lines in the order of the chain, with the text that was hashed.
SELECT s.n, s.hash, {schema}.audit_text(s.n, a) AS sealed_text, p.hash AS previous,
       a.id, a.at, a.subject, a.kind, a.acting_for, a.tenant, a.action, a.target, a.before, a.after, a.note, a.request_id, a.address
FROM {schema}.audit_seals s JOIN {schema}.audit a ON a.id = s.audit_id
LEFT JOIN {schema}.audit_seals p ON p.n = s.n - 1
WHERE s.n > :after_n::bigint ORDER BY s.n LIMIT :n::integer

-- name: prune_audit
-- From the beginning of the chain up to the first line young enough to stay. The last seal stays as the anchor of those
-- after it. Lines of before the chain go by id, which grows with time.
WITH first AS MATERIALIZED (
  SELECT s.n, s.audit_id, a.at FROM {schema}.audit_seals s LEFT JOIN {schema}.audit a ON a.id = s.audit_id
  ORDER BY s.n LIMIT :batch::integer),
old AS (
  SELECT f.n, f.audit_id FROM first f
  WHERE f.n < coalesce((SELECT min(y.n) FROM first y WHERE y.at >= clock_timestamp() - :keep::interval), 9223372036854775807)),
unchained AS (DELETE FROM {schema}.audit_seals s USING old WHERE s.n = old.n AND old.n < (SELECT max(o.n) FROM old o))
DELETE FROM {schema}.audit a
WHERE a.id IN (SELECT old.audit_id FROM old)
   OR a.id IN (SELECT x.id FROM (SELECT o.id, o.at FROM {schema}.audit o ORDER BY o.id LIMIT :batch::integer) AS x
               WHERE x.at < clock_timestamp() - :keep::interval
                 AND NOT EXISTS (SELECT 1 FROM {schema}.audit_seals s WHERE s.audit_id = x.id))
RETURNING 1

-- name: roles
-- Every role; there are few.
SELECT r.name, r.permissions, r.updated_at FROM {schema}.roles r ORDER BY r.name

-- name: role_set
-- Created or replaced as a whole: permissions are never merged.
INSERT INTO {schema}.roles AS r (name, permissions) VALUES (:name::text, :permissions::text[])
ON CONFLICT (name) DO UPDATE SET permissions = excluded.permissions, updated_at = now()
RETURNING r.name, r.permissions, r.updated_at

-- name: role_delete
-- With its grants, and out of the tokens that name it: a later role of the same name is another role.
WITH ungranted AS (DELETE FROM {schema}.role_grants g WHERE g.role = :name::text),
unnamed AS (UPDATE {schema}.tokens t SET roles = array_remove(t.roles, :name::text) WHERE :name::text = ANY (t.roles))
DELETE FROM {schema}.roles r WHERE r.name = :name::text RETURNING r.name, r.permissions, r.updated_at

-- name: role_grant
-- FOR SHARE holds the role, so that a concurrent delete either comes first or deletes this grant, too. No row: no such
-- role, or it was granted already.
WITH held AS (SELECT r.name FROM {schema}.roles r WHERE r.name = :role::text FOR SHARE)
INSERT INTO {schema}.role_grants AS g (subject, role, granted_by) SELECT :subject::text, held.name, :by_whom::text FROM held
ON CONFLICT (subject, role) DO NOTHING RETURNING g.role

-- name: role_revoke
-- No row: it was not granted.
DELETE FROM {schema}.role_grants g WHERE g.subject = :subject::text AND g.role = :role::text RETURNING g.role

-- name: role_grants
-- The grants of one subject, or of all; served by the primary key (subject, role).
SELECT g.subject, g.role, g.granted_at, g.granted_by FROM {schema}.role_grants g
WHERE (:subject::text IS NULL OR g.subject = :subject::text) ORDER BY g.subject, g.role LIMIT :n::integer

-- name: permissions_for
-- The roles of a subject: those that its authenticator named, and those granted here.
SELECT r.name, r.permissions, g.role IS NOT NULL AS granted
FROM {schema}.roles r LEFT JOIN {schema}.role_grants g ON g.role = r.name AND g.subject = :subject::text
WHERE r.name = ANY (:roles::text[]) OR g.role IS NOT NULL
ORDER BY r.name

-- fragment: token_columns
t.id, t.name, t.subject, t.tenant, t.permissions, t.roles, t.created_at, t.created_by, t.expires_at, t.last_used_at, t.revoked_at

-- fragment: token_rights
-- A token's own permissions, and those of its roles as they are today.
t.subject, t.tenant, t.name, t.roles,
t.permissions || ARRAY(SELECT p FROM {schema}.roles r CROSS JOIN unnest(r.permissions) AS p WHERE r.name = ANY (t.roles)) AS permissions

-- fragment: token_rights_only
t.permissions || ARRAY(SELECT p FROM {schema}.roles r CROSS JOIN unnest(r.permissions) AS p WHERE r.name = ANY (t.roles)) AS effective

-- fragment: token_lives
t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())

-- name: token_add
-- The hash alone is stored: nobody can read the token out of the database.
INSERT INTO {schema}.tokens AS t (id, hash, name, subject, tenant, permissions, roles, created_by, expires_at)
VALUES (:id::text, :hash::bytea, :name::text, :subject::text, :tenant::text, :permissions::text[], :roles::text[], :by_whom::text,
        now() + :expires_in::interval)
RETURNING {token_columns}

-- name: tokens
-- A principal without jobs:read_all sees the tokens of its own tenant.
SELECT {token_columns} FROM {schema}.tokens t
WHERE (:sees_all::boolean OR t.tenant = :tenant::text OR (:tenant::text IS NULL AND t.tenant IS NULL))
ORDER BY t.created_at DESC, t.id LIMIT :n::integer

-- name: token_for_change
-- Locked, so that nobody changes what the caller's permissions were compared with.
SELECT {token_columns}, {token_rights_only}
FROM {schema}.tokens t
WHERE (t.id = :id::text OR t.name = :id::text)
  AND (:sees_all::boolean OR t.tenant = :tenant::text OR (:tenant::text IS NULL AND t.tenant IS NULL))
ORDER BY t.id = :id::text DESC, t.revoked_at IS NULL DESC, t.created_at DESC LIMIT 1 FOR UPDATE OF t

-- name: token_rotate
-- The secret of before stays valid for the overlap. The id stays, so that sessions and grants do. expires_in NULL: never.
UPDATE {schema}.tokens t
SET previous_hash = t.hash, previous_until = now() + :overlap::interval, hash = :hash::bytea,
    expires_at = now() + :expires_in::interval
WHERE t.id = :id::text
RETURNING {token_columns}

-- name: token_revoke
-- Idempotent: the first moment of revocation stays. Both secrets end.
UPDATE {schema}.tokens t SET revoked_at = coalesce(t.revoked_at, now()), previous_hash = NULL
WHERE t.id = :id::text
RETURNING {token_columns}

-- name: token_find
-- One read by primary keys for each request: the token, and what its roles allow today. The caller compares the hash in
-- constant time.
SELECT t.id, t.hash, CASE WHEN t.previous_until > now() THEN t.previous_hash END AS previous_hash, {token_lives} AS lives, coalesce(t.last_used_at < now() - interval '1 min', true) AS unused, {token_rights}
FROM {schema}.tokens t WHERE t.id = :id::text

-- name: token_used
-- At most one write a minute per token: of two concurrent calls, the second finds it written.
UPDATE {schema}.tokens t SET last_used_at = now()
WHERE t.id = :id::text AND (t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 min')

-- name: login_blocked
-- Seconds until the next try is accepted, for keys that failed too often within the window. No row: go on.
SELECT ceil(extract(epoch FROM max(f.since + :within::interval - now())))::integer AS seconds
FROM unnest(:keys::text[], :limits::integer[]) AS k(key, most) JOIN {schema}.login_failures f ON f.key = k.key
WHERE f.failures >= k.most AND f.since > now() - :within::interval
HAVING count(*) > 0

-- name: login_failed
-- Counts failures per window. In key order, since two processes may count the same keys at once.
INSERT INTO {schema}.login_failures AS f (key, failures, since)
SELECT k, 1, now() FROM unnest(:keys::text[]) AS k ORDER BY k
ON CONFLICT (key) DO UPDATE
SET failures = CASE WHEN f.since > now() - :within::interval THEN f.failures + 1 ELSE 1 END,
    since = CASE WHEN f.since > now() - :within::interval THEN f.since ELSE now() END

-- name: session_open
-- The hash of the cookie alone is stored, as for tokens.
INSERT INTO {schema}.sessions (hash, token_id) VALUES (:hash::bytea, :token::text)

-- name: session_open_person
-- A person whom the identity provider vouched for. Its access tokens are not stored: nothing asks the provider again.
INSERT INTO {schema}.sessions (hash, subject, tenant, display, roles)
VALUES (:hash::bytea, :subject::text, :tenant::text, :display::text, :roles::text[])

-- fragment: session_lives
s.seen_at > now() - :idle::interval AND s.created_at > now() - :longest::interval

-- fragment: person_roles
(SELECT r.name, r.permissions FROM {schema}.roles r
  WHERE r.name = ANY (s.roles)
     OR EXISTS (SELECT 1 FROM {schema}.role_grants g WHERE g.subject = s.subject AND g.role = r.name) ORDER BY r.name) AS r

-- name: session_find
-- A session ends with its token, so both are checked.
SELECT s.token_id AS id, s.seen_at < now() - interval '1 min' AS unused, {token_rights}
FROM {schema}.sessions s JOIN {schema}.tokens t ON t.id = s.token_id
WHERE s.hash = :hash::bytea AND {session_lives} AND {token_lives}

-- name: session_find_person
-- What the roles of its claims allow today, and those granted to the person here: a grant that was taken back ends at once.
SELECT s.subject, s.tenant, s.display AS name, NULL::text AS id, s.seen_at < now() - interval '1 min' AS unused,
       ARRAY(SELECT r.name FROM {person_roles}) AS roles,
       ARRAY(SELECT p FROM {person_roles} CROSS JOIN unnest(r.permissions) AS p) AS permissions
FROM {schema}.sessions s WHERE s.hash = :hash::bytea AND s.token_id IS NULL AND {session_lives}

-- name: session_seen
-- At most one write a minute per session.
UPDATE {schema}.sessions s SET seen_at = now() WHERE s.hash = :hash::bytea AND s.seen_at < now() - interval '1 min'

-- name: session_close
-- No row: it had ended already.
DELETE FROM {schema}.sessions s WHERE s.hash = :hash::bytea
RETURNING s.token_id, coalesce(s.subject, (SELECT t.subject FROM {schema}.tokens t WHERE t.id = s.token_id)) AS subject,
          coalesce(s.tenant, (SELECT t.tenant FROM {schema}.tokens t WHERE t.id = s.token_id)) AS tenant

-- name: prune_access
-- Ended sessions and old login failures. Both tables are small: rows exist only for people who use the dashboard. What
-- was counted for the audit stays for a day, so that the next line can say it. Keys and revocations of embed tokens go when
-- no token that they concern can be valid any more.
WITH gone AS (DELETE FROM {schema}.sessions s WHERE NOT ({session_lives}) AND (:only::text[] IS NULL OR 'session of ' || coalesce('token ' || s.token_id, s.subject) = ANY (:only::text[]))),
unused AS (DELETE FROM {schema}.embed_keys k WHERE k.expires_at < now() AND (:only::text[] IS NULL OR 'embed key ' || k.id = ANY (:only::text[]))),
outlived AS (DELETE FROM {schema}.embed_revocations r WHERE r.revoked_at < now() - :longest_embed::interval
              AND (:only::text[] IS NULL OR 'revocation of ' || r.target = ANY (:only::text[])))
DELETE FROM {schema}.login_failures f
WHERE f.since < now() - CASE WHEN f.key LIKE 'refused %' THEN interval '1 day' ELSE :within::interval END
  AND (:only::text[] IS NULL OR 'login failures of ' || f.key = ANY (:only::text[]))

-- name: old_access
-- For prune_access when it is run in parts.
SELECT DISTINCT 'session of ' || coalesce('token ' || s.token_id, s.subject) AS id FROM {schema}.sessions s
UNION ALL
SELECT 'login failures of ' || f.key FROM {schema}.login_failures f
UNION ALL
SELECT 'embed key ' || k.id FROM {schema}.embed_keys k
UNION ALL
SELECT 'revocation of ' || r.target FROM {schema}.embed_revocations r

-- name: kind_defaults
-- What a process without the code needs to submit jobs of the kind. No row: no worker has registered it.
SELECT k.defaults FROM {schema}.kinds k WHERE k.name = :name::text

-- name: kinds_registered
-- Names for an error message, so their number is bounded.
SELECT k.name FROM {schema}.kinds k ORDER BY k.name LIMIT 50

-- name: embed_key
-- The key that signs, and the database's clock, which alone says when a token was made and expires. No row: there is none
-- yet, or it is too old to go on signing.
SELECT k.id, k.secret, clock_timestamp() AS now FROM {schema}.embed_keys k
WHERE k.expires_at IS NULL AND k.created_at > now() - :longest::interval

-- name: embed_key_retire
-- The key that signs stays valid for what it has signed. Before the new key, in the same transaction: at most one signs. Of
-- two processes that renew it at once, the second waits here; the row that it then finds is young, and stays.
UPDATE {schema}.embed_keys k SET expires_at = clock_timestamp() + :overlap::interval
WHERE k.expires_at IS NULL AND k.created_at <= now() - :older_than::interval

-- name: embed_key_end
-- Keys of before end with the overlap too, or at once.
UPDATE {schema}.embed_keys k SET expires_at = clock_timestamp() + :overlap::interval
WHERE k.expires_at > clock_timestamp() + :overlap::interval

-- name: embed_key_add
-- No row is added where another process was faster: its key signs.
INSERT INTO {schema}.embed_keys (id, secret) VALUES (:id::text, :secret::bytea) ON CONFLICT DO NOTHING

-- name: embed_check
-- One read by primary keys for each request: the key, and whether the token is expired or revoked by the database's clock.
-- seconds: left until it expires. The caller compares the signature in constant time.
SELECT k.secret,
       extract(epoch FROM least(:expires_at::timestamptz, k.expires_at) - clock_timestamp())::float8 AS seconds,
       EXISTS (SELECT 1 FROM {schema}.embed_revocations r
               WHERE r.target = ANY (:targets::text[]) AND r.revoked_at >= :issued_at::timestamptz) AS revoked
FROM {schema}.embed_keys k WHERE k.id = :key::text

-- name: embed_revoke
-- Everything made for the target until now; a later revocation moves the instant on. The clock, and not now(), which is that
-- of the transaction's beginning: a token made meanwhile is included.
INSERT INTO {schema}.embed_revocations AS r (target) VALUES (:target::text)
ON CONFLICT (target) DO UPDATE SET revoked_at = greatest(r.revoked_at, excluded.revoked_at)
