-- operations: orders for many jobs. The row is the only memory: whoever drives it may die between two batches.

-- fragment: operation_columns
o.id, o.action, o.search, o.ids, o.priority, o.filter_hash, o.expected_max, o.as_of, o.ceiling, o.cursor, o.done, o.skipped, o.failed,
o.state, o.error, o.by_whom, o.note, o.principal, o.created_at, o.finished_at

-- fragment: own_operation
-- Whoever does not see all jobs sees only the operations they started.
(:sees_all::boolean OR (o.principal ->> 'subject' = :subject::text AND o.principal ->> 'tenant' IS NOT DISTINCT FROM :tenant::text))

-- name: operation_add
-- ceiling: jobs enqueued from now on are not meant, whatever the search says.
INSERT INTO {schema}.operations AS o (action, search, ids, priority, filter_hash, expected_max, as_of, ceiling, by_whom, note, principal)
VALUES (:action::text, :search::text, :ids::bigint[], :priority::smallint, :filter_hash::text, :expected_max::bigint,
        :as_of::timestamptz, coalesce((SELECT max(j.id) FROM {schema}.jobs j), 0), :by_whom::text, :note::text, :principal::text::jsonb)
RETURNING {operation_columns}

-- name: operation
SELECT {operation_columns} FROM {schema}.operations o WHERE o.id = :id::bigint AND {own_operation}

-- name: operations_list
SELECT {operation_columns} FROM {schema}.operations o WHERE {own_operation} ORDER BY o.id DESC LIMIT :n::integer

-- name: operation_cancel
-- The driver finds out at the end of its batch, whose transaction it then rolls back.
UPDATE {schema}.operations o SET state = 'cancelled', finished_at = clock_timestamp()
WHERE o.id = :id::bigint AND o.state = 'running' AND {own_operation} RETURNING {operation_columns}

-- name: operation_take
-- Compare-and-set: of several that find it abandoned, one has it for the next thirty seconds.
UPDATE {schema}.operations o SET driven_until = clock_timestamp() + interval '30 s'
WHERE o.id = (SELECT x.id FROM {schema}.operations x WHERE x.state = 'running' AND x.driven_until < clock_timestamp()
              ORDER BY x.driven_until LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING {operation_columns}

-- name: operation_advance
-- In the transaction of its batch, after the job rows: nothing is counted that did not happen, nothing happens twice. No row: it
-- was cancelled, or another driver did this batch first; then the whole batch is rolled back.
UPDATE {schema}.operations o
SET cursor = :cursor::bigint, done = o.done + :done::bigint, skipped = o.skipped + :skipped::bigint, failed = o.failed + :failed::bigint,
    state = :state::text, error = coalesce(:error::text, o.error),
    finished_at = CASE WHEN :state::text <> 'running' THEN clock_timestamp() END,
    driven_until = clock_timestamp() + interval '30 s'
WHERE o.id = :id::bigint AND o.cursor = :was::bigint AND o.state = 'running'
RETURNING {operation_columns}

-- name: operation_leave
-- Its driver goes home: anybody may take over at once.
UPDATE {schema}.operations o SET driven_until = clock_timestamp() WHERE o.id = ANY (:ids::bigint[]) AND o.state = 'running'

-- name: prune_operations
DELETE FROM {schema}.operations o WHERE o.finished_at < now() - interval '30 days'
