-- The failed jobs of a failure group, newest first, for searches and bulk orders. Its own step, since it uses a function of an earlier one.
-- Online: built concurrently; only failed jobs are in it.
-- For code made for version 2 or later.
CREATE INDEX CONCURRENTLY jobs_failure_group ON {schema}.jobs ({schema}.failure_fingerprint(kind, errors), id) WHERE state = 'failed';
