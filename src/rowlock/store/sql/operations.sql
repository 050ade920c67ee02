-- operations: orders for many jobs. Their row is their only memory: the process that drives one may die between two
-- batches.

-- fragment: operation_columns
o.id, o.action, o.search, o.ids, o.priority, o.filter_hash, o.expected_max, o.as_of, o.ceiling, o.cursor, o.done, o.skipped, o.failed,
o.state, o.error, o.by_whom, o.note, o.principal, o.created_at, o.finished_at

-- fragment: own_operation
-- A caller who does not see all jobs sees only the operations it started.
(:sees_all::boolean OR (o.principal ->> 'subject' = :subject::text AND o.principal ->> 'tenant' IS NOT DISTINCT FROM :tenant::text))

-- fragment: operation_audited
-- Beside the audit rows of each job: that this was ordered, for how many jobs and why; and who cancelled it. Needs a
-- CTE `changed` with the operation, and `was`, its state before (NULL: it did not exist).
audited AS (
  INSERT INTO {schema}.audit (subject, kind, acting_for, tenant, action, target, before, after, note, request_id, address)
  SELECT who.subject, who.kind, who.acting_for, who.tenant, 'operation.' || :verb::text, 'operation:' || c.id,
         CASE WHEN c.was IS NOT NULL THEN jsonb_build_object('state', c.was) END,
         jsonb_strip_nulls(jsonb_build_object('state', c.state, 'action', c.action, 'search', c.search, 'ids', cardinality(c.ids),
                                              'priority', c.priority, 'expected_max', c.expected_max, 'done', c.done)),
         :note::text, who.request_id, who.address
  FROM changed c CROSS JOIN {asked_by})

-- name: operation_add
-- ceiling: jobs enqueued from now on are not meant, whatever the search says.
WITH changed AS (
  INSERT INTO {schema}.operations AS o (action, search, ids, priority, filter_hash, expected_max, as_of, ceiling, by_whom, note, principal)
  VALUES (:action::text, :search::text, :ids::bigint[], :priority::smallint, :filter_hash::text, :expected_max::bigint,
          :as_of::timestamptz, coalesce((SELECT max(j.id) FROM {schema}.jobs j), 0), :by_whom::text, :note::text, :principal::text::jsonb)
  RETURNING {operation_columns}, NULL::text AS was),
{operation_audited}
SELECT {operation_columns} FROM changed o

-- name: operation
-- One operation that the caller may see.
SELECT {operation_columns} FROM {schema}.operations o WHERE o.id = :id::bigint AND {own_operation}

-- name: operations_list
-- The newest operations first.
SELECT {operation_columns} FROM {schema}.operations o WHERE {own_operation} ORDER BY o.id DESC LIMIT :n::integer

-- name: operation_rights
-- What its starter may do today: by the presented token, if it is still valid, with its roles; else by the permissions
-- given then, with the roles named then or granted since, each as it is now. One read by primary keys per batch.
SELECT o.principal ->> 'token' IS NULL OR coalesce({token_lives}, false) AS lives,
       CASE WHEN o.principal ->> 'token' IS NULL
            THEN ARRAY(SELECT jsonb_array_elements_text(o.principal -> 'permissions')) ELSE coalesce(t.permissions, '{}') END
       || ARRAY(SELECT p FROM {schema}.roles r CROSS JOIN unnest(r.permissions) AS p
                WHERE r.name = ANY (coalesce(t.roles, ARRAY(SELECT jsonb_array_elements_text(o.principal -> 'roles'))))
                   OR (o.principal ->> 'token' IS NULL AND r.name IN (
                         SELECT g.role FROM {schema}.role_grants g WHERE g.subject = o.principal ->> 'subject'))) AS permissions
FROM {schema}.operations o LEFT JOIN {schema}.tokens t ON t.id = o.principal ->> 'token'
WHERE o.id = :id::bigint

-- name: operation_cancel
-- The driver finds out at the end of its batch, whose transaction it then rolls back.
WITH changed AS (
  UPDATE {schema}.operations o SET state = 'cancelled', finished_at = clock_timestamp()
  WHERE o.id = :id::bigint AND o.state = 'running' AND {own_operation} RETURNING {operation_columns}, 'running' AS was),
{operation_audited}
SELECT {operation_columns} FROM changed o

-- name: operation_take
-- Compare-and-set: of several processes that find it abandoned, one has it for the next thirty seconds.
UPDATE {schema}.operations o SET driven_until = clock_timestamp() + interval '30 s'
WHERE o.id = (SELECT x.id FROM {schema}.operations x WHERE x.state = 'running' AND x.driven_until < clock_timestamp()
                AND (:only::text[] IS NULL OR 'operation ' || x.id = ANY (:only::text[]))
              ORDER BY x.driven_until LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING {operation_columns}

-- name: operation_advance
-- In the transaction of its batch, after the job rows: nothing is counted that did not happen, and nothing happens
-- twice. No row: it was cancelled, or another driver did this batch first; then the whole batch is rolled back.
UPDATE {schema}.operations o
SET cursor = :cursor::bigint, done = o.done + :done::bigint, skipped = o.skipped + :skipped::bigint, failed = o.failed + :failed::bigint,
    state = :state::text, error = coalesce(:error::text, o.error),
    finished_at = CASE WHEN :state::text <> 'running' THEN clock_timestamp() END,
    driven_until = clock_timestamp() + interval '30 s'
WHERE o.id = :id::bigint AND o.cursor = :was::bigint AND o.state = 'running'
RETURNING {operation_columns}

-- name: operation_leave
-- Its driver stops: any other process may take over at once. Locked in id order.
UPDATE {schema}.operations o SET driven_until = clock_timestamp()
FROM (SELECT x.id FROM {schema}.operations x WHERE x.id = ANY (:ids::bigint[]) AND x.state = 'running' ORDER BY x.id FOR NO KEY UPDATE) AS own
WHERE o.id = own.id

-- name: prune_operations
-- A month is enough to look back at. Nothing else writes the row of an operation that has ended.
DELETE FROM {schema}.operations o WHERE o.finished_at < now() - interval '30 days' AND (:only::text[] IS NULL OR 'operation ' || o.id = ANY (:only::text[]))

-- name: abandoned_operations
-- For operation_take when it is run in parts.
SELECT 'operation ' || o.id AS id FROM {schema}.operations o WHERE o.state = 'running' AND o.driven_until < clock_timestamp()
ORDER BY o.driven_until LIMIT 100

-- name: old_operations
-- For prune_operations when it is run in parts.
SELECT 'operation ' || o.id AS id FROM {schema}.operations o WHERE o.finished_at < now() - interval '30 days'
