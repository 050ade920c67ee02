-- upkeep: each statement is one bounded, idempotent round; two winners at once are harmless.

-- name: elect
-- Compare-and-set: no connection state, safe behind a transaction pooler, no leader to lose. The epoch of the sweep
-- moves with what it publishes, not here: a worker that reacted to the election would read the pairs too early. A last
-- run in the future dates from before the server's clock was set back: waiting for it could take hours.
UPDATE {schema}.duties d SET last_run_at = clock_timestamp(), epoch = d.epoch + (d.name <> 'sweep')::integer
WHERE d.name = :name::text
  AND NOT d.last_run_at BETWEEN clock_timestamp() - greatest(d.every, make_interval(secs => 20 * d.last_ms / 1000.0))
                            AND clock_timestamp()
RETURNING d.epoch

-- name: duty_took
-- A slow duty runs more rarely: at most 5 % of one backend.
UPDATE {schema}.duties d SET last_ms = :ms::integer WHERE d.name = :name::text AND d.last_ms <> :ms::integer

-- name: sweep
-- The first job of every pair by a loose index scan of the claim index, published as low_water; also finds pairs that
-- were never registered. The only unbounded read, once per cluster and round. A pair without queued jobs is cleared,
-- and forgotten after a day. The epoch moves when something was published, and as long as anything is queued, so that a
-- head that was passed over because its row was locked is found again. On an empty queue workers are not made to read
-- what has not changed. A pair that is being registered at this moment is locked, and not cleared. `only`, here and below:
-- after a run has failed because of one row, the rows of this run, in the words of its candidates; NULL: any.
WITH RECURSIVE {queued_heads},
published AS (
  INSERT INTO {schema}.pairs AS p (kind, priority, share, low_water)
  SELECT h.kind, h.priority, h.share, h.run_after FROM h WHERE (:only::text[] IS NULL OR 'pair ' || h.kind || ' ' || h.priority || ' ' || h.share = ANY (:only::text[])) ORDER BY 1, 2, 3
  ON CONFLICT (kind, priority, share) DO UPDATE SET low_water = excluded.low_water, last_seen = clock_timestamp()
  WHERE p.low_water IS DISTINCT FROM excluded.low_water OR p.last_seen < clock_timestamp() - interval '1 hour'
  RETURNING 1),
empty AS MATERIALIZED (
  SELECT p.kind, p.priority, p.share, p.low_water IS NULL AS unused FROM {schema}.pairs p
  WHERE (p.low_water IS NOT NULL OR p.last_seen < clock_timestamp() - interval '1 day')
    AND NOT EXISTS (SELECT 1 FROM h WHERE (h.kind, h.priority, h.share) = (p.kind, p.priority, p.share))
    AND (:only::text[] IS NULL OR 'pair ' || p.kind || ' ' || p.priority || ' ' || p.share = ANY (:only::text[]))
  FOR UPDATE SKIP LOCKED),
cleared AS (
  UPDATE {schema}.pairs p SET low_water = NULL FROM empty e
  WHERE NOT e.unused AND (e.kind, e.priority, e.share) = (p.kind, p.priority, p.share) RETURNING 1),
forgotten AS (
  DELETE FROM {schema}.pairs p USING empty e
  WHERE e.unused AND (e.kind, e.priority, e.share) = (p.kind, p.priority, p.share) RETURNING 1),
announced AS (
  UPDATE {schema}.duties d SET epoch = d.epoch + 1
  WHERE d.name = 'sweep'
    AND (EXISTS (SELECT 1 FROM h) OR EXISTS (SELECT 1 FROM published) OR EXISTS (SELECT 1 FROM cleared)
         OR EXISTS (SELECT 1 FROM forgotten)))
SELECT (SELECT count(*) FROM published) + (SELECT count(*) FROM cleared) + (SELECT count(*) FROM forgotten) AS changed

-- name: pair_names
-- For a sweep that is run in parts: every pair that is registered or has queued jobs.
WITH RECURSIVE {queued_heads}
SELECT 'pair ' || h.kind || ' ' || h.priority || ' ' || h.share AS id FROM h UNION SELECT 'pair ' || p.kind || ' ' || p.priority || ' ' || p.share FROM {schema}.pairs p

-- fragment: lost_claims
-- The policy of the kind decides: retry (with a loss budget of its own, and back-off), fail, or hold for a person. The
-- attempt does not count: a dead worker is not the handler's failure. A lost job is a suspect, as are the other jobs of
-- that worker, and runs alone in a child process from now on, where its own death is told from its worker's. A job that
-- takes its whole host along, or stalls each time, must end all the same: it may be lost as often as it may be
-- attempted, but at least twice, as the first loss may be its neighbour's fault. Kinds that cannot be isolated are
-- judged after max_losses at the latest. What the kind itself says comes before both; 0: no limit.
SELECT j.id, j.fence,
       CASE WHEN p.policy = 'fail' OR over.budget THEN 'failed'
            WHEN p.policy = 'hold' THEN 'pending' ELSE 'queued' END AS state,
       least(300, 2 ^ least(j.losses, 9)) * random() AS delay, 1 AS refund, 1 AS loss, 0 AS death, 'lost'::text AS outcome,
       jsonb_build_object('reason', CASE WHEN over.budget THEN 'quarantined' ELSE 'worker lost' END,
                          'worker', w.name, 'losses', j.losses + 1)
         || CASE WHEN over.budget THEN jsonb_build_object('message', 'its worker was lost; that was loss '
                   || (j.losses + 1) || ' of ' || p.budget || ' that it may have') ELSE '{}' END AS error,
       NULL::bigint AS owner
FROM {schema}.jobs j
LEFT JOIN {schema}.workers w ON w.id = j.claimed_by
LEFT JOIN {schema}.lanes l ON l.name = j.lane
LEFT JOIN {schema}.kinds k ON k.name = j.kind
CROSS JOIN LATERAL (SELECT coalesce(k.on_worker_lost, 'retry') AS policy,
                           nullif(coalesce(k.max_losses, least(greatest(j.max_attempts, 2),
                                           CASE WHEN k.isolates THEN NULL ELSE :max_losses::integer END)), 0) AS budget) AS p
CROSS JOIN LATERAL (SELECT p.policy = 'retry' AND coalesce(j.losses + 1 >= p.budget, false) AS budget) AS over

-- fragment: exhausted
-- The hooks of jobs that upkeep ends, for the columns {id, fence, attempt, state, error, tenant, trace, kind} of a CTE
-- `concluded`.
hooking AS (
  SELECT o.id, o.fence, o.attempt, o.state, o.error, o.tenant, o.trace, k.hooks -> 'on_exhausted' ->> 'kind' AS hook,
         (k.hooks -> 'on_exhausted' ->> 'attempts')::smallint AS hook_attempts
  FROM concluded o JOIN {schema}.kinds k ON k.name = o.kind WHERE k.hooks -> 'on_exhausted' IS NOT NULL),
{hooked}

-- fragment: moved_concluded
concluded AS (SELECT m.id, m.fence, m.attempt, m.state, m.error, m.tenant, m.trace, m.kind FROM moved m WHERE m.state = 'failed')

-- fragment: ended_concluded
concluded AS (
  SELECT e.id, e.fence, e.attempt, :state::text AS state, coalesce(:error::jsonb, jsonb_build_object('reason', :state::text)) AS error,
         e.tenant, e.trace, e.kind
  FROM ended e)

-- fragment: among
-- After a run has failed because of one row: the rows of this run. NULL: any.
(:only::bigint[] IS NULL OR j.id = ANY (:only::bigint[]))

-- name: running_ids
-- For a rescue that is run in parts: the jobs that it may take, and others that it will leave alone.
SELECT j.id FROM {schema}.jobs j WHERE j.state = 'running' ORDER BY j.id LIMIT 20000

-- name: expiring_ids
-- For an expiry that is run in parts: what `expire`, `unanswered` and `too_old` may end, through their indexes.
(SELECT j.id FROM {schema}.jobs j WHERE j.expires_at IS NOT NULL AND j.expires_at < now() AND j.state IN ('pending', 'blocked', 'queued')
  ORDER BY j.expires_at LIMIT 5000)
UNION
(SELECT j.id FROM {schema}.jobs j WHERE j.answer_by IS NOT NULL AND j.answer_by < now() AND j.state = 'pending'
  ORDER BY j.answer_by LIMIT 5000)
UNION
(SELECT j.id FROM {schema}.jobs j WHERE j.too_old_at IS NOT NULL AND j.too_old_at < now() AND j.finished_at IS NULL
  ORDER BY j.too_old_at LIMIT 5000)
ORDER BY 1

-- name: finished_ids
-- For a pruning that is run in parts: the jobs that ended longest ago.
SELECT j.id FROM {schema}.jobs j
WHERE j.finished_at IS NOT NULL AND j.finished_at < now() - (SELECT min(r.keep) FROM {schema}.retention r) AND j.workflow_id IS NULL
ORDER BY j.finished_at LIMIT 5000

-- name: rescue
-- A worker's silence, not the age of the claim, makes a job lost. `watched` is how long this process has reached the
-- database without a break: after an outage, or a restart of the server, no worker is judged before a full heartbeat
-- timeout has passed. A worker that signed off or that a person has declared gone is not waited for: one that lives
-- after all has said `up` with its next beat.
WITH leaving AS (
  {lost_claims}
  WHERE j.state = 'running'
    AND j.claimed_by IN (SELECT s.id FROM {schema}.workers s WHERE s.seen_at < clock_timestamp() - interval '1 s')
    AND (w.seen_at < clock_timestamp() - coalesce(l.stale_after, interval '60 s')
         AND coalesce(l.stale_after, interval '60 s') <= :watched::interval
         AND pg_postmaster_start_time() < clock_timestamp() - coalesce(l.stale_after, interval '60 s')
         OR w.state = 'gone' AND w.seen_at < clock_timestamp() - interval '15 s') AND {among}
  ORDER BY j.id LIMIT 500 FOR NO KEY UPDATE OF j SKIP LOCKED),
{requeue},
{moved_concluded},
{exhausted},
{places}
SELECT m.id, m.fence, m.state, m.kind, m.priority, m.share, m.run_after, places.promoted, places.released, {hooks_notified}
FROM moved m CROSS JOIN places

-- name: rescue_dead
-- The operating system has told their supervisor that these workers are dead: no need to wait for their silence.
WITH leaving AS (
  {lost_claims}
  WHERE j.state = 'running' AND j.claimed_by = ANY (:workers::bigint[]) AND {among}
  ORDER BY j.id LIMIT 500 FOR NO KEY UPDATE OF j SKIP LOCKED),
{requeue},
{moved_concluded},
{exhausted},
{places}
SELECT m.id, m.fence, m.state, m.kind, m.priority, m.share, m.run_after, places.promoted, places.released, {hooks_notified}
FROM moved m CROSS JOIN places

-- name: stalled
-- A running job that reported nothing for as long as its lane allows, since its claim or its last report, is treated as
-- if its worker were lost; the message lets a worker that still runs it notice at once. While the database was away no
-- job could report: `watched` and the server's start are checked as in rescue.
WITH leaving AS (
  SELECT x.id, x.fence, x.state, x.delay, x.refund, x.loss, x.death, x.outcome,
         CASE WHEN x.error ->> 'reason' = 'quarantined'
              THEN x.error || jsonb_build_object('message', replace(x.error ->> 'message', 'its worker was lost', s.why))
              ELSE x.error || jsonb_build_object('reason', s.why)
         END || jsonb_build_object('last_progress_at', s.reported_at) AS error,
         x.owner
  FROM ({lost_claims}
        LEFT JOIN {schema}.job_progress r ON r.job_id = j.id AND r.fence = j.fence
        WHERE j.state = 'running' AND greatest(j.claimed_at, r.reported_at) < clock_timestamp() - l.stall_after
          AND l.stall_after <= :watched::interval
          AND pg_postmaster_start_time() < clock_timestamp() - l.stall_after AND {among}
        ORDER BY j.id LIMIT 500 FOR NO KEY UPDATE OF j SKIP LOCKED) AS x
  LEFT JOIN LATERAL (
    SELECT 'no progress for ' || round(extract(epoch FROM l.stall_after)) || ' s' AS why, r.reported_at
    FROM {schema}.jobs j JOIN {schema}.lanes l ON l.name = j.lane
    LEFT JOIN {schema}.job_progress r ON r.job_id = j.id AND r.fence = j.fence WHERE j.id = x.id) AS s ON true),
{requeue},
{moved_concluded},
{exhausted},
{places}
SELECT m.id, m.fence, m.state, m.kind, m.priority, m.share, m.run_after, places.promoted, places.released, {hooks_notified},
       (SELECT {schema}.notify_ids(:channel::text, 'lost', array_agg(x.id)) FROM moved x) AS stopped
FROM moved m CROSS JOIN places

-- name: any_orphan
-- The cheap check before `orphans`.
SELECT j.id FROM {schema}.jobs j
WHERE j.state = 'running' AND NOT EXISTS (SELECT 1 FROM {schema}.workers w WHERE w.id = j.claimed_by) LIMIT 1

-- name: orphans
-- Running jobs whose worker row was deleted by hand. Rare, so looked for rarely.
WITH leaving AS (
  {lost_claims}
  WHERE j.state = 'running' AND w.id IS NULL AND {among}
  ORDER BY j.id LIMIT 500 FOR NO KEY UPDATE OF j SKIP LOCKED),
{requeue},
{moved_concluded},
{exhausted},
{places}
SELECT m.id, m.fence, m.state, m.kind, m.priority, m.share, m.run_after, places.promoted, places.released, {hooks_notified}
FROM moved m CROSS JOIN places

-- name: expire
-- Waiting jobs past expires_at. The ids come from the partial index; rows are locked in id order, like everywhere.
WITH due AS (
  SELECT x.id FROM {schema}.jobs x
  WHERE x.expires_at IS NOT NULL AND x.expires_at < now() AND x.state IN ('pending', 'blocked', 'queued')
    AND (:only::bigint[] IS NULL OR x.id = ANY (:only::bigint[]))
  ORDER BY x.expires_at LIMIT 500),
ending AS (
  SELECT {ending_columns} FROM {schema}.jobs j
  WHERE j.id IN (SELECT due.id FROM due) AND j.state IN ('pending', 'blocked', 'queued') AND j.expires_at < now()
  ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED),
{end_jobs},
{ended_concluded},
{exhausted}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed}, {hooks_notified} FROM ended m

-- name: too_old
-- max_age ends a job in any live state, also a running one; its worker learns that the claim is lost.
WITH due AS (
  SELECT x.id FROM {schema}.jobs x
  WHERE x.too_old_at IS NOT NULL AND x.too_old_at < now() AND x.finished_at IS NULL
    AND (:only::bigint[] IS NULL OR x.id = ANY (:only::bigint[]))
  ORDER BY x.too_old_at LIMIT 500),
ending AS (
  SELECT {ending_columns} FROM {schema}.jobs j
  WHERE j.id IN (SELECT due.id FROM due) AND j.finished_at IS NULL AND j.too_old_at < now()
  ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED),
{end_jobs},
{ended_concluded},
{exhausted}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified, {followed}, {hooks_notified},
       (SELECT {schema}.notify_ids(:channel::text, 'lost', array_agg(x.id))
        FROM ended x WHERE x.state = 'running' HAVING count(*) > 0) AS stopped
FROM ended m

-- name: repair_caps
-- A lane with max_total but without a cap row would not be capped at all: the lane was written by hand, or the process
-- that set it died before it wrote the cap. repair_gates corrects the count afterwards. The lanes are locked first, as in
-- lane_rate: an edit in progress must not be undone.
WITH capped AS MATERIALIZED (
  SELECT 'lane:' || l.name AS key, l.max_total FROM {schema}.lanes l
  WHERE l.max_total IS NOT NULL AND (:only::text[] IS NULL OR 'lane:' || l.name = ANY (:only::text[])) ORDER BY l.name FOR SHARE)
INSERT INTO {schema}.gates AS g (key, max_running) SELECT c.key, c.max_total FROM capped c ORDER BY 1
ON CONFLICT (key) DO UPDATE SET max_running = excluded.max_running WHERE g.max_running <> excluded.max_running

-- name: lane_names
-- For a repair of caps or rates that is run in parts: every lane, and rates that outlived theirs.
SELECT 'lane:' || l.name AS id FROM {schema}.lanes l UNION SELECT r.key FROM {schema}.rates r WHERE r.key LIKE 'lane:%'

-- name: repair_gates
-- A function of the schema: each gate is recounted under its own lock.
SELECT {schema}.gates_repair() AS changed

-- name: retention_rules
-- `prune` runs once for each.
SELECT r.kind, r.state FROM {schema}.retention r ORDER BY r.kind, r.state

-- fragment: gone_beside
-- Deletes what belongs to the deleted rows of a CTE `gone (id, refs, tags)`. References written by hand may be no
-- object: that must not keep their neighbours in the batch from being deleted.
r AS (DELETE FROM {schema}.job_refs r USING gone g CROSS JOIN LATERAL (
        SELECT e.key AS name, e.value FROM jsonb_each_text(CASE WHEN jsonb_typeof(g.refs) = 'object' THEN g.refs END) AS e UNION ALL SELECT 'tag', t FROM unnest(g.tags) AS t) AS e
       WHERE r.name = e.name AND r.value = e.value AND r.job_id = g.id),
a AS (DELETE FROM {schema}.job_attempts a USING gone g WHERE a.job_id = g.id),
p AS (DELETE FROM {schema}.job_progress p USING gone g WHERE p.job_id = g.id),
c AS (DELETE FROM {schema}.job_acts c USING gone g WHERE c.job_id = g.id),
i AS (DELETE FROM {schema}.job_items i USING gone g WHERE i.job_id = g.id),
l AS (DELETE FROM {schema}.job_logs l USING gone g WHERE l.job_id = g.id),
k AS (DELETE FROM {schema}.job_checkpoints k USING gone g WHERE k.job_id = g.id),
w AS (DELETE FROM {schema}.waits w USING gone g WHERE w.job_id = g.id),
d AS (DELETE FROM {schema}.job_deliveries d USING gone g WHERE d.job_id = g.id),
n AS (DELETE FROM {schema}.signals n USING gone g WHERE n.job_id = g.id)

-- name: prune
-- One rule, one bounded batch, from where the last round stopped. A more specific rule keeps its rows out of a wider
-- one. SKIP LOCKED passes over a row that another transaction holds. If that retries the job, it is not final any more;
-- otherwise it is deleted later: the next round begins no later than at a row that was passed over. A run for the rows
-- of `only` says nothing about the others and moves no mark. Steps are deleted with their workflow (prune_workflows).
WITH rule AS (
  SELECT r.kind, r.state, r.pruned_to, now() - r.keep AS until FROM {schema}.retention r
  WHERE r.kind = :kind::text AND r.state = :state::text FOR UPDATE SKIP LOCKED),
seen AS MATERIALIZED (
  SELECT j.id, j.finished_at FROM rule r CROSS JOIN LATERAL (
    SELECT x.id, x.finished_at FROM {schema}.jobs x
    WHERE x.finished_at >= r.pruned_to AND x.finished_at < r.until AND x.finished_at IS NOT NULL AND x.workflow_id IS NULL
      AND (:only::bigint[] IS NULL OR x.id = ANY (:only::bigint[]))
      AND (r.kind = '*' OR x.kind = r.kind) AND (r.state = '*' OR x.state = r.state)
      AND NOT EXISTS (SELECT 1 FROM {schema}.retention s
                       WHERE (s.kind, s.state) <> (r.kind, r.state) AND s.kind IN ('*', x.kind) AND s.state IN ('*', x.state)
                         AND ((s.kind <> '*')::integer * 2 + (s.state <> '*')::integer)
                           > ((r.kind <> '*')::integer * 2 + (r.state <> '*')::integer))
    ORDER BY x.finished_at LIMIT :batch::integer) AS j),
old AS (
  SELECT j.id FROM {schema}.jobs j JOIN seen ON seen.id = j.id AND seen.finished_at = j.finished_at FOR UPDATE OF j SKIP LOCKED),
gone AS (DELETE FROM {schema}.jobs j USING old WHERE j.id = old.id RETURNING j.id, j.refs, j.tags),
{gone_beside},
marked AS (
  UPDATE {schema}.retention t
  SET pruned_to = coalesce((SELECT min(s.finished_at) FROM seen s WHERE s.id NOT IN (SELECT old.id FROM old)),
                           CASE WHEN (SELECT count(*) FROM seen) < :batch::integer THEN rule.until - interval '10 minutes'
                                ELSE (SELECT max(s.finished_at) FROM seen s) END)
  FROM rule
  WHERE t.kind = rule.kind AND t.state = rule.state AND rule.until - interval '10 minutes' > t.pruned_to AND :only::bigint[] IS NULL)
SELECT count(*) AS pruned FROM gone

-- name: prune_keys
-- Idempotency keys have a retention of their own. A locked key is being taken over by an enqueue: it is passed over,
-- since a bulk locks many of them in an order of its own.
DELETE FROM {schema}.job_keys k
USING (SELECT o.kind, o.key FROM {schema}.job_keys o
       WHERE o.expires_at < now() AND (:only::text[] IS NULL OR 'key of job ' || o.job_id = ANY (:only::text[]))
       LIMIT :batch::integer FOR UPDATE SKIP LOCKED) AS old
WHERE k.kind = old.kind AND k.key = old.key

-- name: expired_keys
-- For a deletion of keys that is run in parts. By their jobs: a key may be secret.
SELECT DISTINCT 'key of job ' || k.job_id AS id FROM (
  SELECT o.job_id FROM {schema}.job_keys o WHERE o.expires_at < now() ORDER BY o.expires_at LIMIT 5000) AS k

-- name: prune_waiters
-- Left behind by callers that crashed. A locked row is being renewed.
DELETE FROM {schema}.job_waiters w
USING (SELECT x.job_id, x.waiter FROM {schema}.job_waiters x
       WHERE x.until < now() AND (:only::text[] IS NULL OR 'waiter of job ' || x.job_id = ANY (:only::text[])) FOR UPDATE SKIP LOCKED) AS old
WHERE w.job_id = old.job_id AND w.waiter = old.waiter

-- name: expired_waiters
-- For a deletion of waiters that is run in parts.
SELECT DISTINCT 'waiter of job ' || x.job_id AS id FROM {schema}.job_waiters x WHERE x.until < now()

-- name: prune_workers
-- A worker row outlives the worker by a day, so that attempts can still name it; a silent worker with running jobs is
-- left to rescue. A locked row is passed over: its supervisor vouches for several workers at once.
DELETE FROM {schema}.workers w
USING (SELECT x.id FROM {schema}.workers x
       WHERE x.seen_at < now() - interval '1 day' AND (:only::text[] IS NULL OR 'worker ' || x.id = ANY (:only::text[])) FOR UPDATE SKIP LOCKED) AS old
WHERE w.id = old.id AND NOT EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.claimed_by = w.id AND j.state = 'running')

-- name: workers_silent
-- A worker that has been silent for a minute and holds no job is shown as gone. A locked row is passed over, as above.
UPDATE {schema}.workers w SET state = 'gone', hungry = false
FROM (SELECT x.id FROM {schema}.workers x
      WHERE x.state <> 'gone' AND x.seen_at < now() - interval '60 s' AND (:only::text[] IS NULL OR 'worker ' || x.id = ANY (:only::text[]))
      FOR NO KEY UPDATE SKIP LOCKED) AS silent
WHERE w.id = silent.id
  AND NOT EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.claimed_by = w.id AND j.state = 'running')

-- name: silent_workers
-- For workers_silent and prune_workers when they are run in parts.
SELECT 'worker ' || x.id AS id FROM {schema}.workers x WHERE x.seen_at < now() - interval '60 s' ORDER BY x.id LIMIT 20000

-- name: fold_counts
-- A function of the schema; moves a bounded number of increments. only: their names; NULL: all.
SELECT {schema}.counts_fold_only(:batch::integer, :series::integer, :only::text[]) AS folded

-- name: count_increment_names
-- For a fold that is run in parts.
SELECT DISTINCT {schema}.count_increment_name(i) AS id FROM {schema}.count_increments i ORDER BY 1 LIMIT 5000

-- fragment: count_name
-- A row of counts as people read of it; each table has its word before it.
concat_ws(' ', to_char(c.since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), c.kind, nullif(c.lane, ''), nullif(c.tenant, ''), c.outcome,
          nullif(c.state, ''), c.measure, c.bucket)

-- name: prune_counts
-- By the first column of the primary keys, so that only rows past their time are read.
WITH minutes AS (DELETE FROM {schema}.counts_by_minute c WHERE c.since < now() - interval '25 hours'
                 AND (:only::text[] IS NULL OR 'minute ' || {count_name} = ANY (:only::text[])) RETURNING 1),
tens AS (DELETE FROM {schema}.counts_by_ten_minutes c WHERE c.since < now() - interval '25 hours'
         AND (:only::text[] IS NULL OR 'ten minutes ' || {count_name} = ANY (:only::text[])) RETURNING 1),
hours AS (DELETE FROM {schema}.counts_by_hour c WHERE c.since < now() - interval '31 days'
          AND (:only::text[] IS NULL OR 'hour ' || {count_name} = ANY (:only::text[])) RETURNING 1)
SELECT (SELECT count(*) FROM minutes) AS minutes, (SELECT count(*) FROM tens) AS tens, (SELECT count(*) FROM hours) AS hours

-- name: old_counts
-- For prune_counts when it is run in parts.
SELECT 'minute ' || {count_name} AS id FROM {schema}.counts_by_minute c WHERE c.since < now() - interval '25 hours'
UNION ALL
SELECT 'ten minutes ' || {count_name} FROM {schema}.counts_by_ten_minutes c WHERE c.since < now() - interval '25 hours'
UNION ALL
SELECT 'hour ' || {count_name} FROM {schema}.counts_by_hour c WHERE c.since < now() - interval '31 days'
LIMIT 5000

-- name: fold_failures
-- As fold_counts, for failure groups.
SELECT {schema}.failures_fold_only(:batch::integer, :groups::integer, :only::text[]) AS folded

-- name: failure_increment_names
-- For a fold of failures that is run in parts.
SELECT DISTINCT {schema}.failure_increment_name(i) AS id FROM {schema}.failure_increments i ORDER BY 1 LIMIT 5000

-- name: prune_failures
-- Counts by their index on time; groups are few and read whole. Run when a minute of counts has been pruned, so once a
-- minute at most. Not beside a fold of failures, which writes the same rows in another order: then a later run deletes.
WITH alone AS MATERIALIZED (SELECT 1 WHERE pg_try_advisory_xact_lock(hashtextextended('{schema}.failures', 0))),
hours AS (DELETE FROM {schema}.failures_by_hour h USING alone WHERE h.since < now() - interval '31 days'
          AND (:only::text[] IS NULL OR 'failure group ' || concat_ws(' ', h.fingerprint, nullif(h.tenant, '')) = ANY (:only::text[])) RETURNING 1),
groups AS (DELETE FROM {schema}.failure_groups g USING alone WHERE g.last_seen < now() - interval '31 days'
           AND (:only::text[] IS NULL OR 'failure group ' || concat_ws(' ', g.fingerprint, nullif(g.tenant, '')) = ANY (:only::text[])) RETURNING 1)
SELECT (SELECT count(*) FROM hours) AS hours, (SELECT count(*) FROM groups) AS groups

-- name: old_failures
-- For prune_failures when it is run in parts: a group and its old counts are one row to people.
SELECT DISTINCT 'failure group ' || concat_ws(' ', x.fingerprint, nullif(x.tenant, '')) AS id FROM (
  SELECT h.fingerprint, h.tenant FROM {schema}.failures_by_hour h WHERE h.since < now() - interval '31 days'
  UNION ALL
  SELECT g.fingerprint, g.tenant FROM {schema}.failure_groups g WHERE g.last_seen < now() - interval '31 days') AS x
LIMIT 5000

-- fragment: old_series
-- Series that have not been counted for a month, with their name.
SELECT x.kind, x.lane, x.tenant, concat_ws(' ', 'series', x.kind, nullif(x.lane, ''), nullif(x.tenant, '')) AS name
FROM {schema}.count_totals x GROUP BY 1, 2, 3 HAVING max(x.counted_at) < now() - interval '31 days'

-- name: forget_series
-- Totals of series that have not been counted for a month, and the places they took. Run when an hour has been pruned,
-- since it reads every total.
WITH old AS (
  DELETE FROM {schema}.count_totals t
  WHERE (t.kind, t.lane, t.tenant) IN (
    SELECT s.kind, s.lane, s.tenant FROM ({old_series}) AS s WHERE :only::text[] IS NULL OR s.name = ANY (:only::text[]))
  RETURNING t.kind, t.lane, t.tenant)
DELETE FROM {schema}.count_series s USING (SELECT DISTINCT o.kind, o.lane, o.tenant FROM old o) AS o
WHERE (s.kind, s.lane, s.tenant) = (o.kind, o.lane, o.tenant)

-- name: old_series_names
-- For forget_series when it is run in parts.
SELECT s.name AS id FROM ({old_series}) AS s LIMIT 5000
