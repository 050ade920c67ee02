DROP INDEX {schema}.jobs_submitted;
DROP INDEX {schema}.jobs_tenant;
ALTER TABLE {schema}.kinds DROP COLUMN defaults;
DROP TABLE {schema}.audit;
DROP TABLE {schema}.login_failures;
DROP TABLE {schema}.sessions;
DROP TABLE {schema}.tokens;
DROP TABLE {schema}.role_grants;
DROP TABLE {schema}.roles;
