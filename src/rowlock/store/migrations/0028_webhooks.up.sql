-- Webhooks: endpoints of other systems, their secrets, and triggers that insert a delivery, a job, in the transaction in which a
-- job reaches a state. New tables and functions, and one more body for a trigger; a trigger on inserts is added under a short
-- lock, and nothing is rewritten or scanned. Code of before runs on it: it has no handler for deliveries, so it claims none.
-- For code made for version 2 or later.

-- Read by every statement that ends jobs: a few narrow rows, updated in place.
CREATE TABLE {schema}.webhooks (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  url text NOT NULL CHECK (length(url) BETWEEN 1 AND 2000),
  kinds text[] NOT NULL CHECK (cardinality(kinds) > 0),
  states text[] NOT NULL CHECK (cardinality(states) > 0),
  tenant text,
  include text[] NOT NULL DEFAULT '{}',
  description text,
  enabled boolean NOT NULL DEFAULT true,
  disabled_reason text,
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  created_by text,
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  delivered_at timestamptz,
  failed_at timestamptz,
  last_error text,
  failures integer NOT NULL DEFAULT 0,
  given_up integer NOT NULL DEFAULT 0) WITH (fillfactor = 50);

-- Apart from the endpoints, so that no listing reads them. As they are, since every delivery is signed with them. The newest
-- has no expires_at; the ones before it sign as well until theirs.
CREATE TABLE {schema}.webhook_secrets (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  webhook_id bigint NOT NULL,
  secret bytea NOT NULL CHECK (length(secret) BETWEEN 24 AND 64),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at timestamptz);
CREATE INDEX webhook_secrets_webhook ON {schema}.webhook_secrets (webhook_id);

-- Inserts a delivery for each of these jobs and each enabled webhook that asks for its kind, state and tenant. The jobs come
-- as arrays: the plan is kept from the first call on, and one that reads them from the table may be a scan. A pattern is a
-- name, or its beginning and a *: no LIKE, whose escapes could raise an error and refuse the outcome of a job. The jobs of
-- hooks (report/on_success) are for patterns with a slash, and a delivery is never told of: it would follow itself. One
-- plan for all calls: a plan for each takes a millisecond, and short arrays would always seem worth it.
CREATE FUNCTION {schema}.webhook_send(
  p_ids bigint[], p_fences integer[], p_kinds text[], p_states text[], p_attempts smallint[], p_tenants text[], p_ends timestamptz[])
RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  WITH sent AS (
    INSERT INTO {schema}.jobs (kind, max_attempts, tenant, gate_key, args, refs)
    SELECT 'rowlock.webhook', 8, j.tenant, 'webhook:' || w.id,
           jsonb_build_object('webhook', w.id, 'job', j.id, 'fence', j.fence, 'kind', j.kind, 'state', j.state,
                              'attempt', j.attempt, 'at', coalesce(j.finished_at, clock_timestamp())),
           jsonb_build_object('webhook', w.id::text)
      FROM unnest(p_ids, p_fences, p_kinds, p_states, p_attempts, p_tenants, p_ends)
           AS j(id, fence, kind, state, attempt, tenant, finished_at)
      JOIN {schema}.webhooks w ON w.enabled AND j.state = ANY (w.states) AND (w.tenant IS NULL OR w.tenant = j.tenant)
     WHERE j.kind <> 'rowlock.webhook'
       AND EXISTS (SELECT 1 FROM unnest(w.kinds) AS p(pattern)
                    WHERE (p.pattern = j.kind OR (right(p.pattern, 1) = '*' AND starts_with(j.kind, left(p.pattern, -1))))
                      AND (strpos(j.kind, '/') = 0 OR strpos(p.pattern, '/') > 0))
     ORDER BY j.id, w.id
    RETURNING id, refs)
  INSERT INTO {schema}.job_refs (name, value, job_id) SELECT 'webhook', s.refs ->> 'webhook', s.id FROM sent s;
END $$;

-- For a job that is pending from its enqueue on; count_job_changes() sees every later change. Only rows that are pending
-- reach it: the trigger's WHEN decides that without a call, so other enqueues pay nothing.
CREATE FUNCTION {schema}.webhook_job_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM {schema}.webhooks w WHERE w.enabled) THEN
    PERFORM {schema}.webhook_send(ARRAY[NEW.id], ARRAY[NEW.fence], ARRAY[NEW.kind], ARRAY[NEW.state], ARRAY[NEW.attempt],
                                  ARRAY[NEW.tenant], ARRAY[NEW.finished_at]);
  END IF;
  RETURN NULL;
END $$;

-- Runs after every statement that updates jobs, in its transaction: an end is counted exactly when it is accepted,
-- whichever path, release or SQL client wrote it. It only appends, so no writer waits for the counts of another. A
-- statement that only claims leaves at once: starts are ends of attempts plus running jobs. FULL JOIN and OFFSET 0: the
-- plan is kept from the first call on, usually one with a single row, and a full join is never a nested loop, which
-- would compare every row of a batch of 500 with every other. The subquery is entered only for the rows that need it.
-- A claim that its gate or rate puts back has no claimed_at any more, and was no attempt. An attempt that ends without
-- ending its job is described by its attempt row, unless no worker could read the job twice for the same cause. Only a
-- statement that wrote a failure reads its rows a second time, for the failure groups, and only while there is an enabled webhook are they read
-- once more, for its deliveries: looking for one within the last statement costs no statement of its own.
CREATE OR REPLACE FUNCTION {schema}.count_job_changes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE v_failed boolean; v_told boolean;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM new_jobs n WHERE n.state <> 'running') THEN RETURN NULL; END IF;
  WITH counted AS (
  INSERT INTO {schema}.count_increments (outcome, state, kind, lane, tenant, run_bucket, wait_bucket, n, run_seconds, wait_seconds)
  SELECT CASE WHEN c.outcome <> c.state THEN c.outcome ELSE '' END, c.state, c.kind, c.lane, c.tenant,
         {schema}.count_bucket(c.ran), {schema}.count_bucket(c.waited), count(*), coalesce(sum(c.ran), 0), coalesce(sum(c.waited), 0)
    FROM (
      SELECT CASE WHEN o.state = n.state THEN NULL
                  WHEN o.state = 'running' AND n.claimed_at IS NULL THEN NULL
                  WHEN o.state = 'running' AND n.state = 'completed' THEN n.state
                  WHEN o.state = 'running' THEN
                    coalesce((SELECT a.outcome FROM {schema}.job_attempts a WHERE a.job_id = o.id AND a.fence = o.fence),
                             CASE WHEN n.finished_at IS NULL THEN 'unreadable' ELSE n.state END)
                  WHEN o.finished_at IS NULL AND n.finished_at IS NOT NULL THEN 'unstarted'
                  WHEN o.finished_at IS NOT NULL AND n.finished_at IS NULL THEN 'reopened' END AS outcome,
             CASE WHEN n.finished_at IS NOT NULL THEN n.state ELSE '' END AS state,
             n.kind, coalesce(n.lane, o.lane, '') AS lane, coalesce(n.tenant, '') AS tenant,
             CASE WHEN o.state = 'running' THEN greatest(0, date_part('epoch', now() - n.claimed_at)) END AS ran,
             CASE WHEN o.state = 'running' THEN greatest(0, date_part('epoch', n.claimed_at - o.run_after)) END AS waited
        FROM old_jobs o FULL JOIN new_jobs n ON n.id = o.id OFFSET 0) AS c
   WHERE c.outcome IS NOT NULL
   GROUP BY 1, 2, 3, 4, 5, 6, 7
  RETURNING outcome, state)
  SELECT bool_or(d.state = 'failed' OR d.outcome IN ('failed', 'died', 'lost')),
         EXISTS (SELECT 1 FROM {schema}.webhooks w WHERE w.enabled) INTO v_failed, v_told FROM counted d;
  IF v_failed THEN
    INSERT INTO {schema}.failure_increments (n, ended, job_id, fingerprint, kind, tenant)
    SELECT count(*), f.ended, max(f.id), {schema}.failure_fingerprint(f.kind, f.errors), f.kind, f.tenant
      FROM (
        SELECT CASE WHEN o.state = n.state OR o.finished_at IS NOT NULL THEN false
                    WHEN n.state = 'failed' THEN true
                    WHEN o.state = 'running' AND n.finished_at IS NULL AND n.claimed_at IS NOT NULL THEN
                      (SELECT a.outcome FROM {schema}.job_attempts a WHERE a.job_id = o.id AND a.fence = o.fence)
                        IN ('failed', 'died', 'lost') END AS failed,
               n.state = 'failed' AS ended, n.id, n.kind, coalesce(n.tenant, '') AS tenant, n.errors
          FROM old_jobs o FULL JOIN new_jobs n ON n.id = o.id OFFSET 0) AS f
     WHERE f.failed
     GROUP BY 2, 4, 5, 6;
  END IF;
  IF v_told THEN
    PERFORM {schema}.webhook_send(array_agg(c.id), array_agg(c.fence), array_agg(c.kind), array_agg(c.state), array_agg(c.attempt),
                                  array_agg(c.tenant), array_agg(c.finished_at))
      FROM (SELECT n.id, n.fence, n.kind, n.state, n.attempt, n.tenant, n.finished_at, o.state AS state_before
              FROM old_jobs o FULL JOIN new_jobs n ON n.id = o.id OFFSET 0) AS c
     WHERE c.state <> c.state_before AND (c.finished_at IS NOT NULL OR c.state = 'pending');
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER webhook_job_added AFTER INSERT ON {schema}.jobs FOR EACH ROW WHEN (NEW.state = 'pending')
  EXECUTE FUNCTION {schema}.webhook_job_added();

-- Sending data of jobs elsewhere is for administrators.
UPDATE {schema}.roles SET permissions = permissions || '{webhooks:manage}'::text[], updated_at = now()
 WHERE name = 'platform_admin' AND NOT 'webhooks:manage' = ANY (permissions);
