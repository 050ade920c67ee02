-- workers: a worker's row from its start to its end, the beat in between, and claims that a worker gives back.

-- name: register_worker
-- A new id at every start: host and name are labels, never an identity. The first worker of a version marks a deploy.
WITH deployed AS (INSERT INTO {schema}.deploys (version) VALUES (:version::text) ON CONFLICT (version) DO NOTHING)
INSERT INTO {schema}.workers (name, host, pid, version, lanes, kinds, slots, supervisor, carriers)
VALUES (:name::text, :host::text, :pid::integer, :version::text, :lanes::text[], :kinds::text[], :slots::text::jsonb,
        :supervisor::integer, :carriers::text::jsonb)
RETURNING id, clock_timestamp() AS now,
  (SELECT json_build_object('host', w.host, 'pid', w.pid, 'since', w.started_at)::text FROM {schema}.workers w
    WHERE w.name = :name::text AND w.state <> 'gone' AND w.seen_at > clock_timestamp() - interval '15 s' LIMIT 1) AS namesake

-- name: revive_worker
-- The row of a live worker was deleted by hand: it comes back under its own id, so that its claims still have an owner.
INSERT INTO {schema}.workers (id, name, host, pid, version, lanes, kinds, slots, supervisor, carriers) OVERRIDING SYSTEM VALUE
VALUES (:worker::bigint, :name::text, :host::text, :pid::integer, :version::text, :lanes::text[], :kinds::text[],
        :slots::text::jsonb, :supervisor::integer, :carriers::text::jsonb)
ON CONFLICT (id) DO NOTHING

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
-- A supervisor keeps the rows of its worker processes fresh: while a handler holds the interpreter's lock, its worker
-- lives but cannot beat.
-- Worker rows are locked in id order, here and below.
UPDATE {schema}.workers w SET seen_at = clock_timestamp()
FROM (SELECT x.id FROM {schema}.workers x WHERE x.id = ANY (:workers::bigint[]) AND x.state <> 'gone' ORDER BY x.id FOR NO KEY UPDATE) AS own
WHERE w.id = own.id

-- name: workers_gone
-- The supervisor saw these processes end.
UPDATE {schema}.workers w SET state = 'gone', hungry = false
FROM (SELECT x.id FROM {schema}.workers x WHERE x.id = ANY (:workers::bigint[]) AND x.state <> 'gone' ORDER BY x.id FOR NO KEY UPDATE) AS own
WHERE w.id = own.id

-- name: disown
-- A claim that committed but whose answer was lost belongs to a worker that is alive and does not know of it; no
-- heartbeat finds that. Each worker names the jobs it holds, and the others go back. `before` is an instant of the
-- database's clock from before that list was made, when no claim was under way: a later claim is never taken for a
-- forgotten one. A row that another transaction holds is left to the next look: the beat does not wait for it.
WITH leaving AS (
  SELECT j.id, j.fence, 'queued'::text AS state, 0::float8 AS delay, 1 AS refund, 0 AS loss, 0 AS death, 'disowned'::text AS outcome,
         NULL::jsonb AS error, NULL::bigint AS owner
  FROM {schema}.jobs j
  WHERE j.state = 'running' AND j.claimed_by = :worker::bigint AND NOT (j.id = ANY (:held::bigint[]))
    AND j.claimed_at < :before::timestamptz AND {among}
  ORDER BY j.id LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED),
{requeue}
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {followed} FROM moved m

-- name: claimed_by
-- For a disowning that is run in parts, because a row was refused: every job that it may give back, and more.
SELECT j.id FROM {schema}.jobs j WHERE j.state = 'running' AND j.claimed_by = :worker::bigint ORDER BY j.id LIMIT 500

-- name: unblock
-- A handler blocks the event loop of this worker, whose process is replaced for it. The culprits are lost claims, and
-- suspects from now on. All other jobs of the worker, known to it or not, leave as from an orderly shutdown: the
-- attempt does not count, and it is no loss. A process that cannot run its loop must not claim either, so its row ends
-- with its claims. A row that another transaction holds is left to rescue.
WITH leaving AS (
  SELECT x.id, x.fence, CASE WHEN b.id IS NULL THEN 'queued' ELSE x.state END AS state,
         CASE WHEN b.id IS NULL THEN 0 ELSE x.delay END AS delay, x.refund, CASE WHEN b.id IS NULL THEN 0 ELSE x.loss END AS loss,
         x.death, CASE WHEN b.id IS NULL THEN 'interrupted' ELSE x.outcome END AS outcome,
         CASE WHEN b.id IS NULL THEN jsonb_build_object('reason', 'another job blocked the event loop')
              WHEN x.error ->> 'reason' = 'quarantined' THEN x.error || jsonb_build_object('blocked', :place::text,
                'message', replace(x.error ->> 'message', 'its worker was lost', 'it blocked the event loop'))
              ELSE x.error || jsonb_build_object('reason', 'blocked the event loop', 'blocked', :place::text) END AS error,
         x.owner
  FROM ({lost_claims}
        WHERE j.state = 'running' AND j.claimed_by = :worker::bigint
        ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED) AS x
  LEFT JOIN unnest(:ids::bigint[], :fences::integer[]) AS b(id, fence) ON b.id = x.id AND b.fence = x.fence),
{requeue},
{moved_concluded},
{exhausted},
gone AS (UPDATE {schema}.workers w SET state = 'gone', hungry = false WHERE w.id = :worker::bigint)
SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {followed} FROM moved m

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
