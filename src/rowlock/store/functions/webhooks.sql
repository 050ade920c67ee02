-- Webhooks: jobs that tell another system that a job has reached a state. docs/decisions/ says why they are made so, and
-- what they cost.

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
