-- What searching, bulk orders and approval need. Columns without a default: no rewrite, a lock of a moment.
-- For code made for version 2 or later.

-- Searches for what went wrong, in id order. A job that completes never enters it. The dead letters are found here, too.
CREATE INDEX CONCURRENTLY jobs_ended_badly ON {schema}.jobs (state, id)
  WHERE state IN ('completed_with_errors', 'failed', 'cancelled', 'expired');

DROP INDEX {schema}.jobs_failed;

-- Who approved so far, of a job that needs several; and until when somebody has to answer.
ALTER TABLE {schema}.jobs ADD COLUMN approvers text[];
ALTER TABLE {schema}.jobs ADD COLUMN answer_by timestamptz;

-- Every job of the lane's kinds needs approval.
ALTER TABLE {schema}.lanes ADD COLUMN requires_approval boolean NOT NULL DEFAULT false;

-- An approval given in advance: what it names must fit, what is NULL fits everything. It counts as its author's.
CREATE TABLE {schema}.approval_rules (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text, submitted_by text, tenant text, args jsonb, note text,
  created_by text, created_at timestamptz NOT NULL DEFAULT clock_timestamp());

-- Orders for many jobs. Whoever drives one holds it until driven_until and moves the cursor with every batch; afterwards any
-- worker takes over. ceiling: jobs that came later are not meant.
CREATE TABLE {schema}.operations (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  action text NOT NULL, search text, ids bigint[], priority smallint,
  filter_hash text NOT NULL, expected_max bigint NOT NULL,
  as_of timestamptz NOT NULL, ceiling bigint NOT NULL, cursor bigint NOT NULL DEFAULT -1,
  done bigint NOT NULL DEFAULT 0, skipped bigint NOT NULL DEFAULT 0, failed bigint NOT NULL DEFAULT 0,
  state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'completed', 'failed', 'cancelled')),
  error text, by_whom text, note text, principal jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(), finished_at timestamptz,
  driven_until timestamptz NOT NULL DEFAULT clock_timestamp() + interval '30 s') WITH (fillfactor = 50);
CREATE INDEX operations_running ON {schema}.operations (driven_until) WHERE state = 'running';
INSERT INTO {schema}.duties (name, every) VALUES ('operations', '2 s');
