-- stream: what happened to jobs since the last poll of a follower. Nothing is written for it: rows that exist anyway
-- tell it.

-- name: stream_look
-- One statement for all followed jobs of this process, twice a second; answers only those that changed. since: the
-- fence from which a follower wants to know; seq -1: never looked at. A deleted job answers once, with NULLs.
-- MATERIALIZED: two lookups by key for each job, and only changed ones pay for attempts and acts. One statement is one
-- snapshot: the row, its attempts and its acts fit together. The limits are for a job that was snoozed for years.
WITH changed AS MATERIALIZED (
  SELECT w.id AS asked, w.since, j.id, j.kind, j.state, j.fence, j.seq, j.attempt, j.priority, j.lane, j.claimed_by, j.created_at,
         j.run_after, j.claimed_at, j.finished_at,
         jsonb_strip_nulls(jsonb_build_object('reason', j.errors -> 'reason', 'type', j.errors -> 'type',
                                              'message', j.errors -> 'message'))::text AS error,
         p.fence AS reported_fence, p.reported_at, p.phase, p.progress, {progress_counts}
  FROM unnest(:ids::bigint[], :sinces::integer[], :seqs::integer[], :reports::integer[]) AS w(id, since, seq, n)
  LEFT JOIN {schema}.jobs j ON j.id = w.id
  LEFT JOIN {schema}.job_progress p ON p.job_id = w.id
  WHERE j.seq IS DISTINCT FROM w.seq OR p.n IS DISTINCT FROM w.n)
SELECT c.*, v.name AS worker,
       CASE WHEN c.report IS NOT NULL THEN (SELECT max(l.n) FROM {schema}.job_logs l WHERE l.job_id = c.id) END AS line,
       (SELECT json_agg(a ORDER BY a.fence) FROM (
          SELECT t.fence, t.attempt, t.worker_name, t.started_at, t.ended_at, t.outcome,
                 jsonb_build_object('reason', t.error -> 'reason', 'type', t.error -> 'type', 'message', t.error -> 'message',
                                    'signal', t.error -> 'signal') AS error
          FROM {schema}.job_attempts t WHERE t.job_id = c.id AND t.fence >= c.since - 1
          ORDER BY t.fence LIMIT :most::integer) AS a)::text AS attempts,
       (SELECT json_agg(m ORDER BY m.id) FROM (
          SELECT t.id, t.verb, t.at, t.by_whom, t.note, t.detail FROM {schema}.job_acts t
          WHERE t.job_id = c.id AND (t.detail ->> 'fence')::integer BETWEEN c.since AND c.fence
          ORDER BY t.id LIMIT :most::integer) AS m)::text AS acts
FROM changed c LEFT JOIN {schema}.workers v ON v.id = c.claimed_by

-- fragment: row_xid
-- The transaction that wrote this version of row j, with the epoch that its 32 bits lack. Used for recent rows only.
((here.top - (here.top & 4294967295)
  - CASE WHEN j.xmin::text::bigint > (here.top & 4294967295) THEN 4294967296 ELSE 0 END + j.xmin::text::bigint)::text::xid8)

-- name: feed_look
-- Jobs that changed since the look with the snapshot `last_snapshot`. Candidates come from index scans over a short time: new
-- ids, ends, claims, attempts given back, acts of people, and jobs that ran at the last look (`seen`: their end may be
-- written long before it is committed). The scans begin a little before the last look, since commits come late; the
-- snapshot then decides exactly what is new. A row written inside a savepoint carries a transaction id that no snapshot
-- lists: a new job, or one with an act, counts as new while any transaction that was open at the last look may have
-- written it, and the follower remembers what it has reported. No scan is longer than `walk`. A scan that was cut may
-- have missed a change: `cut` says so, whether or not a row is answered. Where there is no index by time, the scan
-- follows the ids down to the first row that is too old; it was cut if even the next row below is not. BETWEEN … AND
-- 'infinity', and ids up to the newest: without statistics the planner expects a range to be short and anything else to
-- be long. Rows older than every transaction that was open at the last look are left out by their age, which is cheap.
-- Found rows are read one by one (LIMIT 1): a planner that expects as many as the bounds allow would read the whole
-- table. scopes: which listeners see the job, by the same rule as `visible`; a job that none of them sees is not sent.
-- There is always a row, with the clock and the snapshot of this very look: what it does not see, the next one will.
-- last_snapshot NULL: nothing is new, only these.
WITH here AS MATERIALIZED (
  SELECT clock_timestamp() AS at, s.now::text AS snapshot, pg_snapshot_xmax(s.now)::text::bigint AS top,
         pg_snapshot_xmin(:last_snapshot::text::pg_snapshot) AS open_then
  FROM (SELECT pg_current_snapshot() AS now) AS s),
newest AS MATERIALIZED (SELECT max(t.id) AS id, max(t.id) - :walk::integer AS too_far FROM {schema}.jobs t),
newest_act AS MATERIALIZED (SELECT max(t.id) AS id, max(t.id) - :walk::integer AS too_far FROM {schema}.job_acts t),
old AS MATERIALIZED (
  SELECT o.id FROM {schema}.jobs o
  WHERE o.created_at < :since::timestamptz AND o.id > (SELECT n.too_far FROM newest n) ORDER BY o.id DESC LIMIT 1),
old_act AS MATERIALIZED (
  SELECT o.id FROM {schema}.job_acts o
  WHERE o.at < :since::timestamptz AND o.id > (SELECT n.too_far FROM newest_act n) ORDER BY o.id DESC LIMIT 1),
created AS MATERIALIZED (
  SELECT j.id, j.xmin AS xid FROM {schema}.jobs j
  WHERE j.id > coalesce((SELECT o.id FROM old o), (SELECT n.too_far FROM newest n)) AND j.id <= (SELECT n.id FROM newest n)
    AND j.created_at >= :since::timestamptz
  ORDER BY j.id DESC LIMIT :walk::integer),
ended AS MATERIALIZED (
  SELECT j.id, j.xmin AS xid FROM {schema}.jobs j
  WHERE j.finished_at BETWEEN :since::timestamptz AND 'infinity' ORDER BY j.finished_at DESC LIMIT :walk::integer),
claimed AS MATERIALIZED (
  SELECT j.id, j.xmin AS xid FROM {schema}.jobs j
  WHERE j.state = 'running' AND j.claimed_at >= :since::timestamptz ORDER BY j.claimed_by, j.id LIMIT :walk::integer),
given_back AS MATERIALIZED (
  SELECT j.job_id AS id, j.xmin AS xid FROM {schema}.job_attempts j
  WHERE j.ended_at BETWEEN :since::timestamptz AND 'infinity' ORDER BY j.ended_at DESC LIMIT :walk::integer),
acted AS MATERIALIZED (
  SELECT j.job_id AS id, j.xmin AS xid FROM {schema}.job_acts j
  WHERE j.id > coalesce((SELECT o.id FROM old_act o), (SELECT n.too_far FROM newest_act n)) AND j.id <= (SELECT n.id FROM newest_act n)
    AND j.at >= :since::timestamptz
  ORDER BY j.id DESC LIMIT :walk::integer),
found AS MATERIALIZED (
  SELECT f.id, bool_or(f.acted) AS acted
  FROM (SELECT w.id, w.xid, false AS acted FROM created w
        UNION ALL SELECT w.id, w.xid, false FROM ended w
        UNION ALL SELECT w.id, w.xid, false FROM claimed w
        UNION ALL SELECT w.id, w.xid, false FROM given_back w
        UNION ALL SELECT w.id, w.xid, true FROM acted w
        UNION ALL SELECT w.id, NULL, false FROM unnest(:seen::bigint[]) AS w(id)) AS f
  WHERE f.xid IS NULL OR age(f.xid) <= (SELECT age(here.open_then::xid) FROM here)
  GROUP BY f.id)
SELECT here.at, here.snapshot, news.*,
       :walk::integer <= ANY (ARRAY[(SELECT count(*) FROM ended), (SELECT count(*) FROM claimed), (SELECT count(*) FROM given_back)])
       OR (NOT EXISTS (SELECT FROM old) AND coalesce((
             SELECT o.created_at >= :since::timestamptz FROM {schema}.jobs o
             WHERE o.id <= (SELECT n.too_far FROM newest n) ORDER BY o.id DESC LIMIT 1), false))
       OR (NOT EXISTS (SELECT FROM old_act) AND coalesce((
             SELECT o.at >= :since::timestamptz FROM {schema}.job_acts o
             WHERE o.id <= (SELECT n.too_far FROM newest_act n) ORDER BY o.id DESC LIMIT 1), false)) AS cut
FROM here
LEFT JOIN (
  SELECT j.id, j.seq, j.fence, j.kind, j.state, j.attempt, j.priority, j.lane, j.tenant, j.run_after, j.created_at, j.claimed_at,
         j.finished_at, v.scopes
  FROM here
  CROSS JOIN found
  CROSS JOIN LATERAL (
    SELECT x.id, x.seq, x.fence, x.kind, x.state, x.attempt, x.priority, x.lane, x.tenant, x.submitted_by, x.run_after,
           x.created_at, x.claimed_at, x.finished_at, x.xmin
    FROM {schema}.jobs x WHERE x.id = found.id LIMIT 1) AS j
  CROSS JOIN LATERAL (SELECT {row_xid} AS xid) AS w
  CROSS JOIN LATERAL (
    SELECT array_agg(s.no) AS scopes
    FROM unnest(:sees_all::boolean[], :tenants::text[], :subjects::text[], :grants::text[])
           WITH ORDINALITY AS s(sees_all, tenant, subject, granted, no)
    CROSS JOIN LATERAL (
      SELECT j.tenant = s.tenant OR (s.tenant IS NULL AND j.tenant IS NULL AND j.submitted_by = s.subject) AS own) AS o
    WHERE CASE WHEN s.granted IS NULL THEN s.sees_all OR o.own
               ELSE EXISTS (SELECT 1 FROM jsonb_to_recordset(s.granted::jsonb) AS g(kind text, lane text, everyone boolean)
                            WHERE j.kind LIKE g.kind AND (g.lane = '%' OR {lane_of_job} LIKE g.lane)
                              AND (g.everyone OR o.own)) END) AS v
  WHERE v.scopes IS NOT NULL
    AND (NOT pg_visible_in_snapshot(w.xid, :last_snapshot::text::pg_snapshot)
         OR ((j.fence = 0 OR found.acted) AND w.xid >= here.open_then))
  LIMIT :n::integer) AS news ON true

-- name: feed_running
-- Where a feed begins: the further life of these jobs is reported although the queue has no index by time.
SELECT r.id FROM {schema}.jobs r WHERE r.state = 'running' ORDER BY r.claimed_by, r.id LIMIT :n::integer
