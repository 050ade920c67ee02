-- Schedules: rules that say when a job of a kind is due, by cron or by interval.
-- For code made for version 2 or later.

CREATE TABLE {schema}.schedules (
  name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
  kind text NOT NULL, args jsonb NOT NULL DEFAULT '{}', options jsonb NOT NULL DEFAULT '{}',
  cron text, every interval CHECK (every >= '1 s'), tz text NOT NULL DEFAULT 'UTC',
  missed text NOT NULL DEFAULT 'latest' CHECK (missed IN ('none', 'latest', 'all')),
  most_missed integer NOT NULL DEFAULT 100 CHECK (most_missed > 0),
  overlap text NOT NULL DEFAULT 'queue' CHECK (overlap IN ('queue', 'skip', 'cancel')),
  windows jsonb NOT NULL DEFAULT '[]', tenant text, submitted_by text,
  enabled boolean NOT NULL DEFAULT true,
  declared jsonb,                                -- what code last said of it: an operator's word stays until that field changes
  declared_at timestamptz,                       -- when a starting worker last said so
  next_at timestamptz, last_at timestamptz, last_job bigint,
  skipped_at timestamptz, skipped_why text,      -- the last slot that was not fired
  version integer NOT NULL DEFAULT 1,            -- raised by every change somebody makes, not by a firing
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(), updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((cron IS NULL) <> (every IS NULL))) WITH (fillfactor = 70);
CREATE INDEX schedules_due ON {schema}.schedules (next_at) WHERE enabled;

-- One row, and 2000-01-01 in it. Tests that let time pass move every stored moment back, this one too: what it lacks is how far
-- they have travelled, so that a rule of the calendar is due on the day the test is on.
CREATE TABLE {schema}.calendar (origin timestamptz NOT NULL DEFAULT '2000-01-01 00:00:00+00');
INSERT INTO {schema}.calendar DEFAULT VALUES;

-- The election only thins out workers that wake for the same slot: a compare-and-set on the schedule's row keeps it from firing twice.
INSERT INTO {schema}.duties (name, every) VALUES ('schedules', '50 ms');
