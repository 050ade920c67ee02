DROP TABLE {schema}.schema_steps;
DROP INDEX {schema}.job_attempts_ended;
DELETE FROM {schema}.duties WHERE name = 'stalled';
ALTER TABLE {schema}.lanes DROP COLUMN stall_after;
DROP TABLE {schema}.job_checkpoints, {schema}.job_logs, {schema}.job_items;
ALTER TABLE {schema}.job_progress
  DROP COLUMN log_bytes, DROP COLUMN log_lines, DROP COLUMN saved_at, DROP COLUMN cursors, DROP COLUMN keep_items,
  DROP COLUMN items_failed, DROP COLUMN items_skipped, DROP COLUMN items_completed, DROP COLUMN items_in_progress,
  DROP COLUMN phases;
