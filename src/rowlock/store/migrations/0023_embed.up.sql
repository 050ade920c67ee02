-- Keys that sign tokens for pages of the application's own users, what was revoked of those tokens, and sessions of people
-- whom an identity provider vouches for. New tables; new columns without a default, and a constraint less on a small table:
-- nothing is rewritten or scanned. Code of before finds no token for such a session, and does not let it in.
-- For code made for version 2 or later.

-- The secret is stored as it is, since every process that serves must check signatures. It lets its reader make tokens for
-- single jobs and people, never for an operator. The newest key signs; the ones before it are accepted until expires_at.
CREATE TABLE {schema}.embed_keys (
  id text PRIMARY KEY, secret bytea NOT NULL CHECK (length(secret) = 32),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(), expires_at timestamptz);
CREATE UNIQUE INDEX embed_keys_signing ON {schema}.embed_keys ((expires_at IS NULL)) WHERE expires_at IS NULL;

-- Tokens are not stored, so what is revoked is everything made for a job or a person up to an instant. Rows go when the last
-- token made before them has expired.
CREATE TABLE {schema}.embed_revocations (
  target text PRIMARY KEY, revoked_at timestamptz NOT NULL DEFAULT clock_timestamp());

-- A session without a token belongs to a person whom the identity provider named. roles: those that its claims mapped to.
ALTER TABLE {schema}.sessions ALTER COLUMN token_id DROP NOT NULL,
  ADD COLUMN subject text, ADD COLUMN tenant text, ADD COLUMN display text, ADD COLUMN roles text[];
