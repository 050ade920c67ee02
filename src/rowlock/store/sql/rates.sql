-- rates and gates: registered by producers, read and set by operators. Admission itself is part of the claim (function
-- admit).

-- name: register_rates
-- Created full if absent; afterwards the row decides. On a connection of the library's own, like register_gates.
INSERT INTO {schema}.rates AS r (key, amount, per, burst, sliding, tokens)
SELECT d.key, d.amount, d.per, d.burst, d.sliding, d.burst
FROM unnest(:keys::text[], :amounts::integer[], :pers::interval[], :bursts::integer[], :slidings::boolean[])
  AS d(key, amount, per, burst, sliding)
ORDER BY 1
ON CONFLICT (key) DO UPDATE SET used_at = clock_timestamp() WHERE r.used_at < clock_timestamp() - interval '1 day'

-- name: lane_rate
-- The lane's row says what its rate is; this brings the counting row in line. What was used of an unchanged rate stays
-- used. only: 'lane:' and the lane's name; NULL: every lane. The lanes are locked, in the order of their names, before
-- their rates: a repair that waited for an edit in progress would otherwise write back the rate from before the edit.
WITH meant AS MATERIALIZED (
  SELECT 'lane:' || l.name AS key, (l.rate ->> 'amount')::integer AS amount, make_interval(secs => (l.rate ->> 'per')::float8) AS per,
         (l.rate ->> 'burst')::integer AS burst, (l.rate ->> 'window')::boolean AS sliding
  FROM {schema}.lanes l WHERE l.rate IS NOT NULL AND (:only::text[] IS NULL OR 'lane:' || l.name = ANY (:only::text[]))
  ORDER BY l.name FOR SHARE),
gone AS (
  DELETE FROM {schema}.rates r WHERE r.key LIKE 'lane:%' AND (:only::text[] IS NULL OR r.key = ANY (:only::text[]))
    AND NOT EXISTS (SELECT 1 FROM meant m WHERE m.key = r.key))
INSERT INTO {schema}.rates AS r (key, amount, per, burst, sliding, tokens)
SELECT m.key, m.amount, m.per, m.burst, m.sliding, m.burst FROM meant m ORDER BY 1
ON CONFLICT (key) DO UPDATE
SET amount = excluded.amount, per = excluded.per, burst = excluded.burst, sliding = excluded.sliding,
    tokens = least(r.tokens, excluded.burst), uses = CASE WHEN r.sliding AND r.per = excluded.per THEN r.uses ELSE '{}' END
WHERE (r.amount, r.per, r.burst, r.sliding) IS DISTINCT FROM (excluded.amount, excluded.per, excluded.burst, excluded.sliding)

-- name: lane_rate_enter
-- Lanes with a rate only, before their claim and after the cap: locks the count and answers how many jobs may start
-- now, or when. The clock is read after the lock, so that what others used meanwhile is counted.
WITH locked AS MATERIALIZED (SELECT r FROM {schema}.rates r WHERE r.key = 'lane:' || :lane::text FOR UPDATE)
SELECT CASE WHEN (l.r).paused_until > n.now THEN 0 ELSE least(:free::integer, greatest(0, floor(n.room + 1e-6)))::integer END AS free,
       greatest((l.r).paused_until, n.since + make_interval(secs => n.pace)) + interval '0.1 ms' AS again_at
FROM (SELECT l.r, clock_timestamp() AS now FROM locked l OFFSET 0) AS l
CROSS JOIN LATERAL (SELECT x.*, l.now FROM {schema}.rate_now(l.r, l.now) AS x) AS n

-- name: lane_rate_taken
-- In the claim's transaction, while the count is still locked.
UPDATE {schema}.rates r
SET (tokens, uses, updated_at) = (
      SELECT n.tokens - CASE WHEN r.sliding THEN 0 ELSE :n::integer END,
             CASE WHEN r.sliding THEN (n.uses[1] + :n::integer) || n.uses[2:] ELSE n.uses END, n.updated_at
      FROM {schema}.rate_now(r, clock_timestamp()) AS n),
    used_at = clock_timestamp()
WHERE r.key = 'lane:' || :lane::text

-- name: rates_retry_after
-- A handler was asked to come back later (HTTP 429): its rates, or the one it named, pause for every worker. Under its
-- claim; never shortens a pause. Rows are locked in key order.
WITH pauses AS (
  SELECT k.key, max(d.delay) AS delay, max(j.id) AS job
  FROM unnest(:ids::bigint[], :fences::integer[], :delays::float8[], :keys::text[]) AS d(id, fence, delay, key)
  JOIN {schema}.jobs j ON j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL
  CROSS JOIN LATERAL unnest(CASE WHEN d.key IS NULL THEN j.rate_keys ELSE ARRAY[d.key] END) AS k(key)
  GROUP BY k.key),
locked AS MATERIALIZED (
  SELECT r.key FROM {schema}.rates r WHERE r.key IN (SELECT pauses.key FROM pauses) ORDER BY r.key FOR UPDATE)
UPDATE {schema}.rates r
SET paused_until = greatest(r.paused_until, clock_timestamp() + make_interval(secs => t.delay)), paused_by = 'job ' || t.job
FROM locked k JOIN pauses t ON t.key = k.key WHERE r.key = k.key
RETURNING r.key

-- fragment: rate_columns
-- waiting: jobs that have turns, as far as the horizon shows; exact while all have the same weight and none was
-- cancelled.
r.key, r.amount, r.per, r.burst, r.sliding, greatest(0, floor(n.room + 1e-6))::integer AS available,
CASE WHEN r.paused_until > n.now AND r.paused_until < 'infinity' THEN r.paused_until END AS paused_until,
CASE WHEN r.paused_until > n.now THEN r.paused_by END AS paused_by,
CASE WHEN r.horizon > n.now THEN ceil(extract(epoch FROM r.horizon - greatest(n.now, r.paused_until)) / n.pace - 1e-6)::bigint ELSE 0 END AS waiting,
CASE WHEN r.horizon > n.now THEN r.horizon END AS busy_until, r.used_at, r.edited_at

-- fragment: rates_now
{schema}.rates r CROSS JOIN LATERAL (
  SELECT x.room, x.pace, c.now FROM (SELECT clock_timestamp() AS now OFFSET 0) AS c CROSS JOIN LATERAL {schema}.rate_now(r, c.now) AS x) AS n

-- name: rates
-- A page of rates by key; the key of a lane's rate is 'lane:' and its name. No index leads from a rate to its jobs: a
-- principal that does not see every job (unlimited) gets the rates of lanes and kinds, whose names belong to no tenant.
SELECT {rate_columns} FROM {rates_now}
WHERE r.key > :after::text AND (:prefix::text IS NULL OR starts_with(r.key, :prefix::text))
  AND (:unlimited::boolean OR r.key LIKE 'lane:%' OR EXISTS (SELECT 1 FROM {schema}.kinds k WHERE k.name = r.key))
ORDER BY r.key LIMIT :n::integer

-- name: rates_named
-- Rates by primary key.
SELECT {rate_columns} FROM {rates_now} WHERE r.key = ANY (:keys::text[]) ORDER BY r.key

-- name: rate_set
-- NULL leaves a value as it is. What was used stays used: a bucket never becomes fuller by this; a window of another
-- length starts anew. Forgets the turns, which followed the old pace: waiting jobs get new ones by rate_recall, and
-- newcomers would queue behind the old ones.
UPDATE {schema}.rates r
SET amount = m.amount, per = m.per, burst = m.burst, sliding = m.sliding, edited_at = clock_timestamp(),
    tokens = least(m.burst, n.tokens), uses = CASE WHEN r.sliding AND m.sliding AND m.per = r.per THEN n.uses ELSE '{}' END,
    updated_at = n.updated_at, front = '-infinity', horizon = '-infinity'
FROM (SELECT o.key, coalesce(:amount::integer, o.amount) AS amount, coalesce(:per::interval, o.per) AS per,
             coalesce(:burst::integer, o.burst) AS burst, coalesce(:sliding::boolean, o.sliding) AS sliding, o
      FROM {schema}.rates o WHERE o.key = :key::text FOR UPDATE) AS m
CROSS JOIN LATERAL {schema}.rate_now(m.o, clock_timestamp()) AS n
WHERE r.key = m.key
RETURNING r.key

-- name: rate_pause
-- A moment in the past writes nothing: it would end an existing pause.
UPDATE {schema}.rates r
SET paused_until = coalesce(:until::timestamptz, clock_timestamp() + :lasting::interval), paused_by = :by_whom::text
WHERE r.key = :key::text AND coalesce(:until::timestamptz > clock_timestamp(), true) RETURNING r.key

-- name: rate_resume
-- Forgets the turns as well: waiting jobs get new ones by rate_recall.
UPDATE {schema}.rates r SET paused_until = '-infinity', paused_by = NULL, front = '-infinity', horizon = '-infinity'
WHERE r.key = :key::text RETURNING r.key

-- name: rate_reset
-- As if nothing had been used; a pause stays.
UPDATE {schema}.rates r
SET tokens = r.burst, uses = '{}', updated_at = clock_timestamp(), front = '-infinity', horizon = '-infinity'
WHERE r.key = :key::text RETURNING r.key

-- name: rate_recall
-- After the row was changed: jobs that wait for their turn get new turns by the rate as it is now, in the order of the
-- old ones. It is a person's order, so it may read all that is queued for later, pair by pair. done, passed: the jobs
-- that earlier batches moved, and their weight. A row that another transaction holds is passed over and comes at its
-- old turn. The rate's own row is written last.
WITH rate AS (
  SELECT r.key, n.pace, greatest(n.now, r.paused_until) AS begins FROM {rates_now} WHERE r.key = :key::text),
waits AS MATERIALIZED (
  SELECT q.id, coalesce(q.rate_weight, 1) AS rate_weight, q.run_after
  FROM {schema}.pairs p
  CROSS JOIN LATERAL (
    SELECT j.id, j.rate_weight, j.run_after FROM {schema}.jobs j
    WHERE j.state = 'queued' AND j.kind = p.kind AND j.priority = p.priority AND j.share = p.share
      AND j.run_after > statement_timestamp() AND j.rate_turn AND :key::text = ANY (j.rate_keys)
      AND NOT (j.id = ANY (:done::bigint[]))) AS q
  ORDER BY q.run_after, q.id LIMIT :batch::integer),
turn AS MATERIALIZED (
  SELECT w.id, rate.begins + make_interval(secs => (:passed::float8 + sum(w.rate_weight) OVER (ORDER BY w.run_after, w.id) - 1) * rate.pace) AS at
  FROM waits w CROSS JOIN rate
  CROSS JOIN LATERAL (
    SELECT 1 FROM {schema}.jobs j WHERE j.id = w.id AND j.state = 'queued' AND j.rate_turn FOR NO KEY UPDATE SKIP LOCKED) AS locked),
moved AS (
  UPDATE {schema}.jobs j SET run_after = greatest(t.at, clock_timestamp()), seq = j.seq + 1
  FROM turn t WHERE j.id = t.id RETURNING j.id, j.kind, j.priority, j.share, j.run_after, coalesce(j.rate_weight, 1) AS rate_weight),
advanced AS (
  UPDATE {schema}.rates r SET horizon = greatest(r.horizon, (SELECT max(m.run_after) FROM moved m))
  WHERE r.key = :key::text AND EXISTS (SELECT 1 FROM moved))
SELECT m.id, m.kind, m.priority, m.share, m.run_after, m.rate_weight FROM moved m ORDER BY m.run_after

-- name: rate_delete
-- Not while it is in use: jobs that wait for a turn, or used it within the hour, would no longer be limited.
DELETE FROM {schema}.rates r
WHERE r.key = :key::text AND r.horizon <= clock_timestamp() AND r.used_at < clock_timestamp() - interval '1 hour' RETURNING r.key

-- fragment: gate_columns
-- A count stops one row beyond its cap.
g.key, g.max_running, g.held, g.fifo, g.used_at, g.edited_at,
(SELECT count(*) FROM (SELECT 1 FROM {schema}.jobs j WHERE j.gate_key = g.key AND j.gate_place = -1 AND j.finished_at IS NULL
                       LIMIT 1001) AS p) AS parked

-- name: gates
-- Without the caps of lanes, which are shown with their lanes. A key often names its tenant: a principal that does not
-- see every job gets the gates of live jobs that it sees, through jobs_gate.
SELECT {gate_columns} FROM {schema}.gates g
WHERE g.key > :after::text AND g.key NOT LIKE 'lane:%' AND (:prefix::text IS NULL OR starts_with(g.key, :prefix::text))
  AND ((:sees_all::boolean AND :granted::jsonb IS NULL) OR EXISTS (
         SELECT 1 FROM {schema}.jobs j WHERE j.gate_key = g.key AND j.finished_at IS NULL AND {visible}))
ORDER BY g.key LIMIT :n::integer

-- name: gates_named
-- Gates by primary key.
SELECT {gate_columns} FROM {schema}.gates g WHERE g.key = ANY (:keys::text[]) AND g.key NOT LIKE 'lane:%' ORDER BY g.key

-- name: gate_set
-- NULL leaves a value as it is. A raised limit lets parked jobs in at once: `promoted` is their number.
WITH locked AS MATERIALIZED (
  SELECT g.key, g.held, coalesce(:max_running::integer, g.max_running) AS max_running FROM {schema}.gates g
  WHERE g.key = :key::text AND g.key NOT LIKE 'lane:%' FOR UPDATE),
promoted AS MATERIALIZED (SELECT l.key, {schema}.gate_promote(l.key, l.max_running - l.held) AS n FROM locked l)
UPDATE {schema}.gates g
SET max_running = l.max_running, fifo = coalesce(:fifo::boolean, g.fifo), held = g.held + p.n, edited_at = clock_timestamp()
FROM locked l JOIN promoted p ON p.key = l.key WHERE g.key = l.key
RETURNING g.key, p.n AS promoted

-- name: gate_delete
-- Not while a job names it: its places would be lost.
DELETE FROM {schema}.gates g
WHERE g.key = :key::text AND g.key NOT LIKE 'lane:%' AND g.held = 0
  AND NOT EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.gate_key = g.key AND j.finished_at IS NULL)
RETURNING g.key

-- name: forget_gates
-- Gates that no producer named for a week and no job needs; a person's settings stay. A locked row is in use.
DELETE FROM {schema}.gates g
WHERE g.key IN (
  SELECT o.key FROM {schema}.gates o
  WHERE o.used_at < now() - interval '7 days' AND o.edited_at IS NULL AND o.held = 0 AND o.key NOT LIKE 'lane:%'
    AND NOT EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.gate_key = o.key AND j.finished_at IS NULL)
    AND (:only::text[] IS NULL OR 'gate ' || o.key = ANY (:only::text[]))
  ORDER BY o.key LIMIT :batch::integer FOR UPDATE SKIP LOCKED)
RETURNING g.key

-- name: unused_limits
-- For forget_gates and forget_rates when they are run in parts: what they may delete, and more.
SELECT 'gate ' || g.key AS id FROM {schema}.gates g WHERE g.used_at < now() - interval '7 days' AND g.edited_at IS NULL
UNION ALL
SELECT 'rate ' || r.key FROM {schema}.rates r WHERE r.used_at < now() - interval '7 days' AND r.edited_at IS NULL

-- name: forget_rates
-- The same for rates. No index shows which jobs need one, so waiting jobs are read once for all candidates; needed
-- rates are marked as used, so that they are not looked at again for a week.
WITH old AS MATERIALIZED (
  SELECT r.key FROM {schema}.rates r
  WHERE r.used_at < now() - interval '7 days' AND r.edited_at IS NULL AND r.paused_until < now() AND r.key NOT LIKE 'lane:%'
    AND (:only::text[] IS NULL OR 'rate ' || r.key = ANY (:only::text[]))
  ORDER BY r.key LIMIT :batch::integer FOR UPDATE SKIP LOCKED),
needed AS MATERIALIZED (
  SELECT DISTINCT k.key FROM {schema}.jobs j CROSS JOIN LATERAL unnest(j.rate_keys) AS k(key)
  WHERE j.state IN ('pending', 'blocked', 'queued') AND j.rate_keys IS NOT NULL AND EXISTS (SELECT 1 FROM old)),
kept AS (UPDATE {schema}.rates r SET used_at = now() FROM old o WHERE r.key = o.key AND o.key IN (SELECT n.key FROM needed n))
DELETE FROM {schema}.rates r USING old o WHERE r.key = o.key AND o.key NOT IN (SELECT n.key FROM needed n)
RETURNING r.key

-- name: ageing_jobs
-- For an ageing that is run in parts: the jobs that it may raise, found as `age` finds them.
SELECT q.id FROM {schema}.pairs p
CROSS JOIN LATERAL (
  SELECT j.id, j.run_after FROM {schema}.jobs j
  WHERE j.state = 'queued' AND j.kind = p.kind AND j.priority = p.priority AND j.share = p.share
    AND j.run_after >= p.low_water AND j.run_after < clock_timestamp() - :every::interval
  ORDER BY j.run_after, j.id LIMIT 5000) AS q
WHERE p.kind = ANY (:kinds::text[]) AND p.priority < 100 AND p.low_water IS NOT NULL
ORDER BY q.run_after, q.id LIMIT 5000

-- name: age
-- Jobs of these kinds that waited at their priority for `every`: one level up, the oldest first, at a new position
-- there, never behind its cursor. No transition, so the fence stays. low_water is where each pair begins, so dead index
-- entries are not read. Locked by id with SKIP LOCKED and checked again. The pairs that they move to are registered
-- with them. is_new: no worker can know the pair yet (an inserted row has no xmax).
WITH old AS MATERIALIZED (
  SELECT q.id FROM {schema}.pairs p
  CROSS JOIN LATERAL (
    SELECT j.id, j.run_after FROM {schema}.jobs j
    WHERE j.state = 'queued' AND j.kind = p.kind AND j.priority = p.priority AND j.share = p.share
      AND j.run_after >= p.low_water AND j.run_after < clock_timestamp() - :every::interval AND {among}
    ORDER BY j.run_after, j.id LIMIT :batch::integer) AS q
  WHERE p.kind = ANY (:kinds::text[]) AND p.priority < 100 AND p.low_water IS NOT NULL
  ORDER BY q.run_after, q.id LIMIT :batch::integer),
held AS MATERIALIZED (
  SELECT o.id FROM old o CROSS JOIN LATERAL (
    SELECT 1 FROM {schema}.jobs j
    WHERE j.id = o.id AND j.state = 'queued' AND j.priority < 100 AND j.run_after < clock_timestamp() - :every::interval
    FOR NO KEY UPDATE SKIP LOCKED) AS l),
raised AS (
  UPDATE {schema}.jobs j SET priority = j.priority + 1, seq = j.seq + 1, run_after = clock_timestamp()
  FROM held h WHERE j.id = h.id RETURNING j.id, j.kind, j.priority, j.share, j.run_after),
registered AS (
  INSERT INTO {schema}.pairs AS p (kind, priority, share)
  SELECT DISTINCT r.kind, r.priority, r.share FROM raised r ORDER BY 1, 2, 3
  ON CONFLICT (kind, priority, share) DO UPDATE SET last_seen = clock_timestamp() WHERE p.last_seen < clock_timestamp() - interval '1 hour'
  RETURNING p.kind, p.priority, p.share, p.xmax::text = '0' AS is_new)
SELECT r.kind, r.priority, r.share, min(r.run_after) AS run_after, count(*) AS n,
       EXISTS (SELECT 1 FROM registered g
               WHERE g.kind = r.kind AND g.priority = r.priority AND g.share = r.share AND g.is_new) AS is_new
FROM raised r GROUP BY r.kind, r.priority, r.share

-- name: pair_kinds
-- Kinds with queued jobs, as of the last sweep.
SELECT DISTINCT p.kind FROM {schema}.pairs p WHERE p.low_water IS NOT NULL

-- name: job_rates
-- For an edit, which may change the rates of a job.
SELECT j.rate_keys FROM {schema}.jobs j WHERE j.id = :id::bigint
