-- Schedules: rules that say when a job of a kind is due, by cron or by interval.
-- For code made for version 2 or later.

CREATE TABLE {schema}.schedules (
  name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
  kind text NOT NULL, args jsonb NOT NULL DEFAULT '{}', options jsonb NOT NULL DEFAULT '{}',
  cron text, every interval CHECK (every >= '1 s'), tz text NOT NULL DEFAULT 'UTC',
  missed text NOT NULL DEFAULT 'latest' CHECK (missed IN ('none', 'latest', 'all')),
  most_missed integer NOT NULL DEFAULT 100 CHECK (most_missed > 0),
  overlap text NOT NULL DEFAULT 'queue' CHECK (overlap IN ('queue', 'skip', 'cancel')),
  windows jsonb NOT NULL DEFAULT '[]',
  enabled boolean NOT NULL DEFAULT true, declared boolean NOT NULL DEFAULT false,
  next_at timestamptz, last_at timestamptz, last_job bigint,
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(), updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((cron IS NULL) <> (every IS NULL))) WITH (fillfactor = 70);
CREATE INDEX schedules_due ON {schema}.schedules (next_at) WHERE enabled;
INSERT INTO {schema}.duties (name, every) VALUES ('schedules', '1 s');
