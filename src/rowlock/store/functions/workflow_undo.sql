-- Compensation: undoing what the completed steps of a failed or cancelled workflow did.

-- A compensation as the columns of a job. A value that cannot be a column fails here, so a plan with it is never
-- written.
CREATE FUNCTION {schema}.workflow_undo_of(p_undo jsonb) RETURNS TABLE (kind text, args jsonb, priority smallint, share smallint, approval smallint,
  max_attempts smallint, gate_key text, tags text[], refs jsonb, meta jsonb, delay interval, expires_in interval, max_age interval,
  answer_in interval, rate_keys text[], rate_weight smallint) LANGUAGE sql STABLE AS $$
  SELECT u.kind, coalesce(u.args, '{}'), coalesce(u.priority, 0::smallint), coalesce(u.share, 0::smallint), coalesce(u.approval, 0::smallint),
         coalesce(u.max_attempts, 5::smallint), u.gate_key, u.tags, u.refs, u.meta, u.delay, u.expires_in, u.max_age, u.answer_in,
         u.rate_keys, u.rate_weight
    FROM jsonb_to_record(p_undo) AS u(kind text, args jsonb, priority smallint, share smallint, approval smallint, max_attempts smallint,
         gate_key text, tags text[], refs jsonb, meta jsonb, delay interval, expires_in interval, max_age interval, answer_in interval,
         rate_keys text[], rate_weight smallint)
$$;

-- Inserts the compensations of the completed steps, when every step is final and the workflow did not succeed: the last
-- step first, one after the other, each whatever became of the one before. A compensation is a job like any other, and
-- its options count from now. Its name is `undo <step>`; plans keep clear of that name, and if a step has it all the
-- same, the id is appended. Answers the jobs that were released; NULL: there is nothing to undo.
CREATE FUNCTION {schema}.workflow_undo(p_id bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE v_first bigint; v_n integer;
BEGIN
  WITH undone AS MATERIALIZED (
    SELECT s.name AS undoes, u.*, row_number() OVER (ORDER BY j.finished_at DESC, j.id DESC) AS n,
           nextval(pg_get_serial_sequence('{schema}.jobs', 'id')) AS id
      FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id
     CROSS JOIN LATERAL {schema}.workflow_undo_of(s.undo) AS u
     WHERE s.workflow_id = p_id AND s.undo IS NOT NULL AND j.state IN ('completed', 'completed_with_errors')),
  jobs AS (
    INSERT INTO {schema}.jobs (id, kind, priority, share, approval, max_attempts, args, meta, tags, refs, gate_key, rate_keys,
                               rate_weight, too_old_at, state, workflow_id, tenant, submitted_by)
    SELECT u.id, u.kind, u.priority, u.share, u.approval, u.max_attempts, u.args, u.meta, u.tags, u.refs, u.gate_key, u.rate_keys,
           u.rate_weight, clock_timestamp() + u.max_age, 'blocked', p_id, w.tenant, w.submitted_by
      FROM undone u CROSS JOIN {schema}.workflows w WHERE w.id = p_id),
  steps AS (
    INSERT INTO {schema}.workflow_steps (job_id, workflow_id, name, undoes)
    SELECT u.id, p_id, 'undo ' || u.undoes || CASE WHEN EXISTS (
             SELECT 1 FROM {schema}.workflow_steps o WHERE o.workflow_id = p_id AND o.name = 'undo ' || u.undoes) THEN ' ' || u.id ELSE '' END,
           u.undoes FROM undone u),
  linked AS (
    INSERT INTO {schema}.edges (upstream, downstream, needs)
    SELECT a.id, b.id, 'finish' FROM undone a JOIN undone b ON b.n = a.n + 1),
  waiting AS (
    INSERT INTO {schema}.waits (job_id, remaining, delay, expires_in, answer_in)
    SELECT u.id, (u.n > 1)::integer, u.delay, u.expires_in, u.answer_in FROM undone u),
  referenced AS (
    INSERT INTO {schema}.job_refs (name, value, job_id)
    SELECT r.name, r.value, u.id
      FROM undone u CROSS JOIN LATERAL (
        SELECT e.key AS name, e.value FROM jsonb_each_text(u.refs) AS e WHERE e.value IS NOT NULL
        UNION SELECT 'tag', tag FROM unnest(u.tags) AS tag) AS r
    ON CONFLICT DO NOTHING)
  SELECT min(u.id) FILTER (WHERE u.n = 1), count(*) INTO v_first, v_n FROM undone u;
  IF v_n = 0 THEN RETURN NULL; END IF;
  UPDATE {schema}.workflows w SET state = 'compensating', open = w.open + v_n, total = w.total + v_n WHERE w.id = p_id;
  RETURN coalesce({schema}.workflow_release(ARRAY[v_first]), '[]');
END $$;
