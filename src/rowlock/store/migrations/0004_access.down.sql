DROP INDEX {schema}.jobs_owner;
ALTER TABLE {schema}.job_keys DROP COLUMN what, DROP COLUMN status;
ALTER TABLE {schema}.kinds DROP COLUMN defaults;
DROP TABLE {schema}.audit;
DROP TABLE {schema}.login_failures;
DROP TABLE {schema}.sessions;
DROP TABLE {schema}.tokens;
DROP TABLE {schema}.role_grants;
DROP TABLE {schema}.roles;
