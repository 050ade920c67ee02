-- What operators look at: one view per number, read by app.stats, the command line, REST, Prometheus and any SQL client alike.
-- Every view is bounded: it walks the index that holds just its rows, and a count stops one row beyond a fixed cap. They run
-- with the rights of their owner, so SELECT on a view suffices; none shows arguments or results.
-- Two settings of the session choose what views without parameters cannot: rowlock.within (which ends count) and
-- rowlock.slow_after (how long a slow job has been running).
-- For code made for version 2 or later.

-- Pending jobs by when they must be answered. The column came with the step before: an index is built ahead of its step.
CREATE INDEX CONCURRENTLY jobs_answer_by ON {schema}.jobs (answer_by) WHERE answer_by IS NOT NULL AND state = 'pending';

-- 1. Right now --------------------------------------------------------------------------------------------------------
-- The limit is for the day somebody gives a lane a hundred thousand slots. Progress of an earlier attempt is not this one's.
CREATE VIEW {schema}.stats_running AS
SELECT j.id, j.kind, j.lane, j.tenant, j.submitted_by, j.attempt, j.claimed_by AS worker_id, w.name AS worker,
       coalesce(w.seen_at < clock_timestamp() - interval '15 s', true) AS worker_silent,
       j.claimed_at AS since, clock_timestamp() - j.claimed_at AS running_for, j.cancel_requested,
       p.phase, (p.progress ->> 'done')::double precision AS done, (p.progress ->> 'total')::double precision AS total,
       p.progress, p.reported_at, p.n AS report, p.phases, p.items_in_progress, p.items_completed, p.items_skipped, p.items_failed,
       j.refs, j.tags
FROM (SELECT r.id, r.fence, r.kind, r.lane, r.tenant, r.submitted_by, r.attempt, r.claimed_by, r.claimed_at, r.cancel_requested,
             r.refs, r.tags
      FROM {schema}.jobs r WHERE r.state = 'running' ORDER BY r.claimed_by, r.id LIMIT 20000) AS j
LEFT JOIN {schema}.workers w ON w.id = j.claimed_by
LEFT JOIN {schema}.job_progress p ON p.job_id = j.id AND p.fence = j.fence;

CREATE VIEW {schema}.stats_slow AS
SELECT r.id, r.kind, r.lane, r.tenant, r.submitted_by, r.attempt, r.worker_id, r.worker, r.worker_silent, r.since, r.running_for,
       r.cancel_requested, r.phase, r.done, r.total, r.progress, r.reported_at, r.report, r.phases, r.items_in_progress,
       r.items_completed, r.items_skipped, r.items_failed, r.refs, r.tags
FROM {schema}.stats_running r
WHERE r.running_for > coalesce(nullif(current_setting('rowlock.slow_after', true), ''), '10 min')::interval;

-- Of what runs, by what it was enqueued for: the references are on the row, so job_refs with its whole history is not read.
CREATE VIEW {schema}.stats_references AS
SELECT e.name, e.value, r.phase, r.kind, count(*) AS running, max(r.running_for) AS longest
FROM {schema}.stats_running r
CROSS JOIN LATERAL (
  SELECT x.key AS name, x.value FROM jsonb_each_text(r.refs) AS x WHERE x.value IS NOT NULL
  UNION SELECT 'tag', t FROM unnest(r.tags) AS t) AS e
GROUP BY e.name, e.value, r.phase, r.kind;

-- The head of every (kind, priority, share) by a loose scan of the claim index, then what is due and what is not behind each.
-- The caps of all of them together stay below a fixed sum, however many there are. A lane serves the kinds it names, the hooks
-- of those, and with '*' the rest; if two name one kind, the first by name has it, as workers decide.
CREATE VIEW {schema}.stats_backlog AS
WITH RECURSIVE h AS (
  (SELECT j.kind, j.priority, j.share, j.run_after, j.id FROM {schema}.jobs j WHERE j.state = 'queued'
    ORDER BY j.kind, j.priority DESC, j.share, j.run_after, j.id LIMIT 1)
  UNION ALL
  SELECT n.kind, n.priority, n.share, n.run_after, n.id FROM h CROSS JOIN LATERAL (
    (SELECT j.kind, j.priority, j.share, j.run_after, j.id FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind = h.kind AND j.priority = h.priority AND j.share > h.share
      ORDER BY j.share, j.run_after, j.id LIMIT 1)
    UNION ALL
    (SELECT j.kind, j.priority, j.share, j.run_after, j.id FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind = h.kind AND j.priority < h.priority
      ORDER BY j.priority DESC, j.share, j.run_after, j.id LIMIT 1)
    UNION ALL
    (SELECT j.kind, j.priority, j.share, j.run_after, j.id FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind > h.kind
      ORDER BY j.kind, j.priority DESC, j.share, j.run_after, j.id LIMIT 1)
    LIMIT 1) AS n),
pair AS MATERIALIZED (SELECT h.kind, h.priority, h.share, h.run_after, h.id FROM h LIMIT 2000),
most AS MATERIALIZED (SELECT least(1000, greatest(10, 20000 / greatest(1, count(*))))::integer AS cap FROM pair),
clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
depth AS MATERIALIZED (
  SELECT p.kind, sum(least(due.n, m.cap))::bigint AS due, bool_or(due.n > m.cap) AS due_capped,
         sum(least(later.n, m.cap))::bigint AS scheduled, bool_or(later.n > m.cap) AS scheduled_capped,
         min(c.now) AS now, min(p.run_after) AS head, (array_agg(p.id ORDER BY p.run_after, p.id))[1] AS head_id
  FROM pair p CROSS JOIN most m CROSS JOIN clock c
  CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
      SELECT 1 FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind = p.kind AND j.priority = p.priority AND j.share = p.share AND j.run_after <= c.now
      ORDER BY j.run_after, j.id LIMIT m.cap + 1) AS x) AS due
  CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
      SELECT 1 FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind = p.kind AND j.priority = p.priority AND j.share = p.share AND j.run_after > c.now
      ORDER BY j.run_after, j.id LIMIT m.cap + 1) AS x) AS later
  GROUP BY p.kind),
owner AS MATERIALIZED (
  SELECT DISTINCT ON (k.kind) k.kind, l.name AS lane FROM {schema}.lanes l CROSS JOIN LATERAL unnest(l.kinds) AS k(kind)
  ORDER BY k.kind, l.name COLLATE "C")
SELECT d.kind, coalesce(own.lane, hooked.lane, rest.lane) AS lane, d.due, d.due_capped, d.scheduled, d.scheduled_capped,
       CASE WHEN d.head <= d.now THEN d.now - d.head END AS oldest_wait, CASE WHEN d.head <= d.now THEN d.head_id END AS oldest_id
FROM depth d
LEFT JOIN owner own ON own.kind = d.kind
LEFT JOIN owner hooked ON hooked.kind = regexp_replace(d.kind, '/(on_success|on_failure|on_exhausted)$', '')
LEFT JOIN owner rest ON rest.kind = '*';

-- slots: of the workers that beat and were not told to leave; a worker's own number counts before the lane's.
CREATE VIEW {schema}.stats_lanes AS
WITH waiting AS MATERIALIZED (
  SELECT b.lane, sum(b.due)::bigint AS due, bool_or(b.due_capped) AS due_capped, sum(b.scheduled)::bigint AS scheduled,
         bool_or(b.scheduled_capped) AS scheduled_capped, max(b.oldest_wait) AS oldest_wait
  FROM {schema}.stats_backlog b GROUP BY b.lane),
busy AS MATERIALIZED (
  SELECT r.lane, count(*) AS running
  FROM (SELECT j.lane FROM {schema}.jobs j WHERE j.state = 'running' ORDER BY j.claimed_by, j.id LIMIT 20000) AS r
  GROUP BY r.lane)
SELECT l.name AS lane, l.enabled, coalesce(busy.running, 0) AS running, s.slots, s.workers,
       coalesce(w.due, 0) AS due, coalesce(w.due_capped, false) AS due_capped, coalesce(w.scheduled, 0) AS scheduled,
       coalesce(w.scheduled_capped, false) AS scheduled_capped, w.oldest_wait
FROM {schema}.lanes l
LEFT JOIN waiting w ON w.lane = l.name
LEFT JOIN busy ON busy.lane = l.name
CROSS JOIN LATERAL (
  SELECT coalesce(sum(coalesce((x.slots ->> l.name)::integer, l.slots)), 0)::bigint AS slots, count(*) AS workers
  FROM {schema}.workers x
  WHERE x.state = 'up' AND x.told IS NULL AND x.seen_at >= clock_timestamp() - interval '15 s'
    AND (x.lanes IS NULL OR l.name = ANY (x.lanes))) AS s;

-- Jobs parked at gates, head by head; more: there may be others. All that is blocked is in a view of its own: what else a job can
-- wait for comes with later steps, which replace it.
CREATE VIEW {schema}.stats_parked AS
WITH RECURSIVE gate AS (
  (SELECT j.gate_key, j.gate_place FROM {schema}.jobs j WHERE j.gate_key IS NOT NULL AND j.finished_at IS NULL
    ORDER BY j.gate_key, j.gate_place, j.priority DESC, j.run_after, j.id LIMIT 1)
  UNION ALL
  SELECT n.gate_key, n.gate_place FROM gate CROSS JOIN LATERAL (
    SELECT j.gate_key, j.gate_place FROM {schema}.jobs j WHERE j.gate_key > gate.gate_key AND j.finished_at IS NULL
    ORDER BY j.gate_key, j.gate_place, j.priority DESC, j.run_after, j.id LIMIT 1) AS n),
seen AS MATERIALIZED (SELECT gate.gate_key, gate.gate_place FROM gate LIMIT 2000)
SELECT count(*) AS n, (SELECT count(*) FROM seen) >= 2000 AS more FROM (
  SELECT 1 FROM seen s CROSS JOIN LATERAL (
    SELECT 1 FROM {schema}.jobs j WHERE j.gate_key = s.gate_key AND j.gate_place = -1 AND j.finished_at IS NULL
    ORDER BY j.priority DESC, j.run_after, j.id LIMIT 1001) AS parked
  WHERE s.gate_place = -1 LIMIT 1001) AS x;
CREATE VIEW {schema}.stats_blocked AS SELECT p.n, p.more FROM {schema}.stats_parked p;

-- Each order is that of the partial index which holds just these rows, so that no plan reads the history to find them. Queued
-- ones are counted head by head: in one go, a planner that believes them few would sort the whole backlog.
CREATE VIEW {schema}.stats_states AS
WITH RECURSIVE h AS (
  (SELECT j.kind, j.priority, j.share FROM {schema}.jobs j WHERE j.state = 'queued'
    ORDER BY j.kind, j.priority DESC, j.share, j.run_after, j.id LIMIT 1)
  UNION ALL
  SELECT n.kind, n.priority, n.share FROM h CROSS JOIN LATERAL (
    (SELECT j.kind, j.priority, j.share FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind = h.kind AND j.priority = h.priority AND j.share > h.share
      ORDER BY j.share, j.run_after, j.id LIMIT 1)
    UNION ALL
    (SELECT j.kind, j.priority, j.share FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind = h.kind AND j.priority < h.priority
      ORDER BY j.priority DESC, j.share, j.run_after, j.id LIMIT 1)
    UNION ALL
    (SELECT j.kind, j.priority, j.share FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind > h.kind
      ORDER BY j.kind, j.priority DESC, j.share, j.run_after, j.id LIMIT 1)
    LIMIT 1) AS n),
counted (state, n, more) AS (
  SELECT 'pending', count(*), false FROM (
    SELECT 1 FROM {schema}.jobs j WHERE j.state = 'pending' ORDER BY j.id LIMIT 1001) AS x
  UNION ALL
  SELECT 'blocked', b.n, b.more FROM {schema}.stats_blocked b
  UNION ALL
  SELECT 'queued', count(*), false FROM (
    SELECT 1 FROM h CROSS JOIN LATERAL (
      SELECT 1 FROM {schema}.jobs j
      WHERE j.state = 'queued' AND j.kind = h.kind AND j.priority = h.priority AND j.share = h.share
      ORDER BY j.run_after, j.id LIMIT 1001) AS q
    LIMIT 1001) AS x
  UNION ALL
  SELECT 'running', count(*), false FROM (
    SELECT 1 FROM {schema}.jobs j WHERE j.state = 'running' ORDER BY j.claimed_by, j.id LIMIT 1001) AS x
  UNION ALL
  SELECT 'failed', count(*), false FROM (
    SELECT 1 FROM {schema}.jobs j WHERE j.state = 'failed' ORDER BY j.id DESC LIMIT 1001) AS x)
SELECT c.state, least(c.n, 1000) AS jobs, c.n > 1000 OR c.more AS capped FROM counted c;

-- 2. Within the window ------------------------------------------------------------------------------------------------
-- The newest ends, at most 5,001. The bound is a subquery: as a volatile expression it would be a filter, and the walk would
-- go on through the whole history. The upper bound is for the planner: of a range it expects few rows, also without
-- statistics, and takes the index; of an open one it expects a third of the table and may sort it.
CREATE VIEW {schema}.stats_ends AS
SELECT j.id, j.kind, j.tenant, j.state, j.finished_at, j.finished_at - j.claimed_at AS ran
FROM {schema}.jobs j
WHERE j.finished_at < 'infinity' AND j.finished_at > (
  SELECT clock_timestamp() - coalesce(nullif(current_setting('rowlock.within', true), ''), '1 hour')::interval)
ORDER BY j.finished_at DESC LIMIT 5001;


CREATE VIEW {schema}.stats_ended AS
WITH e AS MATERIALIZED (SELECT x.state FROM {schema}.stats_ends x)
SELECT s.state, count(e.state) AS ended, (SELECT count(*) FROM e) > 5000 AS capped
FROM unnest(ARRAY['completed', 'completed_with_errors', 'failed', 'cancelled', 'expired']) AS s(state)
LEFT JOIN e ON e.state = s.state GROUP BY s.state;

-- What failed last is read for each kind that has any failure.
CREATE VIEW {schema}.stats_failures AS
WITH e AS MATERIALIZED (SELECT x.id, x.kind, x.state, x.finished_at FROM {schema}.stats_ends x),
by_kind AS (
  SELECT e.kind, count(*) AS ended, count(*) FILTER (WHERE e.state = 'failed') AS failed FROM e GROUP BY e.kind),
last AS (
  SELECT DISTINCT ON (e.kind) e.kind, e.id FROM e WHERE e.state = 'failed' ORDER BY e.kind, e.finished_at DESC, e.id DESC)
SELECT b.kind, b.ended, b.failed, (SELECT count(*) FROM e) > 5000 AS capped, b.failed::double precision / b.ended AS rate,
       l.id AS last_failed_id, j.finished_at AS last_failed_at, j.errors AS last_error
FROM by_kind b LEFT JOIN last l ON l.kind = b.kind LEFT JOIN {schema}.jobs j ON j.id = l.id;

-- counted_for: the window, or the part of it that the newest 5,001 ends cover.
CREATE VIEW {schema}.stats_tenants AS
WITH e AS MATERIALIZED (SELECT x.tenant, x.state, x.finished_at FROM {schema}.stats_ends x),
spanned AS MATERIALIZED (
  SELECT count(*) > 5000 AS capped,
         CASE WHEN count(*) > 5000 THEN clock_timestamp() - min(e.finished_at)
              ELSE coalesce(nullif(current_setting('rowlock.within', true), ''), '1 hour')::interval END AS counted_for
  FROM e)
SELECT e.tenant, count(*) AS ended, count(*) FILTER (WHERE e.state = 'failed') AS failed, s.capped, s.counted_for,
       count(*) / greatest(extract(epoch FROM s.counted_for)::double precision, 0.001) AS per_second
FROM e CROSS JOIN spanned s GROUP BY e.tenant, s.capped, s.counted_for;

-- Counted in the index alone, so further than the others; by default the last five minutes.
CREATE VIEW {schema}.stats_throughput AS
SELECT least(t.n, 20000) AS ended, t.n > 20000 AS capped, t.counted_for,
       least(t.n, 20000) / greatest(extract(epoch FROM t.counted_for)::double precision, 0.001) AS per_second
FROM (
  SELECT count(*) AS n,
         CASE WHEN count(*) > 20000 THEN clock_timestamp() - min(x.finished_at)
              ELSE coalesce(nullif(current_setting('rowlock.within', true), ''), '5 min')::interval END AS counted_for
  FROM (SELECT j.finished_at FROM {schema}.jobs j
        WHERE j.finished_at < 'infinity' AND j.finished_at > (
          SELECT clock_timestamp() - coalesce(nullif(current_setting('rowlock.within', true), ''), '5 min')::interval)
        ORDER BY j.finished_at DESC LIMIT 20001) AS x) AS t;
