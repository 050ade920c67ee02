-- Steps stay as jobs; what they waited for is forgotten with the tables, so those that wait are cancelled rather than stuck.
UPDATE {schema}.jobs j SET state = 'cancelled', finished_at = now(), errors = '{"reason": "workflows were removed"}', fence = j.fence + 1, seq = j.seq + 1
 WHERE j.state = 'blocked' AND j.gate_place = 0;
DELETE FROM {schema}.duties WHERE name IN ('workflows', 'signals');
DROP FUNCTION {schema}.workflow_repair(integer, integer, text);
DROP FUNCTION {schema}.signals_overdue(integer);
DROP FUNCTION {schema}.signal_await(bigint[], bigint[], text[], float8[]);
DROP FUNCTION {schema}.signal_send(bigint, text, jsonb, text);
DROP FUNCTION {schema}.workflow_retry(bigint, text, text, text);
DROP FUNCTION {schema}.workflow_behind(bigint);
DROP FUNCTION {schema}.workflow_add(bigint, integer, bigint, jsonb, text);
DROP FUNCTION {schema}.workflow_adopt(bigint);
DROP FUNCTION {schema}.workflow_start(text, text, text, text, jsonb, jsonb);
DROP FUNCTION {schema}.workflow_write(bigint, jsonb);
DROP FUNCTION {schema}.workflow_follow(bigint[], text);
DROP FUNCTION {schema}.workflow_verdict(bigint);
DROP FUNCTION {schema}.workflow_undo(bigint);
DROP FUNCTION {schema}.workflow_undo_of(jsonb);
DROP FUNCTION {schema}.workflow_release(bigint[]);
DROP FUNCTION {schema}.approve_by_rule(bigint[]);
CREATE OR REPLACE VIEW {schema}.stats_blocked AS SELECT p.n, p.more FROM {schema}.stats_parked p;
DROP TABLE {schema}.signals;
DROP TABLE {schema}.waits;
DROP TABLE {schema}.edges;
DROP TABLE {schema}.workflow_steps;
DROP TABLE {schema}.workflows;
ALTER TABLE {schema}.jobs DROP COLUMN workflow_id;
