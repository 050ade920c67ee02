-- enqueue: -> pending / queued. One INSERT without reads, on the library's connection or inside the user's transaction.
-- Rule for keys: a statement that returns no row has lost a race (the holder finished, was claimed, or is not visible
-- yet); the caller runs it again. No enqueue is ever dropped in silence. Users' transactions serialise on a key until
-- their commit: that is what a unique key means.

-- fragment: job_columns
kind, priority, share, state, approval, run_after, expires_at, too_old_at, max_attempts, tenant, submitted_by, unique_key,
unique_scope, gate_key, tags, refs, meta, args, answer_by

-- fragment: job_values
-- run_after is judged by the database's clock at this very moment, never by the caller's and never by the transaction's start.
SELECT :kind::text, :priority::smallint, :share::smallint, CASE WHEN :approval::smallint <> 0 THEN 'pending' ELSE 'queued' END,
       :approval::smallint, t.run_after, t.run_after + :expires_in::interval, t.now + :max_age::interval, :max_attempts::smallint,
       :tenant::text, :submitted_by::text, :unique_key::text, :unique_scope::text, :gate_key::text, :tags::text[],
       :refs::text::jsonb, :meta::text::jsonb, :args::text::jsonb, t.now + :answer_in::interval
FROM (SELECT c.now, greatest(c.now, :run_at::timestamptz, c.now + :run_in::interval) AS run_after
      FROM (SELECT clock_timestamp() AS now OFFSET 0) AS c) AS t

-- fragment: referenced
-- References and tags are found through job_refs; a job without them inserts nothing here.
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
INSERT INTO {schema}.jobs ({job_columns}) {job_values} RETURNING id, state, run_after, 'created' AS what

-- fragment: plain
-- Nothing but arguments and labels: the table's own defaults say when, and half the parameters need not travel. args comes
-- first: it is the only value that differs between the jobs of one call.
INSERT INTO {schema}.jobs (args, kind, priority, share, state, approval, max_attempts, tenant, submitted_by, meta)
VALUES (:args::text::jsonb, :kind::text, :priority::smallint, :share::smallint,
        CASE WHEN :approval::smallint <> 0 THEN 'pending' ELSE 'queued' END, :approval::smallint, :max_attempts::smallint,
        :tenant::text, :submitted_by::text, :meta::text::jsonb)

-- name: enqueue_plain
{plain} RETURNING id, run_after

-- name: enqueue_plain_telling
-- The same and its wake-up in one statement, delivered by the commit itself: half a millisecond sooner than a message after it.
-- PostgreSQL lets one notifying transaction commit at a time, sync included, so at most one producer at a time does this;
-- the others are told to send their message afterwards (told = false). NULL: nobody is hungry now. In a caller's transaction, too,
-- where a savepoint that is rolled back takes the message with it.
WITH new AS ({plain} RETURNING id, run_after)
SELECT new.id, new.run_after,
       CASE WHEN NOT {hungry} THEN NULL
            WHEN NOT pg_try_advisory_xact_lock(hashtext(:channel::text), 2) THEN false
            ELSE pg_notify(:channel::text, {one_low}) IS NOT NULL END AS told
FROM new

-- fragment: one_low
json_build_object('wake', json_build_array(json_build_array(
  :kind::text, :priority::smallint, :share::smallint, extract(epoch FROM new.run_after))))::text

-- name: enqueue_plain_inside
-- The same and wake_inside in one round trip, for a transaction whose commit cannot be observed.
WITH new AS ({plain} RETURNING id, run_after, state)
SELECT new.id, new.run_after, (
  SELECT pg_notify(:channel::text, {one_low}) WHERE new.state = 'queued' AND {worth_waking})::text AS told
FROM new

-- name: enqueue_referenced
WITH new AS (INSERT INTO {schema}.jobs ({job_columns}) {job_values} RETURNING id, state, run_after, 'created' AS what),
{referenced}
SELECT id, state, run_after, what FROM new

-- name: enqueue_keep
-- unique_key with policy keep; reject is the same statement, the caller raises when what = 'kept'.
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
-- Changed args void an approval, also a half given one: the job goes back to the approver, a transition, so the fence moves. So
-- does a job that needed none when this call demands it; of two demands the stricter counts, and the one who changed the args is
-- their submitter now. It leaves its gate's queue as well, else the next leaver would promote it past the approver; a place it
-- held is found by the gates duty.
SET args = excluded.args, priority = excluded.priority, meta = excluded.meta, seq = o.seq + 1,
    fence = o.fence + CASE WHEN {asked_again} AND o.state <> 'pending' THEN 1 ELSE 0 END,
    state = CASE WHEN {asked_again} THEN 'pending' ELSE o.state END,
    approval = CASE WHEN {asked_again}
                    THEN greatest(o.approval >> 3, excluded.approval >> 3) << 3 | ((o.approval | excluded.approval) & 4) | 1
                    ELSE o.approval END,
    approvers = NULL, answer_by = CASE WHEN {asked_again} THEN coalesce(excluded.answer_by, o.answer_by) END,
    submitted_by = CASE WHEN {asked_again} THEN coalesce(excluded.submitted_by, o.submitted_by) ELSE o.submitted_by END,
    gate_place = CASE WHEN {asked_again} THEN 0 ELSE o.gate_place END

-- fragment: asked_again
(o.approval <> 0 OR excluded.approval <> 0)

-- name: enqueue_replace_live
-- A waiting holder takes the new args; a running one is kept as it is, and the caller is told.
WITH new AS (
  INSERT INTO {schema}.jobs AS o ({job_columns}) {job_values}
  ON CONFLICT (unique_key) WHERE unique_scope = 'live' AND finished_at IS NULL
  DO UPDATE {replaced_columns}, run_after = greatest(o.run_after, clock_timestamp())
     WHERE o.state IN ('pending', 'blocked', 'queued') AND o.gate_place <= 0
  RETURNING o.id, o.state, o.run_after, {fresh} AS what),
{referenced}
SELECT id, state, run_after, what FROM new
UNION ALL
(SELECT o.id, o.state, o.run_after, 'kept' FROM {schema}.jobs o
  WHERE o.unique_key = :unique_key::text AND o.unique_scope = 'live' AND o.finished_at IS NULL
    AND (o.state = 'running' OR o.gate_place > 0) AND NOT EXISTS (SELECT 1 FROM new))

-- name: enqueue_replace_waiting
-- A running twin does not count: it gets exactly one trailing job with the newest args.
WITH new AS (
  INSERT INTO {schema}.jobs AS o ({job_columns}) {job_values}
  ON CONFLICT (unique_key) WHERE unique_scope = 'waiting' AND state IN ('pending', 'blocked', 'queued')
  DO UPDATE {replaced_columns}, run_after = greatest(o.run_after, clock_timestamp())
  RETURNING o.id, o.state, o.run_after, {fresh} AS what),
{referenced}
SELECT id, state, run_after, what FROM new

-- name: enqueue_debounce
-- Every new call pushes the job back by its delay, never beyond max_wait after the first call.
WITH new AS (
  INSERT INTO {schema}.jobs AS o ({job_columns}) {job_values}
  ON CONFLICT (unique_key) WHERE unique_scope = 'waiting' AND state IN ('pending', 'blocked', 'queued')
  DO UPDATE {replaced_columns},
     run_after = greatest(clock_timestamp(), least(excluded.run_after, o.created_at + :max_wait::interval))
  RETURNING o.id, o.state, o.run_after, {fresh} AS what),
{referenced}
SELECT id, state, run_after, what FROM new

-- name: enqueue_once
-- Idempotency: the key row decides, has its own retention and outlives the job row.
WITH claimed AS (
  INSERT INTO {schema}.job_keys AS k (kind, key, job_id, expires_at)
  VALUES (:scope::text, :idempotency_key::text, nextval(pg_get_serial_sequence('{schema}.jobs', 'id')),
          clock_timestamp() + :keep_key::interval)
  ON CONFLICT (kind, key) DO UPDATE
     SET job_id = excluded.job_id, created_at = excluded.created_at, expires_at = excluded.expires_at
     WHERE k.expires_at < now()
  RETURNING job_id),
new AS (
  INSERT INTO {schema}.jobs (id, {job_columns})
  SELECT claimed.job_id, v.* FROM claimed CROSS JOIN ({job_values}) AS v RETURNING id, state, run_after, 'created' AS what),
{referenced}
SELECT id, state, run_after, what FROM new
UNION ALL
SELECT k.job_id, coalesce(j.state, 'pruned'), j.run_after, 'kept'
FROM {schema}.job_keys k LEFT JOIN {schema}.jobs j ON j.id = k.job_id
WHERE k.kind = :scope::text AND k.key = :idempotency_key::text AND NOT EXISTS (SELECT 1 FROM claimed)

-- name: enqueue_many
-- Bulk with a per-row outcome in input order; what = NULL: run again for that row. Key order: two bulks cannot deadlock.
WITH d AS MATERIALIZED (
  SELECT u.n, u.args, u.unique_key, u.gate_key, u.refs,
         nextval((SELECT pg_get_serial_sequence('{schema}.jobs', 'id')::regclass)) AS id
  FROM unnest(:many_args::text[]::jsonb[], :many_unique_keys::text[], :many_gate_keys::text[], :many_refs::text[]::jsonb[])
       WITH ORDINALITY AS u(args, unique_key, gate_key, refs, n)),
new AS (
  INSERT INTO {schema}.jobs (id, {job_columns})
  SELECT d.id, :kind::text, :priority::smallint, :share::smallint, CASE WHEN :approval::smallint <> 0 THEN 'pending' ELSE 'queued' END,
         :approval::smallint, t.run_after, t.run_after + :expires_in::interval, t.now + :max_age::interval,
         :max_attempts::smallint, :tenant::text, :submitted_by::text, d.unique_key, :unique_scope::text, d.gate_key,
         :tags::text[], d.refs, :meta::text::jsonb, d.args, t.now + :answer_in::interval
  FROM d
  CROSS JOIN LATERAL (
    SELECT c.now, greatest(c.now, :run_at::timestamptz, c.now + :run_in::interval) AS run_after
    FROM (SELECT clock_timestamp() AS now, d.n OFFSET 0) AS c) AS t
  ORDER BY d.unique_key, d.n
  ON CONFLICT DO NOTHING RETURNING id, state, run_after, unique_key),
referenced AS (
  INSERT INTO {schema}.job_refs (name, value, job_id)
  SELECT r.name, r.value, new.id
  FROM new JOIN d ON d.id = new.id CROSS JOIN LATERAL (
    SELECT e.key AS name, e.value FROM jsonb_each_text(d.refs) AS e WHERE e.value IS NOT NULL
    UNION SELECT 'tag', tag FROM unnest(:tags::text[]) AS tag) AS r
  ON CONFLICT DO NOTHING)
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

-- name: withdraw
-- A bulk is all or nothing, also in a user's transaction that goes on after a rejected key: what it wrote goes away again.
WITH gone AS (DELETE FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) RETURNING j.id, j.refs, j.tags)
DELETE FROM {schema}.job_refs r USING gone g CROSS JOIN LATERAL (
  SELECT e.key AS name, e.value FROM jsonb_each_text(g.refs) AS e UNION ALL SELECT 'tag', t FROM unnest(g.tags) AS t) AS e
WHERE r.name = e.name AND r.value = e.value AND r.job_id = g.id
RETURNING r.job_id

-- name: take_ids
-- For COPY, which can neither return ids nor resolve conflicts: keyless rows only.
-- The sequence is looked up once, not per row; one array costs the client less than as many rows. The clock is read before
-- any of the rows is written.
SELECT clock_timestamp() AS now, ARRAY(
  SELECT nextval((SELECT pg_get_serial_sequence('{schema}.jobs', 'id')::regclass)) FROM generate_series(1, :n::integer)) AS ids

-- name: clock
SELECT clock_timestamp() AS now

-- name: register_gates
-- Created if absent; afterwards the row decides. On the library's own connection, like register_pairs.
INSERT INTO {schema}.gates (key, max_running, fifo)
SELECT d.key, d.max_running, d.fifo FROM unnest(:keys::text[], :limits::integer[], :fifos::boolean[]) AS d(key, max_running, fifo)
ORDER BY 1
ON CONFLICT (key) DO NOTHING

-- fragment: hungry
EXISTS (SELECT 1 FROM {schema}.workers w WHERE w.hungry AND w.state = 'up' AND w.seen_at > now() - interval '15 s')

-- fragment: worth_waking
-- Under a frozen snapshot the hungry flags may be old, so there it always notifies.
(current_setting('transaction_isolation') <> 'read committed' OR {hungry})

-- name: wake
-- After the commit, on the library's connection: silent while every worker is busy.
SELECT pg_notify(:channel::text, :payload::text) WHERE {hungry}

-- name: wake_inside
-- Inside the user's transaction, when its commit cannot be observed: PostgreSQL delivers it at the commit.
SELECT pg_notify(:channel::text, :payload::text) WHERE {worth_waking}
