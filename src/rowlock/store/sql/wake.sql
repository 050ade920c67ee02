-- wake: wakes workers for claimable jobs, and sends messages to every listener. model/notify_messages.py has the messages.

-- fragment: hungry
EXISTS (SELECT 1 FROM {schema}.workers w WHERE w.hungry AND w.state = 'up' AND w.seen_at > now() - interval '15 s')

-- fragment: worth_waking
-- Under a frozen snapshot the hungry flags may be old, so there it always notifies.
(current_setting('transaction_isolation') <> 'read committed' OR {hungry})

-- fragment: room_to_notify
-- A NOTIFY that finds the queue of the server full fails its whole transaction, at the commit: the job, the outcome or
-- the order with it. Every listener also polls, so a statement notifies only while there is room. Asked last, once
-- there is something to tell.
(pg_notification_queue_usage() < 0.9)

-- name: wake
-- After the commit, on a connection of the library's own; sends nothing while every worker is busy.
SELECT CASE WHEN {room_to_notify} THEN pg_notify(:channel::text, :payload::text) IS NOT NULL ELSE false END AS notified WHERE {hungry}

-- name: wake_inside
-- Inside the user's transaction, when its commit cannot be observed: PostgreSQL delivers the message at the commit.
SELECT pg_notify(:channel::text, :payload::text) WHERE {worth_waking} AND {room_to_notify}

-- name: notify
-- Unlike `wake` also while every worker is busy: for messages that every listener should receive.
SELECT pg_notify(:channel::text, :payload::text) WHERE {room_to_notify}
