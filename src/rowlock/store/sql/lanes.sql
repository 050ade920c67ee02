-- lanes: which kinds a lane serves, with how many slots, in which order.

-- fragment: lane_columns
-- to_jsonb: explain also works on a schema that is behind and lacks these columns.
l.name, l.kinds, l.slots, l.max_total, l.ordering, l.poll_every, l.stale_after, l.enabled, l.version, l.updated_at,
(to_jsonb(l) ->> 'stall_after')::interval AS stall_after,
coalesce((to_jsonb(l) ->> 'requires_approval')::boolean, false) AS requires_approval,
nullif(to_jsonb(l) -> 'rate', 'null')::text AS rate, (to_jsonb(l) ->> 'age_every')::interval AS age_every

-- fragment: lanes_version
-- Another number after every edit, so that a worker knows when to read its lanes again.
(SELECT count(*) * 1000000 + coalesce(sum(l.version), 0) FROM {schema}.lanes l)::bigint

-- fragment: unnamed
-- Judged again on the lane's own row after waiting for another worker that does the same at this moment.
NOT (:kind::text = ANY (l.kinds)) AND NOT EXISTS (SELECT 1 FROM {schema}.lanes o WHERE :kind::text = ANY (o.kinds))

-- name: lanes
-- Every lane; there are few.
SELECT {lane_columns} FROM {schema}.lanes l ORDER BY l.name

-- name: lane_add
-- Created if absent; afterwards the row decides. No row: the lane was there already.
INSERT INTO {schema}.lanes AS l (name, kinds, slots, max_total, ordering, poll_every, stale_after, stall_after, requires_approval,
                               rate, age_every)
VALUES (:name::text, :kinds::text[], :slots::integer, :max_total::integer, :ordering::text, :poll_every::interval, :stale_after::interval,
        :stall_after::interval, :requires_approval::boolean, :rate::text::jsonb, :age_every::interval)
ON CONFLICT (name) DO NOTHING
RETURNING {lane_columns}

-- name: lane_hint
-- The decorator's lane= fills the lane once: only a kind that no lane names yet is added, so an operator's move is
-- never undone.
UPDATE {schema}.lanes l SET kinds = l.kinds || :kind::text, version = l.version + 1, updated_at = now()
WHERE l.name = :name::text AND {unnamed}
RETURNING {lane_columns}

-- name: lane_follow
-- A renamed kind goes where its earlier names are, unless a lane names it itself: operators named the one they knew.
UPDATE {schema}.lanes l SET kinds = l.kinds || :kind::text, version = l.version + 1, updated_at = now()
WHERE l.name = (SELECT o.name FROM {schema}.lanes o WHERE o.kinds && :others::text[] ORDER BY o.name LIMIT 1) AND {unnamed}
RETURNING {lane_columns}

-- name: lane_for_change
-- Locked, so that the values that the audit calls `before` are those that the change replaces.
SELECT {lane_columns} FROM {schema}.lanes l WHERE l.name = :name::text FOR UPDATE

-- name: lane_set
-- NULL leaves a value as it is; max_total -1 removes the cap, a stall_after of 0 the limit, a rate of {} the rate, an
-- age_every of 0 the ageing. version NULL: any; else compare-and-set. No row: another version, or nothing would change;
-- then the version stays, and no worker reads its lanes again.
UPDATE {schema}.lanes l
SET kinds = m.kinds, slots = m.slots, max_total = m.max_total, ordering = m.ordering, poll_every = m.poll_every,
    stale_after = m.stale_after, requires_approval = m.requires_approval, stall_after = m.stall_after, enabled = m.enabled,
    rate = m.rate, age_every = m.age_every, version = l.version + 1, updated_at = now()
FROM (
  SELECT o.name, coalesce(:kinds::text[], o.kinds) AS kinds, coalesce(:slots::integer, o.slots) AS slots,
         CASE WHEN :max_total::integer = -1 THEN NULL ELSE coalesce(:max_total::integer, o.max_total) END AS max_total,
         coalesce(:ordering::text, o.ordering) AS ordering, coalesce(:poll_every::interval, o.poll_every) AS poll_every,
         coalesce(:stale_after::interval, o.stale_after) AS stale_after,
         coalesce(:requires_approval::boolean, o.requires_approval) AS requires_approval,
         CASE WHEN :stall_after::interval = '0 s' THEN NULL ELSE coalesce(:stall_after::interval, o.stall_after) END AS stall_after,
         coalesce(:enabled::boolean, o.enabled) AS enabled,
         CASE WHEN :rate::text = '{}' THEN NULL ELSE coalesce(:rate::text::jsonb, o.rate) END AS rate,
         CASE WHEN :age_every::interval = '0 s' THEN NULL ELSE coalesce(:age_every::interval, o.age_every) END AS age_every
  FROM {schema}.lanes o WHERE o.name = :name::text FOR UPDATE) AS m
WHERE l.name = m.name AND (:version::integer IS NULL OR l.version = :version::integer)
  AND (l.kinds, l.slots, l.max_total, l.ordering, l.poll_every, l.stale_after, l.requires_approval, l.stall_after, l.enabled,
       l.rate, l.age_every)
      IS DISTINCT FROM (m.kinds, m.slots, m.max_total, m.ordering, m.poll_every, m.stale_after, m.requires_approval,
                        m.stall_after, m.enabled, m.rate, m.age_every)
RETURNING {lane_columns}

-- name: lane_touch
-- Workers read lanes again when a version moved: so a lane that rests until its rate has room is asked again.
UPDATE {schema}.lanes l SET version = l.version + 1, updated_at = now() WHERE l.name = :name::text

-- name: lane_drop_kinds
-- A kind is in at most one lane: naming it in one removes it from the others. Locked in the order of their names, like
-- lock_lanes.
UPDATE {schema}.lanes l
SET kinds = ARRAY(SELECT k FROM unnest(l.kinds) WITH ORDINALITY AS u(k, n) WHERE NOT (k = ANY (:kinds::text[])) ORDER BY n),
    version = l.version + 1, updated_at = now()
FROM (SELECT o.name FROM {schema}.lanes o WHERE o.name <> :name::text AND o.kinds && :kinds::text[]
      ORDER BY o.name FOR NO KEY UPDATE) AS others
WHERE l.name = others.name
RETURNING l.name

-- name: lane_cap
-- The cap is a gate row; its count starts from what runs now, and the gates duty corrects what was claimed meanwhile.
WITH capped AS (SELECT 'lane:' || l.name AS key, l.name, l.max_total FROM {schema}.lanes l WHERE l.name = :name::text),
gone AS (DELETE FROM {schema}.gates g USING capped c WHERE g.key = c.key AND c.max_total IS NULL)
INSERT INTO {schema}.gates AS g (key, max_running, held)
SELECT c.key, c.max_total, (SELECT count(*) FROM {schema}.jobs j WHERE j.state = 'running' AND j.lane = c.name)
FROM capped c WHERE c.max_total IS NOT NULL
ON CONFLICT (key) DO UPDATE SET max_running = excluded.max_running
RETURNING g.key

-- name: lane_delete
-- Not while jobs run in it: their heartbeat timeout is the lane's.
WITH gone AS (
  DELETE FROM {schema}.lanes l
  WHERE l.name = :name::text AND NOT EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.state = 'running' AND j.lane = l.name)
  RETURNING {lane_columns}),
cap AS (DELETE FROM {schema}.gates g USING gone WHERE g.key = 'lane:' || gone.name),
rate AS (DELETE FROM {schema}.rates r USING gone WHERE r.key = 'lane:' || gone.name)
SELECT * FROM gone

-- name: lane_running
-- Running jobs per lane, through jobs_running, which holds running jobs only.
SELECT j.lane, count(*) AS running FROM {schema}.jobs j WHERE j.state = 'running' GROUP BY j.lane
