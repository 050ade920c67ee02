-- lanes and workers: which kinds a lane serves, with how many slots, and which workers are alive.

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

-- name: notify
-- Unlike `wake` also while every worker is busy: for messages that every listener should receive.
SELECT pg_notify(:channel::text, :payload::text) WHERE {room_to_notify}

-- name: register_kinds
-- What upkeep, and a process without its code, must know of a kind; written only when it changed or was not seen for an
-- hour.
INSERT INTO {schema}.kinds AS k (name, on_worker_lost, max_losses, isolates, hooks, defaults)
SELECT d.name, d.on_worker_lost, d.max_losses, d.isolates, d.hooks, d.defaults
FROM unnest(:names::text[], :on_worker_lost::text[], :max_losses::smallint[], :isolates::boolean[], :hooks::jsonb[],
            :defaults::jsonb[]) AS d(name, on_worker_lost, max_losses, isolates, hooks, defaults)
ORDER BY 1
ON CONFLICT (name) DO UPDATE
SET on_worker_lost = excluded.on_worker_lost, max_losses = excluded.max_losses, isolates = excluded.isolates,
    hooks = excluded.hooks, defaults = excluded.defaults, seen_at = now()
WHERE (k.on_worker_lost, k.max_losses, k.isolates, k.hooks, k.defaults)
      IS DISTINCT FROM (excluded.on_worker_lost, excluded.max_losses, excluded.isolates, excluded.hooks, excluded.defaults)
   OR k.seen_at < now() - interval '1 hour'

-- name: set_own_approval
-- Which kinds let their submitters approve, after register_kinds; writes only what changed, so nearly always nothing.
-- Locked by name first, the order of register_kinds.
WITH changed AS MATERIALIZED (
  SELECT k.name FROM {schema}.kinds k
  WHERE k.name = ANY (:names::text[]) AND k.own_approval <> (k.name = ANY (:own::text[])) ORDER BY k.name FOR NO KEY UPDATE)
UPDATE {schema}.kinds k SET own_approval = k.name = ANY (:own::text[]) FROM changed c WHERE k.name = c.name

-- name: set_retention
-- What the code and the settings of a starting worker declare; what a person has ordered comes before it. A changed
-- rule judges everything again from the beginning.
INSERT INTO {schema}.retention AS r (kind, state, keep, declared)
SELECT d.kind, d.state, d.keep, d.keep
FROM unnest(:kinds::text[], :states::text[], :keeps::interval[]) AS d(kind, state, keep) ORDER BY 1, 2
ON CONFLICT (kind, state) DO UPDATE
SET declared = excluded.declared, keep = coalesce(r.ordered, excluded.keep),
    pruned_to = CASE WHEN r.keep = coalesce(r.ordered, excluded.keep) THEN r.pruned_to ELSE '-infinity' END
WHERE r.declared IS DISTINCT FROM excluded.declared OR r.keep <> coalesce(r.ordered, excluded.keep)

-- name: retention
-- Every rule; there are few. kind NULL: of all kinds.
SELECT r.kind, r.state, r.keep, r.declared, r.ordered FROM {schema}.retention r
WHERE :kind::text IS NULL OR r.kind = :kind::text ORDER BY r.kind <> '*', r.kind, r.state <> '*', r.state

-- name: retention_lock
-- Before a change, so that the audit names the value that it replaced. Waits for a round of prune under this rule.
SELECT r.kind, r.state, r.keep, r.declared, r.ordered FROM {schema}.retention r
WHERE r.kind = :kind::text AND r.state = :state::text FOR UPDATE

-- name: retention_order
-- A person's rule. With another time it judges everything again from the beginning.
INSERT INTO {schema}.retention AS r (kind, state, keep, ordered) VALUES (:kind::text, :state::text, :keep::interval, :keep::interval)
ON CONFLICT (kind, state) DO UPDATE
SET ordered = excluded.ordered, keep = excluded.keep,
    pruned_to = CASE WHEN r.keep = excluded.keep THEN r.pruned_to ELSE '-infinity' END
RETURNING r.kind, r.state, r.keep, r.declared, r.ordered

-- name: retention_reset
-- Back to what the code declares; a rule that only a person made goes away. Its jobs then belong to wider rules, whose
-- marks have passed them: those judge everything again, else the jobs would stay for ever.
WITH reset AS (
  UPDATE {schema}.retention r SET ordered = NULL, keep = r.declared,
         pruned_to = CASE WHEN r.keep = r.declared THEN r.pruned_to ELSE '-infinity' END
  WHERE r.kind = :kind::text AND r.state = :state::text AND r.declared IS NOT NULL
  RETURNING r.kind, r.state, r.keep, r.declared, r.ordered),
gone AS (
  DELETE FROM {schema}.retention r WHERE r.kind = :kind::text AND r.state = :state::text AND r.declared IS NULL
  RETURNING r.kind, r.state),
wider AS (
  UPDATE {schema}.retention r SET pruned_to = '-infinity' FROM gone g
  WHERE r.kind IN ('*', g.kind) AND r.state IN ('*', g.state) AND (r.kind, r.state) <> (g.kind, g.state))
SELECT reset.kind, reset.state, reset.keep, reset.declared, reset.ordered FROM reset

-- name: kind_names
-- The kinds that workers have declared.
SELECT k.name FROM {schema}.kinds k ORDER BY k.name

-- name: register_worker
-- A new id at every start: host and name are labels, never an identity. The first worker of a version marks a deploy.
WITH deployed AS (INSERT INTO {schema}.deploys (version) VALUES (:version::text) ON CONFLICT (version) DO NOTHING)
INSERT INTO {schema}.workers (name, host, pid, version, lanes, kinds, slots, supervisor, carriers)
VALUES (:name::text, :host::text, :pid::integer, :version::text, :lanes::text[], :kinds::text[], :slots::text::jsonb,
        :supervisor::integer, :carriers::text::jsonb)
RETURNING id, clock_timestamp() AS now,
  (SELECT json_build_object('host', w.host, 'pid', w.pid, 'since', w.started_at)::text FROM {schema}.workers w
    WHERE w.name = :name::text AND w.state <> 'gone' AND w.seen_at > clock_timestamp() - interval '15 s' LIMIT 1) AS namesake

-- name: beat
-- One statement for everything that a worker must learn: whether it is known, whether lanes or pairs changed, which
-- jobs are to be cancelled, which claims it lost, which duties are due, and which code the tables are for, since an
-- upgrade may leave this worker behind. Cheap preconditions keep duties with nothing to do from running at all.
-- schedule_in: seconds until the next schedule is due, overdue ones not counted, so that a worker beats again just
-- then. Some preconditions read an index of jobs from its beginning, which is expensive while a long transaction keeps
-- dead entries from being removed. `spent` (milliseconds, read last) is what it cost; with `look` false those
-- preconditions are left out, so that a beat never costs too much. Orphans have no precondition: no index would find
-- them sooner than their duty does.
WITH me AS (
  UPDATE {schema}.workers w SET seen_at = clock_timestamp(), hungry = :hungry::boolean, state = :state::text,
                               stuck = :stuck::integer, set_aside = :set_aside::jsonb, held = :held::text::jsonb,
                               memory = :memory::bigint
  WHERE w.id = :worker::bigint RETURNING w.id, w.told)
SELECT EXISTS (SELECT 1 FROM me) AS known, (SELECT me.told FROM me) AS told, clock_timestamp() AS now,
  {lanes_version} AS lanes_version,
  (SELECT d.epoch FROM {schema}.duties d WHERE d.name = 'sweep') AS sweep_epoch,
  (SELECT max(coalesce(s.compatible_since, s.version - 1)) FROM {schema}.schema_steps s) AS schema_since,
  (SELECT extract(epoch FROM s.next_at - clock_timestamp())::double precision FROM {schema}.schedules s
    WHERE s.enabled AND s.next_at > now() ORDER BY s.next_at LIMIT 1) AS schedule_in,
  ARRAY(SELECT j.id FROM {schema}.jobs j
         WHERE j.claimed_by = :worker::bigint AND j.state = 'running' AND j.cancel_requested) AS cancelled,
  ARRAY(SELECT h.id FROM unnest(:ids::bigint[], :fences::integer[]) AS h(id, fence)
         WHERE NOT EXISTS (SELECT 1 FROM {schema}.jobs j
                            WHERE j.id = h.id AND j.fence = h.fence AND j.claimed_by = :worker::bigint)) AS lost,
  ARRAY(SELECT d.name FROM {schema}.duties d
         WHERE NOT d.last_run_at BETWEEN clock_timestamp() - greatest(d.every, make_interval(secs => 20 * d.last_ms / 1000.0))
                                     AND clock_timestamp()
           AND (:look::boolean OR d.name NOT IN ('rescue', 'expire', 'prune', 'sweep', 'orphans'))
           AND CASE d.name
             WHEN 'rescue' THEN EXISTS (SELECT 1 FROM {schema}.workers w
                                         WHERE w.seen_at < clock_timestamp() - interval '1 s' AND w.id <> :worker::bigint
                                           AND EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.claimed_by = w.id AND j.state = 'running'))
             WHEN 'stalled' THEN EXISTS (SELECT 1 FROM {schema}.lanes l WHERE l.stall_after IS NOT NULL)
             WHEN 'expire' THEN EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.expires_at IS NOT NULL AND j.expires_at < now()
                                           AND j.state IN ('pending', 'blocked', 'queued'))
                             OR EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.answer_by IS NOT NULL AND j.answer_by < now()
                                           AND j.state = 'pending')
                             OR EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.too_old_at IS NOT NULL AND j.too_old_at < now()
                                           AND j.finished_at IS NULL)
             WHEN 'prune' THEN (SELECT j.finished_at FROM {schema}.jobs j WHERE j.finished_at IS NOT NULL
                                 ORDER BY j.finished_at LIMIT 1) < now() - (SELECT min(r.keep) FROM {schema}.retention r)
                            OR EXISTS (SELECT 1 FROM {schema}.job_keys k WHERE k.expires_at < now())
                            OR EXISTS (SELECT 1 FROM {schema}.workflows f WHERE f.finished_at IS NOT NULL
                                          AND coalesce(f.kept_until, f.finished_at) < now() - (
                                            SELECT r.keep FROM {schema}.retention r WHERE r.kind = '*' AND r.state = '*'))
             WHEN 'gates' THEN EXISTS (SELECT 1 FROM {schema}.gates g)
                            OR EXISTS (SELECT 1 FROM {schema}.lanes l WHERE l.max_total IS NOT NULL OR l.rate IS NOT NULL)
             WHEN 'schedules' THEN EXISTS (SELECT 1 FROM {schema}.schedules s WHERE s.enabled AND s.next_at <= clock_timestamp())
             WHEN 'counts' THEN EXISTS (SELECT 1 FROM {schema}.count_increments)
             WHEN 'workflows' THEN EXISTS (SELECT 1 FROM {schema}.workflows f WHERE f.finished_at IS NULL)
             WHEN 'signals' THEN EXISTS (SELECT 1 FROM {schema}.waits q WHERE q.until < now())
             WHEN 'ageing' THEN EXISTS (SELECT 1 FROM {schema}.lanes l WHERE l.age_every IS NOT NULL)
             WHEN 'limits' THEN EXISTS (SELECT 1 FROM {schema}.gates g WHERE g.used_at < now() - interval '7 days')
                             OR EXISTS (SELECT 1 FROM {schema}.rates r WHERE r.used_at < now() - interval '7 days')
             WHEN 'operations' THEN EXISTS (SELECT 1 FROM {schema}.operations o WHERE o.state = 'running' AND o.driven_until < now())
             WHEN 'seal' THEN EXISTS (SELECT 1 FROM {schema}.audit_unsealed u)
             WHEN 'sweep' THEN (SELECT j.kind FROM {schema}.jobs j WHERE j.state = 'queued'
                                 ORDER BY j.kind, j.priority DESC LIMIT 1) IS NOT NULL
                            OR EXISTS (SELECT 1 FROM {schema}.pairs p WHERE p.low_water IS NOT NULL)
             WHEN 'registry' THEN EXISTS (SELECT 1 FROM {schema}.workers w
                                           WHERE (w.state <> 'gone' AND w.seen_at < now() - interval '60 s')
                                              OR w.seen_at < now() - interval '1 day')
                               OR EXISTS (SELECT 1 FROM {schema}.job_waiters x WHERE x.until < now())
             ELSE true END) AS due,
  extract(epoch FROM clock_timestamp() - statement_timestamp())::double precision * 1000 AS spent

-- name: vouch
-- The supervisor's word for its processes: a handler that holds the interpreter's lock silences a worker that is alive.
-- Worker rows are locked in id order, here and below.
UPDATE {schema}.workers w SET seen_at = clock_timestamp()
FROM (SELECT x.id FROM {schema}.workers x WHERE x.id = ANY (:workers::bigint[]) AND x.state <> 'gone' ORDER BY x.id FOR NO KEY UPDATE) AS own
WHERE w.id = own.id

-- name: workers_gone
-- The supervisor saw these processes end.
UPDATE {schema}.workers w SET state = 'gone', hungry = false
FROM (SELECT x.id FROM {schema}.workers x WHERE x.id = ANY (:workers::bigint[]) AND x.state <> 'gone' ORDER BY x.id FOR NO KEY UPDATE) AS own
WHERE w.id = own.id

-- name: worker_gone
-- The worker's own good-bye; its jobs are final or given back by now.
UPDATE {schema}.workers w SET state = 'gone', hungry = false, seen_at = clock_timestamp() WHERE w.id = :worker::bigint

-- name: worker_drain
-- The worker gets the order with its next beat, drains and leaves; several workers may share a name.
UPDATE {schema}.workers w SET told = 'drain'
FROM (SELECT x.id FROM {schema}.workers x
      WHERE (x.id = :id::bigint OR x.name = :name::text) AND x.state <> 'gone' ORDER BY x.id FOR NO KEY UPDATE) AS meant
WHERE w.id = meant.id RETURNING w.id

-- name: worker_forget
-- A person's word that this host is gone: rescue takes its jobs without waiting for the heartbeat timeout of their
-- lanes. Only of a worker that is silent; one that beats would come back with its next beat.
UPDATE {schema}.workers w SET state = 'gone', hungry = false
WHERE (w.id = :id::bigint OR w.name = :name::text) AND w.state <> 'gone' AND w.seen_at < clock_timestamp() - interval '15 s'
RETURNING w.id

-- name: workers
-- to_jsonb: explain also works on a schema that is behind and lacks these columns.
SELECT w.id, w.name, w.host, w.pid, w.version, w.lanes, w.kinds, w.started_at, w.seen_at, w.hungry,
       w.state, w.seen_at < clock_timestamp() - interval '15 s' AS silent, (to_jsonb(w) ->> 'stuck')::integer AS stuck,
       to_jsonb(w) ->> 'held' AS held, to_jsonb(w) ->> 'told' AS told, to_jsonb(w) ->> 'slots' AS slots,
       (to_jsonb(w) ->> 'supervisor')::integer AS supervisor, to_jsonb(w) ->> 'set_aside' AS set_aside,
       (to_jsonb(w) ->> 'memory')::bigint AS memory, to_jsonb(w) ->> 'carriers' AS carriers,
       (SELECT count(*) FROM {schema}.jobs j WHERE j.claimed_by = w.id AND j.state = 'running') AS running
FROM {schema}.workers w WHERE w.state <> 'gone' ORDER BY w.id

-- name: revive_worker
-- The row of a live worker was deleted by hand: it comes back under its own id, so that its claims still have an owner.
INSERT INTO {schema}.workers (id, name, host, pid, version, lanes, kinds, slots, supervisor, carriers) OVERRIDING SYSTEM VALUE
VALUES (:worker::bigint, :name::text, :host::text, :pid::integer, :version::text, :lanes::text[], :kinds::text[],
        :slots::text::jsonb, :supervisor::integer, :carriers::text::jsonb)
ON CONFLICT (id) DO NOTHING
