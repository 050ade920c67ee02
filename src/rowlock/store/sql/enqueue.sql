-- enqueue: -> pending / queued. One INSERT without reads, on a connection of the library's own or in the user's
-- transaction. Rule for keys: a statement that returns no row has lost a race (the holder of the key finished, was
-- claimed, or is not visible yet), and the caller runs it again. No enqueue is dropped in silence. Transactions of
-- users that use one key wait for each other until the commit: that is what a unique key means.

-- fragment: job_columns
kind, priority, share, state, approval, run_after, expires_at, too_old_at, max_attempts, tenant, submitted_by, unique_key,
unique_scope, gate_key, tags, refs, meta, args, answer_by, rate_keys, rate_weight

-- fragment: job_values
-- run_after is judged by the database's clock at this moment, never by the caller's clock and never by the
-- transaction's start.
SELECT :kind::text, :priority::smallint, :share::smallint, CASE WHEN :approval::smallint <> 0 THEN 'pending' ELSE 'queued' END,
       :approval::smallint, t.run_after, t.run_after + :expires_in::interval, t.now + :max_age::interval, :max_attempts::smallint,
       :tenant::text, :submitted_by::text, :unique_key::text, :unique_scope::text, :gate_key::text, :tags::text[],
       :refs::text::jsonb, :meta::text::jsonb, :args::text::jsonb, t.now + :answer_in::interval, :rate_keys::text[],
       :rate_weight::smallint
FROM (SELECT c.now, greatest(c.now, :run_at::timestamptz, c.now + :run_in::interval) AS run_after
      FROM (SELECT clock_timestamp() AS now OFFSET 0) AS c) AS t

-- fragment: referenced
-- References and tags are searched through job_refs; a job without them inserts nothing here.
referenced AS (
  INSERT INTO {schema}.job_refs (name, value, job_id)
  SELECT r.name, r.value, new.id
  FROM new CROSS JOIN LATERAL (
    SELECT e.key AS name, e.value FROM jsonb_each_text(:refs::text::jsonb) AS e WHERE e.value IS NOT NULL
    UNION SELECT 'tag', tag FROM unnest(:tags::text[]) AS tag) AS r
  WHERE new.what = 'created'
  ON CONFLICT DO NOTHING)

-- fragment: fresh
-- A row that was just inserted has never been updated.
CASE WHEN o.seq = 0 THEN 'created' ELSE 'replaced' END

-- name: enqueue
-- The general INSERT: timing, gate, rates and deadlines, but no key, references or tags.
INSERT INTO {schema}.jobs ({job_columns}) {job_values} RETURNING id, state, run_after, 'created' AS what

-- fragment: plain
-- Nothing but arguments and labels: the defaults of the table give the time, and half the parameters need not travel.
-- args comes first, as the only value that differs between the jobs of one call.
INSERT INTO {schema}.jobs (args, kind, priority, share, state, approval, max_attempts, tenant, submitted_by, meta)
VALUES (:args::text::jsonb, :kind::text, :priority::smallint, :share::smallint,
        CASE WHEN :approval::smallint <> 0 THEN 'pending' ELSE 'queued' END, :approval::smallint, :max_attempts::smallint,
        :tenant::text, :submitted_by::text, :meta::text::jsonb)

-- name: enqueue_plain
-- The fastest way in; run on a connection of the library's own, the wake-up follows after the commit.
{plain} RETURNING id, run_after

-- name: enqueue_plain_notifying
-- The same with its wake-up in one statement, delivered by the commit: half a millisecond sooner than a message after
-- it. PostgreSQL lets one notifying transaction commit at a time, fsync included, so at most one producer at a time
-- does this; the others send their message afterwards (notified = false). notified NULL: no worker is hungry. Also used in a
-- caller's transaction, where a rolled back savepoint takes the message with it.
WITH new AS ({plain} RETURNING id, run_after)
SELECT new.id, new.run_after,
       CASE WHEN NOT {hungry} THEN NULL
            WHEN NOT {room_to_notify} OR NOT pg_try_advisory_xact_lock(hashtext(:channel::text), 2) THEN false
            ELSE pg_notify(:channel::text, {one_low}) IS NOT NULL END AS notified
FROM new

-- fragment: one_low
json_build_object('wake', json_build_array(json_build_array(
  :kind::text, :priority::smallint, :share::smallint, extract(epoch FROM new.run_after))))::text

-- name: enqueue_plain_inside
-- The same with wake_inside in one round trip, for a transaction whose commit cannot be observed.
WITH new AS ({plain} RETURNING id, run_after, state)
SELECT new.id, new.run_after, (
  SELECT pg_notify(:channel::text, {one_low}) WHERE new.state = 'queued' AND {worth_waking} AND {room_to_notify})::text AS notified
FROM new

-- name: enqueue_referenced
-- `enqueue` with rows in job_refs; a statement of its own, so that jobs without references do not pay for the CTE.
WITH new AS (INSERT INTO {schema}.jobs ({job_columns}) {job_values} RETURNING id, state, run_after, 'created' AS what),
{referenced}
SELECT id, state, run_after, what FROM new

-- name: enqueue_keep
-- unique_key with policy keep. reject is the same statement: the caller raises when what = 'kept'.
WITH new AS (
  INSERT INTO {schema}.jobs ({job_columns}) {job_values}
  ON CONFLICT DO NOTHING RETURNING id, state, run_after, 'created' AS what),
{referenced}
SELECT id, state, run_after, what FROM new
UNION ALL
(SELECT o.id, o.state, o.run_after, 'kept' FROM {schema}.jobs o
  WHERE o.unique_key = :unique_key::text AND o.unique_scope = :unique_scope::text AND NOT EXISTS (SELECT 1 FROM new)
    AND ((o.unique_scope = 'live' AND o.finished_at IS NULL)
      OR (o.unique_scope = 'waiting' AND o.state IN ('pending', 'blocked', 'queued'))) LIMIT 1)

-- fragment: replaced_columns
-- A waiting job takes over what the new call says, except id, tenant, attempts and workflow. A call with a time moves
-- the job there; a call without one keeps its time, but not before now, since its priority may have changed and cursors
-- look at nothing earlier. Deadlines count anew. Changed arguments void an approval, also an incomplete one: the job
-- goes back to pending, which is a transition, so the fence moves. So does a job that needed no approval when this call
-- demands it; of two demands the stricter counts, and the caller who changed the arguments is their submitter from now
-- on. The job then also leaves its gate's queue, else the next job to leave the gate would promote it past the
-- approver; a place it held is found by the gates duty. A job parked at a gate that is no longer its own is released,
-- which is a transition, too.
SET args = excluded.args, priority = excluded.priority, meta = excluded.meta, seq = o.seq + 1,
    refs = excluded.refs, tags = excluded.tags, max_attempts = excluded.max_attempts, gate_key = excluded.gate_key,
    rate_keys = excluded.rate_keys, rate_weight = excluded.rate_weight,
    rate_turn = CASE WHEN o.rate_keys = excluded.rate_keys THEN o.rate_turn END,
    run_after = {moved_to}, expires_at = {moved_to} + :expires_in::interval, too_old_at = excluded.too_old_at,
    fence = o.fence + CASE WHEN ({asked_again} AND o.state <> 'pending') OR {unparked} THEN 1 ELSE 0 END,
    state = CASE WHEN {asked_again} THEN 'pending' WHEN {unparked} THEN 'queued' ELSE o.state END,
    approval = CASE WHEN {asked_again}
                    THEN greatest(o.approval >> 3, excluded.approval >> 3) << 3 | ((o.approval | excluded.approval) & 4) | 1
                    ELSE o.approval END,
    approvers = NULL, answer_by = CASE WHEN {asked_again} THEN coalesce(excluded.answer_by, o.answer_by) END,
    submitted_by = CASE WHEN {asked_again} THEN coalesce(excluded.submitted_by, o.submitted_by) ELSE o.submitted_by END,
    gate_place = CASE WHEN {asked_again} OR o.gate_key IS DISTINCT FROM excluded.gate_key THEN 0 ELSE o.gate_place END

-- fragment: asked_again
(o.approval <> 0 OR excluded.approval <> 0)

-- fragment: unparked
(o.gate_place = -1 AND o.gate_key IS DISTINCT FROM excluded.gate_key)

-- fragment: moved_to
-- Debounce always gives a time: every new call pushes the job back by its delay, but never beyond max_wait after the
-- first call.
greatest(clock_timestamp(), CASE WHEN :run_at::timestamptz IS NULL AND :run_in::interval IS NULL THEN o.run_after
                                 ELSE least(excluded.run_after, o.created_at + :max_wait::interval) END)

-- fragment: as_known
-- The references to delete are those in the statement's snapshot. If the row has others by now, another transaction
-- changed it meanwhile: then nothing is updated, and the caller runs the statement again.
(o.refs IS NOT DISTINCT FROM (SELECT w.refs FROM was w) AND o.tags IS NOT DISTINCT FROM (SELECT w.tags FROM was w))

-- fragment: rereferenced
-- job_refs after a replacement: deletes references that are gone, inserts new ones, and leaves the others alone.
before AS (
  SELECT new.id, p.name, p.value FROM new CROSS JOIN was w CROSS JOIN LATERAL (
    SELECT e.key AS name, e.value FROM jsonb_each_text(CASE WHEN jsonb_typeof(w.refs) = 'object' THEN w.refs END) AS e WHERE e.value IS NOT NULL
    UNION SELECT 'tag', tag FROM unnest(w.tags) AS tag) AS p
  WHERE new.what = 'replaced'),
after AS (
  SELECT new.id, p.name, p.value FROM new CROSS JOIN LATERAL (
    SELECT e.key AS name, e.value FROM jsonb_each_text(:refs::text::jsonb) AS e WHERE e.value IS NOT NULL
    UNION SELECT 'tag', tag FROM unnest(:tags::text[]) AS tag) AS p),
unreferenced AS (
  DELETE FROM {schema}.job_refs r USING (SELECT * FROM before EXCEPT SELECT * FROM after) AS g
  WHERE r.name = g.name AND r.value = g.value AND r.job_id = g.id),
referenced AS (
  INSERT INTO {schema}.job_refs (name, value, job_id)
  SELECT n.name, n.value, n.id FROM (SELECT * FROM after EXCEPT SELECT * FROM before) AS n ON CONFLICT DO NOTHING)

-- fragment: live_twin
o.unique_key = :unique_key::text AND o.unique_scope = 'live' AND o.finished_at IS NULL

-- fragment: waiting_twin
o.unique_key = :unique_key::text AND o.unique_scope = 'waiting' AND o.state IN ('pending', 'blocked', 'queued')

-- fragment: replace_live
ON CONFLICT (unique_key) WHERE unique_scope = 'live' AND finished_at IS NULL
DO UPDATE {replaced_columns} WHERE o.state IN ('pending', 'blocked', 'queued') AND o.gate_place <= 0 AND {as_known}
RETURNING o.id, o.state, o.run_after, {fresh} AS what

-- fragment: replace_waiting
ON CONFLICT (unique_key) WHERE unique_scope = 'waiting' AND state IN ('pending', 'blocked', 'queued')
DO UPDATE {replaced_columns} WHERE {as_known}
RETURNING o.id, o.state, o.run_after, {fresh} AS what

-- fragment: too_late
-- A running holder, or one that has a place at its gate, is kept as it is, and the caller learns of it.
SELECT o.id, o.state, o.run_after, 'kept' FROM {schema}.jobs o
WHERE {live_twin} AND (o.state = 'running' OR o.gate_place > 0) AND NOT EXISTS (SELECT 1 FROM new)

-- name: enqueue_replace_live
-- A waiting holder of the key takes over what the new call says.
WITH was AS MATERIALIZED (SELECT o.refs, o.tags FROM {schema}.jobs o WHERE {live_twin}),
new AS (INSERT INTO {schema}.jobs AS o ({job_columns}) {job_values} {replace_live}),
{rereferenced}
SELECT id, state, run_after, what FROM new UNION ALL {too_late}

-- name: enqueue_replace_waiting
-- A running twin does not count: it gets exactly one trailing job with the newest arguments. Debounce is the same
-- statement with a delay.
WITH was AS MATERIALIZED (SELECT o.refs, o.tags FROM {schema}.jobs o WHERE {waiting_twin}),
new AS (INSERT INTO {schema}.jobs AS o ({job_columns}) {job_values} {replace_waiting}),
{rereferenced}
SELECT id, state, run_after, what FROM new

-- fragment: claim_key
-- Idempotency: the key row decides, has a retention of its own and outlives the job row. Returns no row if the key is
-- there and has not expired.
INSERT INTO {schema}.job_keys AS k (kind, key, job_id, expires_at)
SELECT :scope::text, :idempotency_key::text, {key_job}, clock_timestamp() + :keep_key::interval
ON CONFLICT (kind, key) DO UPDATE
   SET job_id = excluded.job_id, created_at = excluded.created_at, expires_at = excluded.expires_at
   WHERE k.expires_at < now()
RETURNING job_id

-- fragment: key_job
nextval(pg_get_serial_sequence('{schema}.jobs', 'id'))

-- fragment: claimed_values
SELECT claimed.job_id, v.* FROM claimed CROSS JOIN ({job_values}) AS v

-- fragment: known_key
SELECT k.job_id, coalesce(j.state, 'pruned'), j.run_after, 'kept'
FROM {schema}.job_keys k LEFT JOIN {schema}.jobs j ON j.id = k.job_id
WHERE k.kind = :scope::text AND k.key = :idempotency_key::text AND NOT EXISTS (SELECT 1 FROM claimed)

-- name: enqueue_once
-- idempotency_key alone: a new key inserts the job, a known one answers the job it stands for.
WITH claimed AS ({claim_key}),
new AS (
  INSERT INTO {schema}.jobs (id, {job_columns}) {claimed_values} RETURNING id, state, run_after, 'created' AS what),
{referenced}
SELECT id, state, run_after, what FROM new UNION ALL {known_key}

-- fragment: unsettled
-- The idempotency key was new, but the unique key led to another job ('taken' or 'replaced'); or to none, since its
-- holder is not visible yet ('lost'). Either way the caller corrects or deletes the key row in the same transaction.
SELECT claimed.job_id, 'queued', NULL::timestamptz, 'lost' FROM claimed
WHERE NOT EXISTS (SELECT 1 FROM new) AND NOT EXISTS (SELECT 1 FROM twin)

-- name: enqueue_once_keep
-- Both keys, policies keep and reject. The idempotency key decides first; if it is new, the unique key decides, and the
-- idempotency key stands for that result from now on. If the holder of the unique key is visible, no second statement
-- is needed: the key row points at it at once, or is not written when the caller rejects.
WITH twin AS MATERIALIZED (
  SELECT o.id, o.state, o.run_after FROM {schema}.jobs o
  WHERE o.unique_key = :unique_key::text AND o.unique_scope = :unique_scope::text
    AND ((o.unique_scope = 'live' AND o.finished_at IS NULL)
      OR (o.unique_scope = 'waiting' AND o.state IN ('pending', 'blocked', 'queued'))) LIMIT 1),
claimed AS (
  INSERT INTO {schema}.job_keys AS k (kind, key, job_id, expires_at)
  SELECT :scope::text, :idempotency_key::text, coalesce((SELECT twin.id FROM twin), {key_job}),
         clock_timestamp() + :keep_key::interval
  WHERE NOT (:rejects::boolean AND EXISTS (SELECT 1 FROM twin))
  ON CONFLICT (kind, key) DO UPDATE
     SET job_id = excluded.job_id, created_at = excluded.created_at, expires_at = excluded.expires_at
     WHERE k.expires_at < now()
  RETURNING job_id),
new AS (
  INSERT INTO {schema}.jobs (id, {job_columns})
  SELECT claimed.job_id, v.* FROM claimed CROSS JOIN ({job_values}) AS v WHERE NOT EXISTS (SELECT 1 FROM twin)
  ON CONFLICT DO NOTHING RETURNING id, state, run_after, 'created' AS what),
{referenced},
known AS ({known_key} AND k.expires_at >= now())
SELECT id, state, run_after, what FROM new
UNION ALL SELECT * FROM known
UNION ALL
SELECT twin.id, twin.state, twin.run_after, CASE WHEN :rejects::boolean THEN 'taken' ELSE 'kept' END FROM twin
WHERE NOT EXISTS (SELECT 1 FROM known) AND (:rejects::boolean OR EXISTS (SELECT 1 FROM claimed))
UNION ALL {unsettled}

-- name: enqueue_once_replace_live
-- Both keys, policy replace: as above, but only the conflict itself shows which job the unique key stands for.
WITH was AS MATERIALIZED (SELECT o.refs, o.tags FROM {schema}.jobs o WHERE {live_twin}),
claimed AS ({claim_key}),
new AS (INSERT INTO {schema}.jobs AS o (id, {job_columns}) {claimed_values} {replace_live}),
twin AS (SELECT late.* FROM ({too_late} AND EXISTS (SELECT 1 FROM claimed)) AS late(id, state, run_after, what)),
{rereferenced}
SELECT id, state, run_after, what FROM new
UNION ALL SELECT id, state, run_after, 'taken' FROM twin
UNION ALL {known_key}
UNION ALL {unsettled}

-- name: enqueue_once_replace_waiting
-- The same for scope waiting, where a running twin does not count.
WITH was AS MATERIALIZED (SELECT o.refs, o.tags FROM {schema}.jobs o WHERE {waiting_twin}),
claimed AS ({claim_key}),
new AS (INSERT INTO {schema}.jobs AS o (id, {job_columns}) {claimed_values} {replace_waiting}),
twin AS (SELECT 0::bigint AS id WHERE false),
{rereferenced}
SELECT id, state, run_after, what FROM new
UNION ALL {known_key}
UNION ALL {unsettled}

-- name: point_key
-- Lets the idempotency key stand for the job that the unique key led to; NULL deletes the key, as nothing was written.
WITH gone AS (
  DELETE FROM {schema}.job_keys k
  WHERE :job_id::bigint IS NULL AND k.kind = :scope::text AND k.key = :idempotency_key::text)
UPDATE {schema}.job_keys k SET job_id = :job_id::bigint
WHERE :job_id::bigint IS NOT NULL AND k.kind = :scope::text AND k.key = :idempotency_key::text

-- fragment: many_values
SELECT d.id, :kind::text, :priority::smallint, :share::smallint, CASE WHEN :approval::smallint <> 0 THEN 'pending' ELSE 'queued' END,
       :approval::smallint, t.run_after, t.run_after + :expires_in::interval, t.now + :max_age::interval,
       :max_attempts::smallint, :tenant::text, :submitted_by::text, d.unique_key, :unique_scope::text, d.gate_key,
       :tags::text[], d.refs, :meta::text::jsonb, d.args, t.now + :answer_in::interval,
       (SELECT array_agg(k) FROM jsonb_array_elements_text(d.rate_keys) AS k), :rate_weight::smallint
FROM d
CROSS JOIN LATERAL (
  SELECT c.now, greatest(c.now, :run_at::timestamptz, c.now + :run_in::interval) AS run_after
  FROM (SELECT clock_timestamp() AS now, d.n OFFSET 0) AS c) AS t

-- fragment: many_referenced
referenced AS (
  INSERT INTO {schema}.job_refs (name, value, job_id)
  SELECT r.name, r.value, new.id
  FROM new JOIN d ON d.id = new.id CROSS JOIN LATERAL (
    SELECT e.key AS name, e.value FROM jsonb_each_text(d.refs) AS e WHERE e.value IS NOT NULL
    UNION SELECT 'tag', tag FROM unnest(:tags::text[]) AS tag) AS r
  ON CONFLICT DO NOTHING)

-- name: enqueue_many
-- Bulk with an outcome per row, in input order. what = NULL: run again for that row. Two bulks with the same keys wait
-- for each other and never deadlock, because the caller sorts all its rows by key before it splits them: inserted in
-- input order, as the database's own order of texts depends on its collation.
WITH d AS MATERIALIZED (
  SELECT u.n, u.args, u.unique_key, u.gate_key, u.refs, u.rate_keys,
         nextval((SELECT pg_get_serial_sequence('{schema}.jobs', 'id')::regclass)) AS id
  FROM unnest(:many_args::text[]::jsonb[], :many_unique_keys::text[], :many_gate_keys::text[], :many_refs::text[]::jsonb[],
              :many_rate_keys::text[]::jsonb[])
       WITH ORDINALITY AS u(args, unique_key, gate_key, refs, rate_keys, n)),
new AS (
  INSERT INTO {schema}.jobs (id, {job_columns}) {many_values}
  ORDER BY d.n
  ON CONFLICT DO NOTHING RETURNING id, state, run_after, unique_key),
{many_referenced}
SELECT d.n, coalesce(new.id, twin.id, o.id) AS id, coalesce(new.state, twin.state, o.state) AS state,
       coalesce(new.run_after, twin.run_after, o.run_after) AS run_after,
       CASE WHEN new.id IS NOT NULL THEN 'created' WHEN coalesce(twin.id, o.id) IS NOT NULL THEN 'kept' END AS what
FROM d
LEFT JOIN new ON new.id = d.id
LEFT JOIN new AS twin ON new.id IS NULL AND twin.unique_key = d.unique_key
LEFT JOIN LATERAL (
  SELECT x.id, x.state, x.run_after FROM {schema}.jobs x
  WHERE new.id IS NULL AND twin.id IS NULL AND x.unique_key = d.unique_key AND x.unique_scope = :unique_scope::text
    AND ((x.unique_scope = 'live' AND x.finished_at IS NULL)
      OR (x.unique_scope = 'waiting' AND x.state IN ('pending', 'blocked', 'queued'))) LIMIT 1) AS o ON true
ORDER BY d.n

-- name: enqueue_many_once
-- Bulk with an idempotency key per row: the first row of a new key becomes a job, and every other row of that key gets
-- the same job. Inserted in input order, which is key order, as above.
WITH d AS MATERIALIZED (
  SELECT u.n, u.args, u.key, NULL::text AS unique_key, u.gate_key, u.refs, u.rate_keys,
         nextval((SELECT pg_get_serial_sequence('{schema}.jobs', 'id')::regclass)) AS id
  FROM unnest(:many_args::text[]::jsonb[], :many_idempotency_keys::text[], :many_gate_keys::text[], :many_refs::text[]::jsonb[],
              :many_rate_keys::text[]::jsonb[])
       WITH ORDINALITY AS u(args, key, gate_key, refs, rate_keys, n)),
claimed AS (
  INSERT INTO {schema}.job_keys AS k (kind, key, job_id, expires_at)
  SELECT :scope::text, f.key, f.id, clock_timestamp() + :keep_key::interval
  FROM (SELECT DISTINCT ON (d.key) d.key, d.id, d.n FROM d ORDER BY d.key, d.n) AS f ORDER BY f.n
  ON CONFLICT (kind, key) DO UPDATE
     SET job_id = excluded.job_id, created_at = excluded.created_at, expires_at = excluded.expires_at
     WHERE k.expires_at < now()
  RETURNING key, job_id),
new AS (
  INSERT INTO {schema}.jobs (id, {job_columns}) {many_values} WHERE d.id IN (SELECT c.job_id FROM claimed c)
  RETURNING id, state, run_after),
{many_referenced}
SELECT d.n, coalesce(c.job_id, k.job_id) AS id,
       CASE WHEN c.job_id IS NOT NULL THEN new.state ELSE coalesce(j.state, 'pruned') END AS state,
       coalesce(new.run_after, j.run_after) AS run_after,
       CASE WHEN c.job_id = d.id THEN 'created' WHEN coalesce(c.job_id, k.job_id) IS NOT NULL THEN 'kept' END AS what
FROM d
LEFT JOIN claimed c ON c.key = d.key
LEFT JOIN new ON new.id = c.job_id
LEFT JOIN {schema}.job_keys k ON c.job_id IS NULL AND k.kind = :scope::text AND k.key = d.key
LEFT JOIN {schema}.jobs j ON j.id = k.job_id
ORDER BY d.n

-- name: withdraw
-- A bulk is all or nothing, also in a user's transaction that continues after a rejected key: the jobs it wrote are
-- deleted again.
WITH gone AS (DELETE FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) RETURNING j.id, j.refs, j.tags)
DELETE FROM {schema}.job_refs r USING gone g CROSS JOIN LATERAL (
  SELECT e.key AS name, e.value FROM jsonb_each_text(g.refs) AS e UNION ALL SELECT 'tag', t FROM unnest(g.tags) AS t) AS e
WHERE r.name = e.name AND r.value = e.value AND r.job_id = g.id
RETURNING r.job_id

-- name: take_ids
-- For COPY, which can neither return ids nor resolve conflicts: for jobs without keys only. The sequence is looked up
-- once, not per row, and one array costs the client less than as many rows. The clock is read before any of the rows is
-- written.
SELECT clock_timestamp() AS now, ARRAY(
  SELECT nextval((SELECT pg_get_serial_sequence('{schema}.jobs', 'id')::regclass)) FROM generate_series(1, :n::integer)) AS ids

-- name: clock
-- The only clock that counts.
SELECT clock_timestamp() AS now

-- name: register_gates
-- Created if absent; afterwards the row decides. On a connection of the library's own, like register_pairs. A gate that
-- is not named for a week is deleted, so gates in use are marked, at most once a day.
INSERT INTO {schema}.gates AS g (key, max_running, fifo)
SELECT d.key, d.max_running, d.fifo FROM unnest(:keys::text[], :limits::integer[], :fifos::boolean[]) AS d(key, max_running, fifo)
ORDER BY 1
ON CONFLICT (key) DO UPDATE SET used_at = now() WHERE g.used_at < now() - interval '1 day'
