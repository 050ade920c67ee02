DROP INDEX {schema}.jobs_failure_group;
