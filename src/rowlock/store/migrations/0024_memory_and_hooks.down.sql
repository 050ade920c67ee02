DROP INDEX {schema}.jobs_hook_of;
ALTER TABLE {schema}.workers DROP COLUMN memory;
