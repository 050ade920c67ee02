-- Who may do what, who did what, and how they prove who they are. New tables, and one column without a default: no rewrite.
-- For code made for version 2 or later.

-- Roles are data: a role is a name for permissions, and a grant gives it to a subject, whoever vouches for that one.
CREATE TABLE {schema}.roles (
  name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 100),
  permissions text[] NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO {schema}.roles (name, permissions) VALUES
  ('user', '{jobs:read,jobs:submit}'),
  ('operator', '{jobs:read,jobs:read_all,jobs:submit,jobs:approve,jobs:cancel,jobs:retry,jobs:edit,jobs:delete,'
               'workers:view,workers:manage,schedules:view,schedules:manage}'),
  ('platform_admin', '{jobs:read,jobs:read_all,jobs:read_args,jobs:submit,jobs:submit_as,jobs:approve,jobs:cancel,jobs:retry,'
                     'jobs:edit,jobs:delete,workers:view,workers:manage,schedules:view,schedules:manage,audit:read,tokens:manage}');

CREATE TABLE {schema}.role_grants (
  subject text NOT NULL, role text NOT NULL,
  granted_at timestamptz NOT NULL DEFAULT now(), granted_by text,
  PRIMARY KEY (subject, role));

-- Only a hash is kept. A secret of 256 random bits needs no slow one.
CREATE TABLE {schema}.tokens (
  id text PRIMARY KEY, hash bytea NOT NULL CHECK (length(hash) = 32), name text NOT NULL,
  subject text NOT NULL, tenant text,
  permissions text[] NOT NULL DEFAULT '{}', roles text[] NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now(), created_by text,
  expires_at timestamptz, last_used_at timestamptz, revoked_at timestamptz) WITH (fillfactor = 80);

-- A browser that logged in with a token. It is worth what its token is worth: revoking the token ends it too.
CREATE TABLE {schema}.sessions (
  hash bytea PRIMARY KEY CHECK (length(hash) = 32),
  token_id text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(), seen_at timestamptz NOT NULL DEFAULT now()) WITH (fillfactor = 80);

-- Failed logins by address and token, for every process that serves. key: '<address> <token id>', or the address alone.
CREATE TABLE {schema}.login_failures (
  key text PRIMARY KEY, failures integer NOT NULL, since timestamptz NOT NULL) WITH (fillfactor = 50);

-- One row per change somebody ordered. No foreign keys: it outlives what it tells of.
CREATE TABLE {schema}.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  subject text NOT NULL, kind text NOT NULL, acting_for text, tenant text,
  action text NOT NULL, target text NOT NULL, before jsonb, after jsonb, note text,
  request_id text, address text);
CREATE INDEX audit_target ON {schema}.audit (target, id);
CREATE INDEX audit_subject ON {schema}.audit (subject, id);

-- What a job of the kind gets when a process without its code submits it. NULL: that takes the code, because something is
-- worked out from the arguments or they hold secrets.
ALTER TABLE {schema}.kinds ADD COLUMN defaults jsonb;

-- What was answered to the first request with an Idempotency-Key, and what its submission was: created, kept or replaced.
ALTER TABLE {schema}.job_keys ADD COLUMN status smallint, ADD COLUMN what text;

-- The lists of those who see their tenant's jobs, or their own, alone. Jobs of no tenant that nobody submitted do not pay. One
-- index for both: every INSERT opens and locks each index of the table, and beyond sixteen relations that is no cheap lock.
CREATE INDEX CONCURRENTLY jobs_owner ON {schema}.jobs (coalesce(tenant, submitted_by), id)
  WHERE tenant IS NOT NULL OR submitted_by IS NOT NULL;
