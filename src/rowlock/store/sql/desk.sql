-- desk: why a job is not running, and how much there is to do. Every read has a limit and is served by an index: a
-- count stops one row beyond its cap, and nothing here reads the whole backlog or history.

-- fragment: progress_anyhow
p.n AS report, to_jsonb(p) ->> 'phases' AS phases, (to_jsonb(p) ->> 'items_in_progress')::integer AS items_in_progress,
(to_jsonb(p) ->> 'items_completed')::integer AS items_completed, (to_jsonb(p) ->> 'items_skipped')::integer AS items_skipped,
(to_jsonb(p) ->> 'items_failed')::integer AS items_failed

-- name: explain_job
-- to_jsonb: columns that later migrations add may be missing while the schema is behind, and that is one of the
-- answers.
SELECT {job_row}, (to_jsonb(j) ->> 'runs_before')::integer AS runs_before, (to_jsonb(j) ->> 'workflow_id')::bigint AS workflow_id, NULL::text AS step, NULL::text AS backend_job_id, j.gate_place, ARRAY(SELECT jsonb_array_elements_text(nullif(to_jsonb(j) -> 'approvers', 'null'))) AS approvers,
       ARRAY(SELECT DISTINCT c.by_whom FROM {schema}.job_acts c
             WHERE c.job_id = j.id AND c.verb = 'edit' AND c.detail ? 'args' AND c.by_whom IS NOT NULL ORDER BY 1) AS editors,
       (to_jsonb(j) ->> 'answer_by')::timestamptz AS answer_by,
       ARRAY(SELECT jsonb_array_elements_text(nullif(to_jsonb(j) -> 'rate_keys', 'null'))) AS rate_keys,
       coalesce((to_jsonb(j) ->> 'rate_turn')::boolean, false) AS rate_turn, {progress_anyhow}, clock_timestamp() AS now, w.seen_at AS worker_seen_at, w.state AS worker_state,
       (SELECT max(m.version) FROM {schema}.migrations m) AS version, (SELECT max(m.version) - 1 FROM {schema}.migrations m) AS since,
       to_regclass('{schema}.schema_steps') IS NOT NULL AS has_steps, to_regclass('{schema}.job_deliveries') IS NOT NULL AS has_deliveries,
       last.outcome AS last_outcome, last.ended_at AS last_ended_at, last.error AS last_error,
       act.verb AS act_verb, act.by_whom AS act_by, act.note AS act_note, act.at AS act_at,
       g.max_running, g.held, g.fifo, k.on_worker_lost, (to_jsonb(k) ->> 'own_approval')::boolean AS own_approval
FROM {job_sources}
LEFT JOIN LATERAL (
  SELECT a.outcome, a.ended_at, a.error FROM {schema}.job_attempts a
  WHERE a.job_id = j.id ORDER BY a.fence DESC LIMIT 1) AS last ON true
LEFT JOIN LATERAL (
  SELECT c.verb, c.by_whom, c.note, c.at FROM {schema}.job_acts c WHERE c.job_id = j.id ORDER BY c.id DESC LIMIT 1) AS act ON true
LEFT JOIN {schema}.gates g ON g.key = j.gate_key
LEFT JOIN {schema}.kinds k ON k.name = j.kind
WHERE j.id = :id::bigint AND {visible}

-- name: schema_standing
-- The version of the tables, and the oldest code that runs on them. Where this ledger is missing, explain_job has said
-- so.
SELECT max(s.version) AS version, max(coalesce(s.compatible_since, s.version - 1)) AS since FROM {schema}.schema_steps s

-- name: gate_holders
-- The jobs with a place at a gate: running ones, and those that got a place and are about to start.
SELECT h.id, h.kind, h.state, h.claimed_at, w.name AS worker
FROM (SELECT j.id, j.kind, j.state, j.claimed_at, j.claimed_by FROM {schema}.jobs j
      WHERE j.gate_key = :key::text AND j.gate_place > 0 AND j.finished_at IS NULL AND {visible}
      ORDER BY j.gate_key, j.gate_place, j.priority DESC, j.run_after, j.id LIMIT 100) AS h
LEFT JOIN {schema}.workers w ON w.id = h.claimed_by AND h.state = 'running'
ORDER BY h.claimed_at NULLS LAST, h.id LIMIT :n::integer

-- name: gate_ahead
-- Parked jobs that get a place before this one. Two ranges, since one over (priority DESC, run_after) would read all of
-- them.
SELECT count(*) AS n FROM (
  (SELECT 1 FROM {schema}.jobs j
    WHERE j.gate_key = :key::text AND j.gate_place = -1 AND j.finished_at IS NULL AND j.priority > :priority::smallint
    ORDER BY j.priority DESC, j.run_after, j.id LIMIT :cap::integer)
  UNION ALL
  (SELECT 1 FROM {schema}.jobs j
    WHERE j.gate_key = :key::text AND j.gate_place = -1 AND j.finished_at IS NULL AND j.priority = :priority::smallint
      AND (j.run_after, j.id) < (:run_after::timestamptz, :id::bigint)
    ORDER BY j.run_after, j.id LIMIT :cap::integer)
  LIMIT :cap::integer) AS ahead

-- name: jobs_ahead
-- Due jobs that the lane takes before this one: of a higher priority, or of the same and older. low_water is where a
-- pair begins, except for late commits; a head in the future says nothing about jobs enqueued since.
SELECT count(*) FILTER (WHERE ahead.higher) AS higher, count(*) FILTER (WHERE NOT ahead.higher) AS older
FROM (
  SELECT p.priority > :priority::smallint AS higher
  FROM (SELECT * FROM {schema}.pairs x
        WHERE x.kind = ANY (:kinds::text[]) AND x.priority >= :priority::smallint
        ORDER BY x.kind, x.priority, x.share LIMIT 2000) AS p
  CROSS JOIN LATERAL (
    SELECT CASE WHEN p.low_water <= :now::timestamptz THEN p.low_water - interval '5 s' ELSE '-infinity' END AS low,
           CASE WHEN p.priority > :priority::smallint THEN :now::timestamptz ELSE :run_after::timestamptz END AS high,
           CASE WHEN p.priority > :priority::smallint THEN 9223372036854775807 ELSE :id::bigint END AS last) AS b
  CROSS JOIN LATERAL (
    SELECT 1 FROM {schema}.jobs j
    WHERE j.state = 'queued' AND j.kind = p.kind AND j.priority = p.priority AND j.share = p.share
      AND j.run_after >= b.low AND (j.run_after, j.id) < (b.high, b.last)
    ORDER BY j.run_after, j.id LIMIT :cap::integer) AS q
  LIMIT :cap::integer) AS ahead

-- name: lane_pace
-- Attempts that ended in the lane within ten minutes, and the seconds since the first of them: a lane that has just begun to
-- work is not called slow. The upper bound is for the planner, as in stats_series.
SELECT coalesce(sum(e.n), 0)::bigint AS ended,
       greatest(1, extract(epoch FROM clock_timestamp() - min(e.at)))::double precision AS seconds
FROM (SELECT clock_timestamp() - interval '10 min' AS since OFFSET 0) AS b
CROSS JOIN LATERAL (
  SELECT c.since AS at, c.n FROM {schema}.counts_by_minute c
  WHERE c.since >= b.since AND c.since < 'infinity' AND c.lane = :lane::text AND c.measure = 'run'
  UNION ALL
  SELECT i.at, i.n::bigint FROM {schema}.count_increments i
  WHERE i.at >= b.since AND i.lane = :lane::text AND i.run_bucket IS NOT NULL) AS e

-- fragment: running_rows
-- There are as many running jobs as slots; the limit is for lanes with an absurd number of them.
SELECT r.id, r.fence, r.kind, r.attempt, r.lane, r.tenant, r.submitted_by, r.claimed_by, r.claimed_at, r.cancel_requested,
       r.refs, r.tags
FROM {schema}.jobs r WHERE r.state = 'running' ORDER BY r.claimed_by, r.id LIMIT 20000

-- name: lane_holders
-- Jobs that run in the lane, the longest running first. Not through stats_running: explain also works on a schema that
-- is behind and has no such view. Progress of an earlier attempt does not count.
SELECT j.id, j.kind, j.attempt, j.lane, j.tenant, j.claimed_by AS worker_id, j.claimed_at AS since, j.cancel_requested,
       w.name AS worker, clock_timestamp() - j.claimed_at AS running_for,
       coalesce(w.seen_at < clock_timestamp() - interval '15 s', true) AS worker_silent, p.phase, p.progress, p.reported_at,
       {progress_anyhow}, j.refs, j.tags
FROM (SELECT * FROM ({running_rows}) AS j WHERE j.lane = :lane::text AND {visible}
      ORDER BY j.claimed_at, j.id LIMIT :n::integer) AS j
LEFT JOIN {schema}.workers w ON w.id = j.claimed_by
LEFT JOIN {schema}.job_progress p ON p.job_id = j.id AND p.fence = j.fence
ORDER BY j.claimed_at, j.id

-- name: slot_use
-- Used slots per worker and lane.
SELECT r.claimed_by, r.lane, count(*) AS used FROM ({running_rows}) AS r GROUP BY r.claimed_by, r.lane

-- fragment: queued_heads
-- The first job of every pair, by a loose index scan of the claim index: next share, else next priority, else next
-- kind.
h AS (
  (SELECT j.kind, j.priority, j.share, j.run_after FROM {schema}.jobs j WHERE j.state = 'queued'
    ORDER BY j.kind, j.priority DESC, j.share, j.run_after, j.id LIMIT 1)
  UNION ALL
  SELECT n.kind, n.priority, n.share, n.run_after FROM h CROSS JOIN LATERAL (
    (SELECT j.kind, j.priority, j.share, j.run_after FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind = h.kind AND j.priority = h.priority AND j.share > h.share
      ORDER BY j.share, j.run_after, j.id LIMIT 1)
    UNION ALL
    (SELECT j.kind, j.priority, j.share, j.run_after FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind = h.kind AND j.priority < h.priority
      ORDER BY j.priority DESC, j.share, j.run_after, j.id LIMIT 1)
    UNION ALL
    (SELECT j.kind, j.priority, j.share, j.run_after FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind > h.kind
      ORDER BY j.kind, j.priority DESC, j.share, j.run_after, j.id LIMIT 1)
    LIMIT 1) AS n)

-- fragment: gate_heads
-- The first job of every gate with live jobs. Parked jobs sort first under their gate's key, so it shows whether there
-- are any.
gate AS (
  (SELECT j.gate_key, j.gate_place FROM {schema}.jobs j WHERE j.gate_key IS NOT NULL AND j.finished_at IS NULL
    ORDER BY j.gate_key, j.gate_place, j.priority DESC, j.run_after, j.id LIMIT 1)
  UNION ALL
  SELECT n.gate_key, n.gate_place FROM gate CROSS JOIN LATERAL (
    SELECT j.gate_key, j.gate_place FROM {schema}.jobs j WHERE j.gate_key > gate.gate_key AND j.finished_at IS NULL
    ORDER BY j.gate_key, j.gate_place, j.priority DESC, j.run_after, j.id LIMIT 1) AS n),
seen AS MATERIALIZED (SELECT gate.gate_key, gate.gate_place FROM gate LIMIT 2000)

-- Statistics: the numbers themselves are defined by the views of the schema, for every reader alike. Here they are only chosen
-- and put in order.

-- fragment: stats_running_columns
j.id, j.kind, j.attempt, j.lane, j.tenant, j.worker_id, j.worker, j.worker_silent, j.since, j.running_for, j.cancel_requested,
j.phase, j.progress, j.reported_at, j.report, j.phases, j.items_in_progress, j.items_completed, j.items_skipped, j.items_failed,
j.refs, j.tags

-- name: stats_window
-- Settings for the statements after it in this transaction. No bitmap scans: a planner without statistics expects few
-- rows, and would collect and sort every finished job to find the newest.
SELECT set_config('rowlock.within', (:window::interval)::text, true), set_config('enable_bitmapscan', 'off', true)

-- name: stats_slow_after
-- A setting for stats_slow, as in stats_window.
SELECT set_config('rowlock.slow_after', (:longer_than::interval)::text, true)

-- name: stats_running
-- The longest running jobs first.
SELECT {stats_running_columns} FROM {schema}.stats_running j WHERE {visible} ORDER BY j.since, j.id LIMIT :n::integer

-- name: slot_jobs
-- Every running job for the picture of the slots, with whether the caller may read it: what occupies a slot is shown to
-- all who may see workers, its labels and progress are not.
SELECT {stats_running_columns}, {visible} AS readable FROM {schema}.stats_running j ORDER BY j.since, j.id LIMIT :n::integer

-- name: stats_slow
-- Jobs that run for longer than rowlock.slow_after.
SELECT {stats_running_columns} FROM {schema}.stats_slow j WHERE {visible} ORDER BY j.since, j.id LIMIT :n::integer

-- name: stats_references
-- Running jobs by reference or tag.
SELECT r.name, r.value, r.phase, r.kind, r.running, r.longest FROM {schema}.stats_references r
WHERE (:name::text IS NULL OR r.name = :name::text) AND (:value::text IS NULL OR r.value = :value::text)
  AND (:phase::text IS NULL OR r.phase = :phase::text)
ORDER BY r.running DESC, r.name, r.value, r.phase, r.kind LIMIT :n::integer

-- name: stats_backlog
-- Queued jobs by kind, the longest waiting first.
SELECT b.kind, b.lane, b.due, b.due_capped, b.scheduled, b.scheduled_capped, b.oldest_wait, b.oldest_id
FROM {schema}.stats_backlog b ORDER BY b.oldest_wait DESC NULLS LAST, b.kind

-- name: stats_lanes
-- Load of every lane.
SELECT l.lane, l.running, l.slots, l.workers, l.due, l.due_capped, l.scheduled, l.scheduled_capped, l.oldest_wait
FROM {schema}.stats_lanes l ORDER BY l.lane

-- name: slots_held
-- Slots by lane whose handlers were told to stop and go on, of workers that beat. Nearly always NULL, so no index.
SELECT h.slot ->> 2 AS lane, count(*) AS held
FROM {schema}.workers w CROSS JOIN LATERAL jsonb_array_elements(w.held) AS h(slot)
WHERE w.state <> 'gone' AND w.seen_at > clock_timestamp() - interval '15 s' GROUP BY 1

-- name: stats_states
-- Live jobs and kept failures, by state.
SELECT s.state, s.jobs, s.capped FROM {schema}.stats_states s

-- name: stats_ended
-- Jobs that ended within the window, by state.
SELECT e.state, e.ended, e.capped FROM {schema}.stats_ended e

-- name: stats_failures
-- The last failed job is named only to a caller who may see it.
SELECT f.kind, f.ended, f.failed, f.capped, f.rate, j.id AS last_failed_id, j.finished_at AS last_failed_at, j.errors AS last_error
FROM {schema}.stats_failures f LEFT JOIN {schema}.jobs j ON j.id = f.last_failed_id AND {visible}
ORDER BY f.failed DESC, f.ended DESC, f.kind

-- name: stats_tenants
-- Other tenants are shown only to callers with jobs:read_all.
SELECT t.tenant, t.ended, t.failed, t.capped, t.counted_for, t.per_second FROM {schema}.stats_tenants t
WHERE :sees_all::boolean OR t.tenant = :tenant::text ORDER BY t.ended DESC, t.tenant LIMIT :n::integer

-- name: stats_throughput
-- Ends per second within the window.
SELECT t.ended, t.capped, t.counted_for, t.per_second FROM {schema}.stats_throughput t

-- name: totals_by_kind
-- Counts since the tables have them, without tenants; as many rows as there are series and buckets, whatever the number
-- of jobs.
SELECT t.kind, t.lane, t.outcome, t.state, t.measure, t.bucket, sum(t.n)::bigint AS n, sum(t.seconds) AS seconds
FROM {schema}.stats_totals t GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2

-- name: totals_by_tenant
-- Ended jobs since the tables have counts.
SELECT t.tenant, t.state, sum(t.n)::bigint AS n FROM {schema}.stats_totals t
WHERE t.measure <> 'wait' AND t.state <> '' AND (:sees_all::boolean OR nullif(t.tenant, '') = :tenant::text)
GROUP BY 1, 2 ORDER BY 1, 2

-- name: running_by_kind
-- Running jobs by kind and lane, in the snapshot of the totals: an attempt is in exactly one of the two.
SELECT r.kind, r.lane, count(*) AS n FROM {schema}.jobs r WHERE r.state = 'running' GROUP BY r.kind, r.lane

-- name: series_since
-- The beginning of the first step of a window, by the database's clock. The statements after it in this transaction are
-- planned for their own window: a plan for any window expects a handful of rows, and sorts a day of them.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), date_bin(make_interval(secs => :step::float8), clock_timestamp() - :window::interval, timestamptz 'epoch') AS since,
       clock_timestamp() AS now

-- name: stats_series
-- Counts by step, from the coarsest table whose steps fit: counted is minute, ten_minutes or hour. by: kind, lane or
-- nothing; names beyond the `n` busiest are (other), so that hundreds of kinds are not sent one by one. The upper bound is for the planner,
-- which expects few rows of a range that it cannot know.
WITH c AS MATERIALIZED (
  SELECT date_bin(make_interval(secs => :step::float8), c.since, timestamptz 'epoch') AS at,
         CASE :by::text WHEN 'kind' THEN c.kind WHEN 'lane' THEN c.lane END AS name,
         c.outcome, c.state, c.measure, c.bucket, sum(c.n)::bigint AS n, sum(c.seconds) AS seconds
  FROM {schema}.stats_counts c
  WHERE c.step = :counted::text AND c.since >= :since::timestamptz AND c.since < 'infinity'
    AND (:kind::text IS NULL OR c.kind = :kind::text) AND (:lane::text IS NULL OR c.lane = :lane::text)
  GROUP BY 1, 2, 3, 4, 5, 6),
busiest AS MATERIALIZED (
  SELECT coalesce(c.name, '') AS name FROM c GROUP BY 1
  ORDER BY coalesce(sum(c.n) FILTER (WHERE c.measure <> 'wait'), 0) DESC, 1 LIMIT :n::integer)
SELECT c.at, CASE WHEN b.name IS NULL THEN '(other)' ELSE c.name END AS name, c.outcome, c.state, c.measure, c.bucket,
       sum(c.n)::bigint AS n, sum(c.seconds) AS seconds
FROM c LEFT JOIN busiest b ON b.name = coalesce(c.name, '') GROUP BY 1, 2, 3, 4, 5, 6

-- name: kind_now
-- Running jobs of a kind by their own index, and its last failure that the caller may see, from the failure groups of the
-- kind. The lane is the one that names the kind, else the one that takes the rest.
SELECT (SELECT count(*) FROM {schema}.jobs r WHERE r.state = 'running' AND r.kind = :kind::text) AS running,
       (SELECT l.name FROM {schema}.lanes l WHERE :kind::text = ANY (l.kinds) OR '*' = ANY (l.kinds)
         ORDER BY :kind::text = ANY (l.kinds) DESC, l.name LIMIT 1) AS lane,
       f.id AS last_failed_id, f.finished_at AS last_failed_at, f.errors AS last_error
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
  SELECT j.id, j.finished_at, j.errors FROM (
    SELECT g.last_failed_id AS id, g.last_failed_at AS at FROM {schema}.failure_groups g WHERE g.kind = :kind::text
    UNION ALL
    SELECT i.job_id, i.at FROM {schema}.failure_increments i WHERE i.kind = :kind::text AND i.ended) AS l
  JOIN {schema}.jobs j ON j.id = l.id AND j.state = 'failed'
  WHERE l.at >= :since::timestamptz AND {visible} ORDER BY l.at DESC, l.id DESC LIMIT 1) AS f ON true
