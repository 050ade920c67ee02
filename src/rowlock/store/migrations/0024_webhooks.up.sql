-- Webhooks: endpoints of other systems, their secrets, and triggers that insert a delivery, a job, in the transaction in which a
-- job reaches a state. New tables and functions; the triggers on jobs are added under a short lock, and nothing is rewritten
-- or scanned. Code of before runs on it: it has no handler for deliveries, so it claims none.
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

-- Inserts a delivery for each of these jobs and each enabled webhook that asks for its kind, state and tenant. The rows are
-- read as the statement under way has left them. A pattern is a name, or its beginning and a *: no LIKE, whose escapes
-- could raise an error and refuse the outcome of a job. The jobs of hooks (report/on_success) are for patterns with a
-- slash, and a delivery is never told of: it would follow itself.
CREATE FUNCTION {schema}.webhook_send(p_ids bigint[]) RETURNS void LANGUAGE sql AS $$
  WITH sent AS (
    INSERT INTO {schema}.jobs (kind, max_attempts, tenant, gate_key, args, refs)
    SELECT 'rowlock.webhook', 8, j.tenant, 'webhook:' || w.id,
           jsonb_build_object('webhook', w.id, 'job', j.id, 'fence', j.fence, 'kind', j.kind, 'state', j.state,
                              'attempt', j.attempt, 'at', coalesce(j.finished_at, clock_timestamp())),
           jsonb_build_object('webhook', w.id::text)
      FROM {schema}.jobs j
      JOIN {schema}.webhooks w ON w.enabled AND j.state = ANY (w.states) AND (w.tenant IS NULL OR w.tenant = j.tenant)
     WHERE j.id = ANY (p_ids) AND j.kind <> 'rowlock.webhook'
       AND EXISTS (SELECT 1 FROM unnest(w.kinds) AS p(pattern)
                    WHERE (p.pattern = j.kind OR (right(p.pattern, 1) = '*' AND starts_with(j.kind, left(p.pattern, -1))))
                      AND (strpos(j.kind, '/') = 0 OR strpos(p.pattern, '/') > 0))
     ORDER BY j.id, w.id
    RETURNING id, refs)
  INSERT INTO {schema}.job_refs (name, value, job_id) SELECT 'webhook', s.refs ->> 'webhook', s.id FROM sent s
$$;

-- Runs after every statement that updates jobs, in its transaction, as count_job_changes does: whichever path ends a job
-- (worker, rescue, expiry, order, workflow, SQL by hand), its deliveries are written with the end or not at all. Without
-- an enabled webhook it looks at one empty table and leaves.
CREATE FUNCTION {schema}.webhook_job_changes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE v_ids bigint[];
BEGIN
  IF NOT EXISTS (SELECT 1 FROM {schema}.webhooks w WHERE w.enabled) THEN RETURN NULL; END IF;
  IF NOT EXISTS (SELECT 1 FROM new_jobs n WHERE n.finished_at IS NOT NULL OR n.state = 'pending') THEN RETURN NULL; END IF;
  SELECT array_agg(c.id) INTO v_ids FROM (
    SELECT n.id, n.state, n.finished_at, o.state AS state_before FROM old_jobs o FULL JOIN new_jobs n ON n.id = o.id OFFSET 0) AS c
   WHERE c.state <> c.state_before AND (c.finished_at IS NOT NULL OR c.state = 'pending');
  IF v_ids IS NOT NULL THEN PERFORM {schema}.webhook_send(v_ids); END IF;
  RETURN NULL;
END $$;

-- The same for a job that is pending from its enqueue on. Only rows that are pending reach it: the trigger's WHEN decides
-- that without a call, so other enqueues pay nothing.
CREATE FUNCTION {schema}.webhook_job_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM {schema}.webhooks w WHERE w.enabled) THEN PERFORM {schema}.webhook_send(ARRAY[NEW.id]); END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER webhook_job_changes AFTER UPDATE ON {schema}.jobs REFERENCING OLD TABLE AS old_jobs NEW TABLE AS new_jobs
  FOR EACH STATEMENT EXECUTE FUNCTION {schema}.webhook_job_changes();
CREATE TRIGGER webhook_job_added AFTER INSERT ON {schema}.jobs FOR EACH ROW WHEN (NEW.state = 'pending')
  EXECUTE FUNCTION {schema}.webhook_job_added();

-- Sending data of jobs elsewhere is for administrators.
UPDATE {schema}.roles SET permissions = permissions || '{webhooks:manage}'::text[], updated_at = now()
 WHERE name = 'platform_admin' AND NOT 'webhooks:manage' = ANY (permissions);
