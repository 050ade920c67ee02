-- delivery: messages to carriers about jobs that are due. The table jobs stays authoritative: a message only names a job,
-- and the process that gets it claims the job by id, like any worker. So a message too many runs nothing twice, and one that
-- was lost is sent again.

-- fragment: has_message
-- A message was sent for this stay in the queue (its fence), after the job was due, and not too long ago.
EXISTS (SELECT 1 FROM {schema}.job_deliveries d
        WHERE d.job_id = j.id AND d.fence = j.fence AND d.delivered_at >= j.run_after AND d.again_at > clock_timestamp())

-- fragment: reserved
-- Written before the message is sent, for the jobs of a CTE `due (id, fence, kind, priority, run_after, carrier)`: of several
-- processes that see the same job, one sends it. In id order, so that two of them wait for each other in one direction. A
-- process that dies here leaves a reservation that ends after `unsent`.
noted AS (
  INSERT INTO {schema}.job_deliveries AS d (job_id, fence, carrier, delivered_at, again_at)
  SELECT due.id, due.fence, due.carrier, clock_timestamp(), clock_timestamp() + :unsent::interval FROM due ORDER BY due.id
  ON CONFLICT (job_id) DO UPDATE
    SET sent = CASE WHEN d.fence = excluded.fence THEN least(d.sent + 1, 32000) ELSE 1 END, fence = excluded.fence,
        carrier = excluded.carrier, backend_job_id = NULL, delivered_at = excluded.delivered_at, again_at = excluded.again_at
    WHERE d.fence < excluded.fence OR d.again_at <= clock_timestamp()
       OR d.delivered_at < (SELECT j.run_after FROM {schema}.jobs j WHERE j.id = d.job_id)
  RETURNING d.job_id, d.sent)
SELECT due.id, due.fence, due.kind, due.carrier, noted.sent FROM noted JOIN due ON due.id = noted.job_id
ORDER BY due.priority DESC, due.run_after, due.id

-- name: reserve_started
-- Right after jobs became due: from the pairs and positions that a wake-up names, through the claim index.
WITH due AS MATERIALIZED (
  SELECT h.id, h.fence, p.kind, p.priority, h.run_after, p.carrier
  FROM unnest(:kinds::text[], :priorities::smallint[], :shares::smallint[], :lows::timestamptz[], :carriers::text[])
    AS p(kind, priority, share, lo, carrier)
  CROSS JOIN LATERAL (
    SELECT j.id, j.fence, j.run_after FROM {schema}.jobs j
    WHERE j.state = 'queued' AND j.kind = p.kind AND j.priority = p.priority AND j.share = p.share
      AND j.run_after >= p.lo AND j.run_after <= statement_timestamp() AND NOT {has_message}
    ORDER BY j.run_after, j.id LIMIT :most::integer) AS h
  LIMIT :most::integer),
{reserved}

-- name: reserve_ids
-- The same for jobs that `undelivered` has found; checked again, since others may have told of them meanwhile.
WITH due AS MATERIALIZED (
  SELECT j.id, j.fence, j.kind, j.priority, j.run_after, u.carrier
  FROM unnest(:ids::bigint[], :carriers::text[]) AS u(id, carrier) JOIN {schema}.jobs j ON j.id = u.id
  WHERE j.state = 'queued' AND j.run_after <= statement_timestamp() AND NOT {has_message}),
{reserved}

-- name: undelivered
-- Every due job of these kinds that no message stands for, most urgent first; `most` of each kind. Reads all waiting jobs of
-- the kinds, so it is the slow way: for what no process has announced, and for messages that were lost.
SELECT h.id, k.kind FROM unnest(:kinds::text[], :mosts::integer[]) AS k(kind, most)
CROSS JOIN LATERAL (
  SELECT j.id, j.priority, j.run_after FROM {schema}.jobs j
  WHERE j.state = 'queued' AND j.kind = k.kind AND j.run_after <= statement_timestamp() AND NOT {has_message}
  ORDER BY j.priority DESC, j.run_after, j.id LIMIT k.most) AS h
ORDER BY h.priority DESC, h.run_after, h.id

-- name: delivery_load
-- How many jobs of these kinds have a message out or run: a lane with a limit gets no more messages than it has room for.
SELECT (SELECT count(*) FROM {schema}.jobs j WHERE j.state = 'queued' AND j.kind = ANY (:kinds::text[]) AND {has_message})
     + (SELECT count(*) FROM {schema}.jobs j WHERE j.state = 'running' AND j.lane = :lane::text) AS taken

-- name: delivered
-- The messages were sent. The next one for the same stay follows after a while, then after twice as long, and so on: a broker
-- with a long queue has lost nothing.
UPDATE {schema}.job_deliveries d
SET backend_job_id = s.backend_job_id, again_at = clock_timestamp() + :again::interval * 2 ^ least(d.sent - 1, 6)
FROM (SELECT x.job_id, u.backend_job_id
      FROM unnest(:ids::bigint[], :fences::integer[], :backend_job_ids::text[]) AS u(id, fence, backend_job_id)
      JOIN {schema}.job_deliveries x ON x.job_id = u.id AND x.fence = u.fence ORDER BY x.job_id FOR NO KEY UPDATE OF x) AS s
WHERE d.job_id = s.job_id

-- name: undeliver
-- No message stands for these jobs any more: it could not be sent, is lost, or came at a moment at which its job could not
-- start. Only while they wait under the same fence. after: how long the next message waits.
UPDATE {schema}.job_deliveries d
SET again_at = clock_timestamp() + :after::interval, sent = CASE WHEN :counts::boolean THEN d.sent ELSE 0 END
FROM (SELECT x.job_id FROM {schema}.job_deliveries x JOIN {schema}.jobs j ON j.id = x.job_id AND j.fence = x.fence
      WHERE x.job_id = ANY (:ids::bigint[]) AND j.state = 'queued' ORDER BY x.job_id FOR NO KEY UPDATE OF x) AS s
WHERE d.job_id = s.job_id

-- name: messages_out
-- The messages that should still be with a carrier, the oldest first, so that it can be asked for them. A message that was sent
-- a moment ago is left alone: its job may just be claimed.
SELECT j.id, d.backend_job_id FROM {schema}.jobs j JOIN {schema}.job_deliveries d ON d.job_id = j.id AND d.fence = j.fence
WHERE j.state = 'queued' AND j.kind = ANY (:kinds::text[]) AND d.carrier = :carrier::text AND d.backend_job_id IS NOT NULL
  AND d.delivered_at < clock_timestamp() - :settled::interval AND d.again_at > clock_timestamp()
ORDER BY d.delivered_at, j.id LIMIT :most::integer

-- name: job_delivery
-- The newest message about a job, for its explanation; asked only where the table is there.
SELECT d.carrier, d.fence, d.backend_job_id, d.sent, d.delivered_at, d.again_at, clock_timestamp() AS now
FROM {schema}.job_deliveries d WHERE d.job_id = :id::bigint

-- name: elect_deliverer
-- One process of an application looks for undelivered jobs at a time; every application has a row of its own, since none can
-- deliver the jobs of another. A look that took long is repeated more rarely, like every duty.
INSERT INTO {schema}.duties AS d (name, every, last_run_at) VALUES (:name::text, :every::interval, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET last_run_at = clock_timestamp(), epoch = d.epoch + 1, every = excluded.every
WHERE NOT d.last_run_at BETWEEN clock_timestamp() - greatest(excluded.every, make_interval(secs => 20 * d.last_ms / 1000.0))
                            AND clock_timestamp()
RETURNING d.epoch

-- name: forget_deliverers
-- Applications that have not looked for a month are gone.
DELETE FROM {schema}.duties d WHERE d.name LIKE 'deliver %' AND d.last_run_at < now() - interval '31 days'
