DROP VIEW {schema}.stats_throughput, {schema}.stats_tenants, {schema}.stats_failures, {schema}.stats_ended, {schema}.stats_ends,
  {schema}.stats_states, {schema}.stats_blocked, {schema}.stats_parked, {schema}.stats_lanes, {schema}.stats_backlog, {schema}.stats_references, {schema}.stats_slow,
  {schema}.stats_running;
DROP INDEX {schema}.jobs_answer_by;
