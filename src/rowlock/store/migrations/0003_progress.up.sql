-- Structured progress: phases, items, cursors, checkpoints in users' transactions, stored logs; lanes that notice silence.
-- New tables, and columns with a constant default: no rewrite, a lock of a moment. Nothing here is touched by a job that
-- reports nothing.
-- For code made for version 2 or later.

-- phases: those of this attempt, [{"name", "started_at", "ended_at", "done", "total"}], the present one last.
-- Counts of items are kept here, so that reading a job never counts its rows; cursors and saved_at outlive the attempt.
ALTER TABLE {schema}.job_progress
  ADD COLUMN phases jsonb,
  ADD COLUMN items_in_progress integer NOT NULL DEFAULT 0,
  ADD COLUMN items_completed integer NOT NULL DEFAULT 0,
  ADD COLUMN items_skipped integer NOT NULL DEFAULT 0,
  ADD COLUMN items_failed integer NOT NULL DEFAULT 0,
  ADD COLUMN keep_items boolean NOT NULL DEFAULT false,   -- a person asked for a retry of what is not done yet
  ADD COLUMN cursors jsonb,                               -- of ctx.resume(), name to elements done
  ADD COLUMN saved_at timestamptz,                        -- of the checkpoint here; job_checkpoints may have a newer one
  ADD COLUMN log_lines integer NOT NULL DEFAULT 0,
  ADD COLUMN log_bytes integer NOT NULL DEFAULT 0;

-- Items are rows: one moving costs one row, however many there are. `was` is the state before the last write of the same
-- attempt, so that the writing statement itself knows by how much the counts change. Rows of earlier attempts stay until
-- their item is reported again: they tell a resuming attempt what is done. COLLATE "C": pages need an order, not a language.
CREATE TABLE {schema}.job_items (
  job_id bigint, phase text COLLATE "C", name text COLLATE "C", fence integer NOT NULL,
  state text NOT NULL CHECK (state IN ('in_progress', 'completed', 'skipped', 'failed')), was text,
  started_at timestamptz, ended_at timestamptz, reason text, error jsonb,
  PRIMARY KEY (job_id, phase, name))
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);

-- What an attempt logged. n = fence * 2^32 + the line's number within the attempt: in order over all attempts, the same
-- when a write is repeated, and a gap says how many lines were dropped.
CREATE TABLE {schema}.job_logs (
  job_id bigint, n bigint, at timestamptz NOT NULL, level smallint NOT NULL, logger text NOT NULL, message text NOT NULL,
  PRIMARY KEY (job_id, n))
  WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);

-- Checkpoints saved inside users' own transactions. Rows of their own, never updated: until that transaction commits nobody
-- else may have to wait for it, least of all the worker that writes the progress of all its jobs in one statement.
CREATE TABLE {schema}.job_checkpoints (
  job_id bigint, saved_at timestamptz DEFAULT clock_timestamp(), checkpoint jsonb, PRIMARY KEY (job_id, saved_at));

-- Without a report for so long a running job counts as lost; NULL: never.
ALTER TABLE {schema}.lanes ADD COLUMN stall_after interval CHECK (stall_after >= '1 s');
INSERT INTO {schema}.duties (name, every) VALUES ('stalled', '5 s');

-- What was given back lately, for those who follow everything: the queue has no index by time. Only failed attempts pay.
CREATE INDEX CONCURRENTLY job_attempts_ended ON {schema}.job_attempts (ended_at);

-- The ledger of the steps from here on, with the oldest code that runs with each; NULL: that of the version before. Code made
-- for version 2 looks into `migrations`, and refuses to start where that is more than one version ahead: a worker that crashed
-- during an upgrade would stay away, and servers would call themselves unready. So it is not told of steps it runs with.
CREATE TABLE {schema}.schema_steps (
  version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(), compatible_since integer);
INSERT INTO {schema}.schema_steps (version, name, applied_at) SELECT m.version, m.name, m.applied_at FROM {schema}.migrations m;
