DELETE FROM {schema}.duties WHERE name = 'operations';
DROP TABLE {schema}.operations;
DROP TABLE {schema}.approval_rules;
ALTER TABLE {schema}.lanes DROP COLUMN requires_approval;
ALTER TABLE {schema}.jobs DROP COLUMN answer_by;
ALTER TABLE {schema}.jobs DROP COLUMN approvers;
CREATE INDEX CONCURRENTLY jobs_failed ON {schema}.jobs (finished_at) WHERE state = 'failed';
DROP INDEX {schema}.jobs_ended_badly;
