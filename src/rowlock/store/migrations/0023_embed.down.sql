DELETE FROM {schema}.sessions WHERE token_id IS NULL;
ALTER TABLE {schema}.sessions DROP COLUMN subject, DROP COLUMN tenant, DROP COLUMN display, DROP COLUMN roles,
  ALTER COLUMN token_id SET NOT NULL;
DROP TABLE {schema}.embed_revocations;
DROP TABLE {schema}.embed_keys;
