-- Removes everything the first migration made; the schema itself stays if anything else lives in it.
DROP FUNCTION {schema}.gates_repair(interval);
DROP FUNCTION {schema}.gate_leave(text[]);
DROP FUNCTION {schema}.gate_enter(bigint[], integer[], integer);
DROP FUNCTION {schema}.gate_promote(text, integer);
DROP TABLE {schema}.duties, {schema}.retention, {schema}.gates, {schema}.job_waiters, {schema}.job_acts, {schema}.job_keys,
  {schema}.job_refs, {schema}.job_progress, {schema}.job_attempts, {schema}.workers, {schema}.lanes, {schema}.kinds,
  {schema}.pairs, {schema}.jobs;
