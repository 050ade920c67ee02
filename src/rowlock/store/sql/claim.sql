-- claim: queued -> running; or parked at a full gate, or put back by a rate. Only statements of this file enter
-- `running`.

-- fragment: claimed_columns
-- The name of the step is looked up for steps only; a plain job pays for two NULLs in the answer.
j.id, j.fence, j.kind, j.args, j.attempt, j.max_attempts, j.priority, j.share, j.run_after, j.lane, j.gate_place,
j.losses, j.deaths, j.refunds, j.runs_before, j.errors -> 'unreadable' AS unread, j.created_at, j.claimed_at, j.claimed_by, j.tenant,
j.submitted_by, j.gate_key, j.tags, j.refs, j.meta, j.rate_keys, j.workflow_id,
CASE WHEN j.workflow_id IS NOT NULL THEN (SELECT s.name FROM {schema}.workflow_steps s WHERE s.job_id = j.id) END AS step

-- fragment: for_me
-- A worker whose code could not read a job leaves it to other workers for a moment; else the worker that gave it back,
-- and knows when it is due, would get it again each time. Shorter than the lag of the cursors: a job passed over here
-- is still found later.
(j.errors IS NULL OR j.run_after < statement_timestamp() - interval '3 s'
 OR (j.errors #> '{unreadable,workers}' @> to_jsonb(:worker::bigint)) IS NOT TRUE)

-- fragment: take
-- The one place where a job becomes running. gate_place 2: it got its place while parked; 1: a newcomer, which
-- gate_enter confirms or parks before this statement ends.
UPDATE {schema}.jobs j
SET state = 'running', fence = j.fence + 1, seq = j.seq + 1, attempt = j.attempt + 1, claimed_by = :worker::bigint,
    claimed_at = statement_timestamp(), lane = pick.lane, cancel_requested = false,
    gate_place = CASE WHEN j.gate_key IS NULL THEN 0 ELSE j.gate_place + 1 END
FROM pick
WHERE j.id = pick.id
RETURNING {claimed_columns}

-- fragment: admitted
-- A CTE of its own reads `taken` to its end before admit runs, so the function sees every row that the claim changed.
-- Jobs without gate and rate are not passed to it: if there are only such jobs, it is not called.
admitted AS MATERIALIZED (
  SELECT a.id, a.again_at
  FROM (SELECT array_agg(t.id) AS ids, array_agg(t.fence) AS fences FROM taken t WHERE t.gate_place = 1 OR t.rate_keys IS NOT NULL) AS n
  CROSS JOIN LATERAL {schema}.admit(n.ids, n.fences) AS a
  WHERE n.ids IS NOT NULL)

-- fragment: may_run
((t.gate_place <> 1 AND t.rate_keys IS NULL) OR t.id IN (SELECT a.id FROM admitted a WHERE a.again_at IS NULL))

-- fragment: claimed
-- Rows that were parked at their gate, or put back by their rate, are answered too, marked. again_at: when the first
-- hundred of those put back are due, so that the worker looks again just then; the same in every row.
SELECT t.*, NOT {may_run} AS parked,
       (SELECT array_agg(a.again_at) FROM (SELECT x.again_at FROM admitted x WHERE x.again_at IS NOT NULL ORDER BY 1 LIMIT 100) AS a)
         AS again_at
FROM taken t

-- fragment: wanted_levels
-- The lanes that want jobs, and the priority levels of each from the highest down.
FROM unnest(:lanes::text[], :free::integer[], :first_levels::integer[], :last_levels::integer[])
  AS l(lane, free, first_level, last_level)
CROSS JOIN LATERAL (
  SELECT k.id
  FROM unnest((:priorities::smallint[])[l.first_level : l.last_level], (:first_pairs::integer[])[l.first_level : l.last_level],
              (:last_pairs::integer[])[l.first_level : l.last_level]) AS level(priority, first_pair, last_pair)

-- fragment: locked_head
-- Locked by id and checked again. The outer LIMIT stops reading here once enough rows are locked.
CROSS JOIN LATERAL (
  SELECT 1 FROM {schema}.jobs j
  WHERE j.id = m.id AND j.state = 'queued' AND j.run_after <= statement_timestamp() AND {for_me}
  FOR NO KEY UPDATE SKIP LOCKED) AS locked

-- fragment: rest_of_pair
-- The jobs of a pair from a position on: behind its last merged head, or from the worker's cursor.
CROSS JOIN LATERAL (
  SELECT j.id FROM {schema}.jobs j
  WHERE j.state = 'queued' AND j.kind = place.kind AND j.priority = place.priority AND j.share = place.share
    AND (j.run_after, j.id) > (place.lo, place.last_id) AND j.run_after <= statement_timestamp() AND {for_me}
  ORDER BY j.run_after, j.id
  LIMIT l.free
  FOR NO KEY UPDATE SKIP LOCKED) AS r

-- name: claim
-- One claim for several lanes. Per lane, from the highest priority level down:
--   heads  the first `take` rows of every pair of the level, read without locking through jobs_claim
--   merge  those heads sorted by (run_after, id) across kinds, each locked by id with SKIP LOCKED and checked again;
--          LIMIT stops after `free`, so never more rows are locked than are wanted
--   rest   only if the lane still wants rows: continue after the last row read of each pair that returned as many rows as
--          requested. This keeps a level from being left half full (a lower priority would overtake) while others hold the heads.
-- `take` decides price and exactness: take >= free is exact order across kinds ("strict"); a smaller one is exact for the
-- merged heads and by pair after them ("fast"); 0 is right when the level has a single pair (its order is exact anyway).
-- `lo` is the worker's cursor: the dead prefix of the index is never read. kind = ANY(...) ORDER BY would sort the backlog.
-- statement_timestamp(), not now(): a careful claim may have waited in its transaction for the lane's row, and jobs that came
-- meanwhile count. Rows parked at a full gate are answered too, marked: fewer rows than wanted must mean an empty queue.
WITH pick AS MATERIALIZED (
  SELECT l.lane, t.id
  {wanted_levels}
    CROSS JOIN LATERAL (
      WITH heads AS MATERIALIZED (
        SELECT p.kind, p.share, p.lo, p.take, h.id, h.run_after
        FROM unnest((:kinds::text[])[level.first_pair : level.last_pair], (:shares::smallint[])[level.first_pair : level.last_pair],
                    (:lows::timestamptz[])[level.first_pair : level.last_pair], (:takes::integer[])[level.first_pair : level.last_pair])
          AS p(kind, share, lo, take)
        LEFT JOIN LATERAL (
          SELECT j.id, j.run_after
          FROM {schema}.jobs j
          WHERE j.state = 'queued' AND j.kind = p.kind AND j.priority = level.priority AND j.share = p.share
            AND j.run_after >= p.lo AND j.run_after <= statement_timestamp()
          ORDER BY j.run_after, j.id
          LIMIT p.take) AS h ON p.take > 0)
      SELECT m.id
      FROM (SELECT h.id FROM heads h WHERE h.id IS NOT NULL ORDER BY h.run_after, h.id) AS m
      {locked_head}
      UNION ALL
      SELECT r.id
      FROM (SELECT h.kind, level.priority, h.share, coalesce(max(h.run_after), h.lo) AS lo,
                   coalesce((array_agg(h.id ORDER BY h.run_after DESC, h.id DESC))[1], 0) AS last_id
            FROM heads h GROUP BY h.kind, h.share, h.lo, h.take
            HAVING count(h.id) = h.take
            ORDER BY 4) AS place
      {rest_of_pair}) AS k
    LIMIT l.free) AS t),
taken AS ({take}),
{admitted}
{claimed}

-- name: claim_pairs
-- `claim` without heads to merge: from each lane one pair after the other, in the given order, until it has what it
-- wants. Exact where a lane has a single pair to look at, which is the usual case while there is little to do: a plan
-- of half the size starts 0.15 ms sooner. It also suits a lane full of jobs of many kinds: no row is read that is not
-- taken.
WITH pick AS MATERIALIZED (
  SELECT l.lane, t.id
  FROM unnest(:lanes::text[], :free::integer[], :first_pairs::integer[], :last_pairs::integer[]) AS l(lane, free, first_pair, last_pair)
  CROSS JOIN LATERAL (
    SELECT r.id
    FROM unnest((:kinds::text[])[l.first_pair : l.last_pair], (:priorities::smallint[])[l.first_pair : l.last_pair],
                (:shares::smallint[])[l.first_pair : l.last_pair], (:lows::timestamptz[])[l.first_pair : l.last_pair])
      AS p(kind, priority, share, lo)
    CROSS JOIN LATERAL (SELECT p.kind, p.priority, p.share, p.lo, 0 AS last_id) AS place
    {rest_of_pair}
    LIMIT l.free) AS t),
taken AS ({take}),
{admitted}
{claimed}

-- name: claim_fair
-- `claim` for fair lanes: the heads of a level by turns instead of by age. A pair's turn is its debt (what this worker
-- gave it beyond the pair it gave least) plus the rank of the head within the pair. A statement of its own, so that
-- other lanes do not pay for the ranks.
WITH pick AS MATERIALIZED (
  SELECT l.lane, t.id
  {wanted_levels}
    CROSS JOIN LATERAL (
      WITH heads AS MATERIALIZED (
        SELECT p.kind, p.share, p.lo, p.take, p.debt, h.id, h.run_after, h.rank
        FROM unnest((:kinds::text[])[level.first_pair : level.last_pair], (:shares::smallint[])[level.first_pair : level.last_pair],
                    (:lows::timestamptz[])[level.first_pair : level.last_pair], (:takes::integer[])[level.first_pair : level.last_pair],
                    (:debts::float8[])[level.first_pair : level.last_pair])
          AS p(kind, share, lo, take, debt)
        LEFT JOIN LATERAL (
          SELECT j.id, j.run_after, row_number() OVER (ORDER BY j.run_after, j.id) AS rank
          FROM {schema}.jobs j
          WHERE j.state = 'queued' AND j.kind = p.kind AND j.priority = level.priority AND j.share = p.share
            AND j.run_after >= p.lo AND j.run_after <= statement_timestamp()
          ORDER BY j.run_after, j.id
          LIMIT p.take) AS h ON p.take > 0)
      SELECT m.id
      FROM (SELECT h.id FROM heads h WHERE h.id IS NOT NULL ORDER BY h.debt + h.rank, h.run_after, h.id) AS m
      {locked_head}
      UNION ALL
      SELECT r.id
      FROM (SELECT h.kind, level.priority, h.share, coalesce(max(h.run_after), h.lo) AS lo,
                   coalesce((array_agg(h.id ORDER BY h.rank DESC))[1], 0) AS last_id
            FROM heads h GROUP BY h.kind, h.share, h.lo, h.take, h.debt
            HAVING count(h.id) = h.take
            ORDER BY h.debt + h.take, 4) AS place
      {rest_of_pair}) AS k
    LIMIT l.free) AS t),
taken AS ({take}),
{admitted}
{claimed}

-- name: claim_ids
-- Jobs named by id (run-job, or a carrier's delivery): the same guard and effect as `claim`. The caller checks that the
-- lane is enabled.
WITH pick AS MATERIALIZED (
  SELECT j.id, :lane::text AS lane FROM {schema}.jobs j
  WHERE j.id = ANY (:ids::bigint[]) AND j.state = 'queued' AND j.run_after <= statement_timestamp()
  ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED),
taken AS ({take}),
{admitted}
{claimed}

-- name: claim_heads
-- After a claim has failed because of one of its rows: the ids that it would take from the pairs of one lane, read
-- without locking. They are claimed by id, in halves, until the row that is to blame is alone; it is passed over from
-- then on. The order is that of `claim`, without the turns of fair lanes.
SELECT h.id
FROM unnest(:kinds::text[], :priorities::smallint[], :shares::smallint[], :lows::timestamptz[]) AS p(kind, priority, share, lo)
CROSS JOIN LATERAL (
  SELECT j.id, j.run_after FROM {schema}.jobs j
  WHERE j.state = 'queued' AND j.kind = p.kind AND j.priority = p.priority AND j.share = p.share
    AND j.run_after >= p.lo AND j.run_after <= statement_timestamp() AND {for_me} AND NOT (j.id = ANY (:passed_over::bigint[]))
  ORDER BY j.run_after, j.id LIMIT :most::integer) AS h
ORDER BY p.priority DESC, h.run_after, h.id LIMIT :most::integer

-- name: claim_released
-- Steps that this process has just released: the same guard and effect as `claim`. They overtake jobs of their own
-- priority, which is the purpose of a chain, but none of a higher one: the pairs above theirs are looked at first, from
-- the worker's cursors on.
WITH pick AS MATERIALIZED (
  SELECT j.id, :lane::text AS lane FROM {schema}.jobs j
  WHERE j.id = ANY (:ids::bigint[]) AND j.state = 'queued' AND j.run_after <= statement_timestamp()
    AND NOT EXISTS (
      SELECT 1 FROM unnest(:kinds::text[], :priorities::smallint[], :shares::smallint[], :lows::timestamptz[]) AS p(kind, priority, share, lo)
      CROSS JOIN LATERAL (
        SELECT 1 FROM {schema}.jobs h
        WHERE h.state = 'queued' AND h.kind = p.kind AND h.priority = p.priority AND h.share = p.share
          AND h.run_after >= p.lo AND h.run_after <= statement_timestamp()
        ORDER BY h.run_after, h.id LIMIT 1) AS ahead
      WHERE p.priority > j.priority)
  ORDER BY j.id LIMIT :free::integer FOR NO KEY UPDATE SKIP LOCKED),
taken AS ({take}),
{admitted}
SELECT t.*, NOT {may_run} AS parked FROM taken t

-- name: lock_lanes
-- Strict lanes only, before their claim: without this row lock, uncommitted claims of other workers hide heads, and the
-- order over all workers would not be exact. Locked before any job row; claims never wait for job rows, so there is no
-- cycle.
SELECT l.name FROM {schema}.lanes l WHERE l.name = ANY (:lanes::text[]) ORDER BY l.name FOR UPDATE

-- name: cap_enter
-- Lanes with max_total only, before their claim: locks the cap and answers how many jobs may still start.
WITH locked AS MATERIALIZED (
  SELECT g.key, g.max_running - g.held AS room FROM {schema}.gates g
  WHERE g.key IN (SELECT 'lane:' || l FROM unnest(:lanes::text[]) l) ORDER BY g.key FOR UPDATE)
SELECT d.lane, greatest(0, least(d.free, coalesce(locked.room, d.free))) AS free
FROM unnest(:lanes::text[], :free::integer[]) AS d(lane, free) LEFT JOIN locked ON locked.key = 'lane:' || d.lane

-- name: cap_taken
-- In the claim's transaction, while the cap is still locked.
UPDATE {schema}.gates g SET held = g.held + d.n
FROM (SELECT 'lane:' || l AS key, count(*)::integer AS n FROM unnest(:lanes::text[]) l GROUP BY l) AS d
WHERE g.key = d.key

-- name: register_pairs
-- On a connection of the library's own: in users' transactions the upsert would make them wait for each other. At most
-- one write an hour per pair. Returns the pairs that no worker can know yet (an inserted row has no xmax).
WITH registered AS (
  INSERT INTO {schema}.pairs AS p (kind, priority, share)
  SELECT d.kind, d.priority, d.share FROM unnest(:kinds::text[], :priorities::smallint[], :shares::smallint[]) AS d(kind, priority, share)
  ORDER BY 1, 2, 3
  ON CONFLICT (kind, priority, share) DO UPDATE SET last_seen = clock_timestamp()
  WHERE p.last_seen < clock_timestamp() - interval '1 hour'
  RETURNING p.kind, p.priority, p.share, p.xmax::text = '0' AS is_new)
SELECT r.kind, r.priority, r.share FROM registered r WHERE r.is_new

-- name: pairs
-- Which pairs to probe, and from where: read at start, after each sweep and after a LISTEN reconnect. A head in the
-- future says nothing about jobs enqueued after the sweep: it is a moment to look again, not a position to start from.
SELECT p.kind, p.priority, p.share, p.low_water AS next_at, CASE WHEN p.low_water <= now() THEN p.low_water END AS low_water
FROM {schema}.pairs p WHERE p.kind = ANY (:kinds::text[])

-- name: job_kind
-- For a claim by id: whether this worker has code for the job, and whether it has read the lanes as they are now.
SELECT j.kind, {lanes_version} AS lanes_version FROM {schema}.jobs j WHERE j.id = :id::bigint
