-- stream: what happened to jobs since somebody last looked. Nothing is written for it: rows that are there anyway tell it.

-- name: stream_look
-- One statement for every job that is followed in this process, twice a second; it answers only those that changed. `since`:
-- the fence from which a follower wants to be told; -1 as seq: never looked at. A job that is gone answers with NULLs once.
-- MATERIALIZED: two lookups by key for each, and only what changed pays for its attempts and acts. One statement is one
-- snapshot: the row, its attempts and its acts fit together. The limits are for a job that was snoozed for years.
WITH changed AS MATERIALIZED (
  SELECT w.id AS asked, w.since, j.id, j.kind, j.state, j.fence, j.seq, j.attempt, j.priority, j.lane, j.claimed_by, j.created_at,
         j.run_after, j.claimed_at, j.finished_at,
         jsonb_strip_nulls(jsonb_build_object('reason', j.errors -> 'reason', 'type', j.errors -> 'type',
                                              'message', j.errors -> 'message'))::text AS error,
         p.fence AS reported_fence, p.n, p.reported_at, p.phase, p.progress
  FROM unnest(:ids::bigint[], :sinces::integer[], :seqs::integer[], :reports::integer[]) AS w(id, since, seq, n)
  LEFT JOIN {schema}.jobs j ON j.id = w.id
  LEFT JOIN {schema}.job_progress p ON p.job_id = w.id
  WHERE j.seq IS DISTINCT FROM w.seq OR p.n IS DISTINCT FROM w.n)
SELECT c.*, v.name AS worker,
       (SELECT json_agg(a ORDER BY a.fence) FROM (
          SELECT t.fence, t.attempt, t.worker_name, t.started_at, t.ended_at, t.outcome,
                 jsonb_build_object('reason', t.error -> 'reason', 'type', t.error -> 'type', 'message', t.error -> 'message') AS error
          FROM {schema}.job_attempts t WHERE t.job_id = c.id AND t.fence >= c.since - 1
          ORDER BY t.fence LIMIT :most::integer) AS a)::text AS attempts,
       (SELECT json_agg(m ORDER BY m.id) FROM (
          SELECT t.id, t.verb, t.at, t.by_whom, t.note, t.detail FROM {schema}.job_acts t
          WHERE t.job_id = c.id AND (t.detail ->> 'fence')::integer BETWEEN c.since AND c.fence
          ORDER BY t.id LIMIT :most::integer) AS m)::text AS acts
FROM changed c LEFT JOIN {schema}.workers v ON v.id = c.claimed_by
