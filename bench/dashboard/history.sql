-- Jobs that have ended, as a shop would have had them, written without running them. Needs the table `kinds_of_history`
-- of history.py: kind, lane, priority, pick (several rows per kind: its weight), run (mean seconds), fails (share),
-- error (type), message, frame, traceback, submitter. Everything is computed from the number of a row, so two fills are alike.

-- name: finished
-- Ends lie in the last :hours hours, more by day than by night. chance(n): one of several even numbers from 0 to 1 of a row.
WITH made AS (
  SELECT k.*, c.*, now() - make_interval(secs => 3600 * :hours::float8 *
           (x.ago + 0.55 * sin(2 * pi() * x.ago * :hours::float8 / 24) / (2 * pi() * :hours::float8 / 24))) - interval '3 s' AS ended,
         row_number() OVER () AS n
  FROM (SELECT g, (:total::bigint - g)::double precision / :total::bigint AS ago FROM generate_series(:first::bigint, :last::bigint) AS g) AS x
  JOIN kinds_of_history k ON k.pick = abs(hashint8(x.g) % (SELECT count(*) FROM kinds_of_history))
  CROSS JOIN LATERAL (
    SELECT x.g, abs(hashint8extended(x.g, 1) % 1000) / 1000.0 AS verdict, (1 + abs(hashint8extended(x.g, 2) % 999)) / 1000.0 AS run_chance,
           (1 + abs(hashint8extended(x.g, 3) % 999)) / 1000.0 AS wait_chance, abs(hashint8extended(x.g, 4) % 7) AS tenant_number) AS c),
told AS (
  SELECT m.*, CASE WHEN m.verdict < m.fails THEN 'failed' WHEN m.verdict > 0.9985 THEN 'expired' WHEN m.verdict > 0.996 THEN 'cancelled'
                   WHEN m.verdict > 0.988 THEN 'completed_with_errors' ELSE 'completed' END AS state,
         -ln(m.run_chance) * m.run AS ran, -ln(m.wait_chance) * 0.25 AS waited
  FROM made m)
INSERT INTO {schema}.jobs (kind, state, priority, attempt, max_attempts, fence, seq, lane, tenant, submitted_by, args, created_at, run_after,
                           claimed_at, claimed_by, finished_at, errors)
SELECT t.kind, t.state, t.priority, (t.state <> 'expired')::integer, 1, 2, 2, t.lane,
       CASE WHEN t.tenant_number > 2 THEN 'shop-' || t.tenant_number END, t.submitter, jsonb_build_object('order', t.g),
       t.ended - make_interval(secs => t.ran + t.waited), t.ended - make_interval(secs => t.ran + t.waited),
       CASE WHEN t.state <> 'expired' THEN t.ended - make_interval(secs => t.ran) END, 0, t.ended,
       CASE t.state
         WHEN 'failed' THEN jsonb_build_object('type', t.error, 'reason', 'attempts exhausted', 'message', replace(t.message, '?', (t.g % 90)::text),
           'frame', t.frame, 'traceback', concat(t.traceback, t.error, ': ', replace(t.message, '?', (t.g % 90)::text)))
         WHEN 'completed_with_errors' THEN '{"reason": "items failed", "items_failed": 1, "errors": ["1600: ValueError: picture is truncated"]}' END
FROM told t ORDER BY t.g

-- name: waiting
-- Jobs that are to run later, over the next two days.
INSERT INTO {schema}.jobs (kind, state, priority, args, created_at, run_after, tenant)
SELECT k.kind, 'queued', k.priority, jsonb_build_object('order', g), now() - make_interval(secs => g % 3600),
       now() + interval '1 h' + make_interval(secs => g * 172800.0 / :waiting::bigint), CASE WHEN g % 3 = 0 THEN 'shop-3' END
FROM generate_series(1, :waiting::bigint) AS g JOIN kinds_of_history k ON k.pick = abs(hashint8(g) % (SELECT count(*) FROM kinds_of_history))

-- name: pairs
-- Claims look only for pairs that are registered.
INSERT INTO {schema}.pairs (kind, priority) SELECT DISTINCT kind, priority FROM {schema}.jobs ON CONFLICT DO NOTHING

-- name: attempts
-- A failed attempt has a row; the first second of the job's life says who ran it.
INSERT INTO {schema}.job_attempts (job_id, fence, attempt, worker_name, started_at, ended_at, outcome, error)
SELECT j.id, 1, 1, 'shop-1:4711', j.claimed_at, j.finished_at, 'failed', j.errors FROM {schema}.jobs j WHERE j.state = 'failed'

-- name: counted
-- As the trigger on jobs would have noted them, by minute; the duty's own function moves them.
INSERT INTO {schema}.count_increments (at, outcome, state, kind, lane, tenant, run_bucket, wait_bucket, n, run_seconds, wait_seconds)
SELECT date_trunc('minute', j.finished_at), CASE WHEN j.state = 'expired' THEN 'unstarted' ELSE '' END, j.state, j.kind, coalesce(j.lane, ''),
       coalesce(j.tenant, ''), {schema}.count_bucket(r.ran), {schema}.count_bucket(r.waited), count(*), coalesce(sum(r.ran), 0), coalesce(sum(r.waited), 0)
FROM {schema}.jobs j
CROSS JOIN LATERAL (SELECT date_part('epoch', j.finished_at - j.claimed_at) AS ran, date_part('epoch', j.claimed_at - j.run_after) AS waited) AS r
WHERE j.finished_at IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6, 7, 8

-- name: since
-- Numbers are shown from the moment on since when there are counts.
UPDATE {schema}.counting SET since = now() - make_interval(secs => 3600 * :hours::float8)

-- name: causes
-- As the statement that ends a job would have noted them.
INSERT INTO {schema}.failure_increments (at, job_id, n, ended, fingerprint, kind, tenant)
SELECT j.finished_at, j.id, 1, true, {schema}.failure_fingerprint(j.kind, j.errors), j.kind, coalesce(j.tenant, '')
FROM {schema}.jobs j WHERE j.state = 'failed'

-- name: deploys
-- Versions of the application that workers have brought.
INSERT INTO {schema}.deploys (version, first_seen)
SELECT d.version, now() - make_interval(secs => 3600 * :hours::float8 * d.ago)
FROM (VALUES ('2.3.0', 0.98), ('2.3.1', 0.7), ('2.4.0', 0.02)) AS d(version, ago) ON CONFLICT DO NOTHING
