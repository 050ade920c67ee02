-- held rows: locks jobs before a transaction changes them, and finds those that other transactions hold.

-- name: lock_jobs
-- Before several statements of one transaction: each of them locks in id order, all of them together would not. FOR NO
-- KEY UPDATE, like every statement that changes a job without deleting it: a row of the user's that refers to the job,
-- inserted by a transaction that is still open, holds it against a deletion only.
SELECT j.id FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) ORDER BY j.id FOR NO KEY UPDATE

-- name: lock_jobs_to_delete
-- The same before a deletion, which needs the stronger lock from the start: a lock that is raised later may wait for
-- long, with the others held.
SELECT j.id FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) ORDER BY j.id FOR UPDATE

-- name: held_jobs
-- After a write for several jobs has waited too long for a lock: the jobs that other transactions hold at this moment.
-- SKIP LOCKED never waits; inside a transaction the jobs that are free stay locked until its end. A deleted job is not
-- held: its write is refused, not blocked.
WITH free AS MATERIALIZED (
  SELECT j.id FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED)
SELECT j.id FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) AND j.id NOT IN (SELECT f.id FROM free f) ORDER BY j.id

-- name: held_jobs_to_delete
-- The same for a deletion: also the jobs that a foreign key of the user's own table holds.
WITH free AS MATERIALIZED (
  SELECT j.id FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) ORDER BY j.id FOR UPDATE SKIP LOCKED)
SELECT j.id FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) AND j.id NOT IN (SELECT f.id FROM free f) ORDER BY j.id
