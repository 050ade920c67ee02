-- schedules: when jobs are due. Instants are read and written in calendar time: the database's clock plus the time that
-- a test has travelled. Lock order: a schedule's row, then job rows; no transaction that holds a job row waits for a
-- schedule.

-- fragment: travelled
-- In seconds: an interval of days would be added in the session's time zone, whose days may have 23 or 25 hours.
(SELECT make_interval(secs => extract(epoch FROM timestamptz '2000-01-01 00:00:00+00' - c.origin)::double precision)
 FROM {schema}.calendar c LIMIT 1)

-- fragment: schedule_columns
s.name, s.kind, s.args, s.options, s.cron, s.every, s.tz, s.missed, s.most_missed, s.overlap, s.windows, s.tenant, s.submitted_by,
s.enabled, s.declared, s.last_job, s.skipped_why, s.version, s.created_at, s.updated_at,
s.next_at + {travelled} AS next_at, s.last_at + {travelled} AS last_at, s.skipped_at + {travelled} AS skipped_at

-- fragment: schedule_seen
-- As for jobs: a caller with jobs:read_all sees every schedule, others those of their tenant, or their own. A schedule
-- has a kind and no lane: a scope by lane reaches none.
(CASE WHEN :granted::jsonb IS NULL THEN :sees_all::boolean OR {own_schedule}
      ELSE EXISTS (SELECT 1 FROM {granted_scopes}
                   WHERE s.kind LIKE g.kind AND g.lane = '%' AND (g.everyone OR {own_schedule})) END)

-- fragment: own_schedule
(s.tenant = :tenant::text OR (:tenant::text IS NULL AND s.tenant IS NULL AND s.submitted_by = :subject::text))

-- name: calendar
-- The clock that schedules go by.
SELECT clock_timestamp() + {travelled} AS now

-- name: schedules
-- One schedule by name, or all of them.
SELECT {schedule_columns} FROM {schema}.schedules s
WHERE {schedule_seen} AND (:only::text IS NULL OR s.name = :only::text) ORDER BY s.name

-- name: schedules_due
-- Only kinds whose code is in this process, or that need none: a process that cannot make the job must not take the
-- turn of one that can.
SELECT {schedule_columns}, clock_timestamp() + {travelled} AS now FROM {schema}.schedules s
WHERE s.enabled AND s.next_at <= clock_timestamp()
  AND (s.kind = ANY (:kinds::text[])
       OR EXISTS (SELECT 1 FROM {schema}.kinds k WHERE k.name = s.kind AND k.defaults IS NOT NULL))
ORDER BY s.next_at LIMIT 500

-- name: schedule_take
-- Compare-and-set: of any number of schedulers one gets the slots, in the transaction that inserts their jobs. If it is
-- killed before its commit, everything stays as it was, and the next one finds the same slots due. busy: the run before
-- has not ended.
UPDATE {schema}.schedules s
SET next_at = :next_at::timestamptz - {travelled},
    last_at = coalesce(:last_at::timestamptz - {travelled}, s.last_at),
    skipped_at = coalesce(:skipped_at::timestamptz - {travelled}, s.skipped_at),
    skipped_why = CASE WHEN :skipped_at::timestamptz IS NULL THEN s.skipped_why ELSE :skipped_why::text END
WHERE s.name = :name::text AND s.version = :version::integer AND s.enabled
  AND s.next_at = :expected::timestamptz - {travelled} AND s.next_at <= clock_timestamp()
RETURNING s.last_job, EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.id = s.last_job AND j.finished_at IS NULL) AS busy

-- name: schedule_fired
-- In the transaction of schedule_take. A slot that overlaps is recorded like one that was missed.
UPDATE {schema}.schedules s
SET last_job = coalesce(:job::bigint, s.last_job),
    skipped_at = coalesce(:skipped_at::timestamptz - {travelled}, s.skipped_at),
    skipped_why = CASE WHEN :skipped_at::timestamptz IS NULL THEN s.skipped_why ELSE :skipped_why::text END
WHERE s.name = :name::text

-- name: schedule_ran
-- A run that a person asked for counts as the previous run when the next slot is checked for overlap; next_at does not
-- move.
UPDATE {schema}.schedules s SET last_job = :job::bigint WHERE s.name = :name::text

-- name: schedule_add
-- No row: there is a schedule of that name.
INSERT INTO {schema}.schedules AS s (name, kind, args, options, cron, every, tz, missed, most_missed, overlap, windows, tenant,
  submitted_by, enabled, declared, declared_at, next_at)
VALUES (:name::text, :kind::text, :args::jsonb, :options::jsonb, :cron::text, :every::interval, :tz::text, :missed::text,
  :most_missed::integer, :overlap::text, :windows::jsonb, :tenant::text, :submitted_by::text, :enabled::boolean, :declared::jsonb,
  CASE WHEN :declared::jsonb IS NOT NULL THEN now() END, :next_at::timestamptz - {travelled})
ON CONFLICT (name) DO NOTHING
RETURNING {schedule_columns}

-- name: schedule_set
-- The whole schedule as it is to be, if it still has the version that was read: no concurrent change is lost, and no
-- firing either.
UPDATE {schema}.schedules s
SET kind = :kind::text, args = :args::jsonb, options = :options::jsonb, cron = :cron::text, every = :every::interval, tz = :tz::text,
    missed = :missed::text, most_missed = :most_missed::integer, overlap = :overlap::text, windows = :windows::jsonb,
    tenant = :tenant::text, enabled = :enabled::boolean, declared = :declared::jsonb,
    next_at = CASE WHEN :moves::boolean THEN :next_at::timestamptz - {travelled} ELSE s.next_at END,
    version = s.version + 1, updated_at = clock_timestamp()
WHERE s.name = :name::text AND s.version = :version::integer
RETURNING {schedule_columns}

-- name: schedule_declared
-- The code of a starting worker still declares these; written at most once a minute. The doctor reports schedules that
-- no live worker declares. Locked by name: several workers start at once, each with its own order of schedules.
UPDATE {schema}.schedules s SET declared_at = clock_timestamp()
FROM (SELECT x.name FROM {schema}.schedules x
      WHERE x.name = ANY (:names::text[]) AND (x.declared_at IS NULL OR x.declared_at < clock_timestamp() - interval '1 minute')
      ORDER BY x.name FOR NO KEY UPDATE) AS declared
WHERE s.name = declared.name

-- name: schedule_delete
-- Its jobs stay.
DELETE FROM {schema}.schedules s WHERE s.name = :name::text AND {schedule_seen} RETURNING {schedule_columns}

-- name: slots_fired
-- Which of these keys have had their job; by the primary key of job_keys.
SELECT k.key FROM {schema}.job_keys k WHERE k.kind = :scope::text AND k.key = ANY (:keys::text[]) AND k.expires_at > now()

-- name: doctor_schedules
-- Overdue: no live worker can make its jobs. Undeclared: code declared it once, and no worker that started since did.
SELECT s.name, s.kind, clock_timestamp() - s.next_at AS late, s.enabled,
       EXISTS (SELECT 1 FROM {schema}.workers w WHERE w.state = 'up' AND w.seen_at > now() - interval '15 s'
                 AND s.kind = ANY (w.kinds)) AS known,
       s.declared IS NOT NULL AND s.declared_at < (
         SELECT min(w.started_at) - interval '2 minutes' FROM {schema}.workers w
          WHERE w.state = 'up' AND w.seen_at > now() - interval '15 s') AS undeclared
FROM {schema}.schedules s ORDER BY s.name LIMIT 1000
