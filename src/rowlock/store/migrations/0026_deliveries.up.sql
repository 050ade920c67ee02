-- What carriers (a broker such as Redis or RabbitMQ) were told of jobs. A new table: nothing existing is rewritten or locked.
-- Jobs that PostgreSQL delivers have no row here. Code of before neither reads nor writes it, and claims such jobs by itself.
-- For code made for version 2 or later.

-- One row per job, about its newest message. A message stands for the job's stay in the queue under one fence: every later
-- stay, such as a retry or a released step, has a higher fence and needs a message of its own. Beside jobs, not in it: a
-- message is answered within a millisecond, and the claim that it causes must not meet a row that is locked for noting it.
CREATE TABLE {schema}.job_deliveries (
  job_id bigint PRIMARY KEY, fence integer NOT NULL, carrier text NOT NULL,
  backend_job_id text,                                 -- the carrier's own id of the message; NULL: not sent yet, or it has none
  sent smallint NOT NULL DEFAULT 1,                    -- messages for this stay in the queue
  delivered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  again_at timestamptz NOT NULL                        -- a job that still waits then gets another message
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
CREATE INDEX job_deliveries_backend ON {schema}.job_deliveries (backend_job_id) WHERE backend_job_id IS NOT NULL;
