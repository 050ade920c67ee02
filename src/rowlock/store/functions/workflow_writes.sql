-- How workflows begin, grow and run again. Each takes several statements under one lock: each statement has a snapshot
-- taken after the lock, which a single statement would not have.

-- Inserts the steps of a plan into a workflow whose row the caller holds, and the edges by name, also to steps that are
-- already there. A step without edges is queued (or pending) at once. One statement per table, so the cost is bounded
-- by the plan. Refuses a plan as a whole: an edge to an unknown step, a name that is taken, a compensation that could
-- not be written later.
CREATE FUNCTION {schema}.workflow_write(p_id bigint, p_plan jsonb) RETURNS TABLE
  (name text, job_id bigint, kind text, priority smallint, share smallint, state text, run_after timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE v_name text; v_why text;
BEGIN
  -- What takes a step back is written in the statement that ends the last one, beside the ends of other jobs: it must not fail there.
  SELECT s.name, CASE
      WHEN jsonb_typeof(s.undo) <> 'object' THEN 'must be an object'
      WHEN coalesce(length(u.kind), 0) NOT BETWEEN 1 AND 200 THEN 'needs a kind of 1 to 200 characters'
      WHEN u.priority NOT BETWEEN -100 AND 100 THEN 'has a priority from -100 to 100'
      WHEN u.max_attempts < 1 THEN 'has at least one attempt'
      WHEN jsonb_typeof(u.refs) <> 'object' THEN 'has refs by name'
      WHEN greatest(octet_length(u.gate_key), (
        SELECT max(octet_length(x.value)) FROM (
          SELECT unnest(u.tags || u.rate_keys) UNION ALL
          SELECT unnest(ARRAY[e.key, e.value]) FROM jsonb_each_text(CASE WHEN jsonb_typeof(u.refs) = 'object' THEN u.refs END) AS e) AS x(value))) > 1000
        THEN 'has keys, tags and refs of at most 1000 bytes' END
    INTO v_name, v_why
    FROM jsonb_to_recordset(p_plan -> 'steps') AS s(name text, undo jsonb)
    CROSS JOIN LATERAL {schema}.workflow_undo_of(CASE WHEN jsonb_typeof(s.undo) = 'object' THEN s.undo END) AS u
   WHERE s.undo IS NOT NULL ORDER BY 2 NULLS LAST LIMIT 1;
  IF v_why IS NOT NULL THEN
    RAISE EXCEPTION 'What takes step % back %.', v_name, v_why USING ERRCODE = 'check_violation';
  END IF;
  SELECT s.name INTO v_name FROM jsonb_to_recordset(p_plan -> 'steps') AS s(name text, undo jsonb)
   WHERE coalesce(length(s.name), 0) NOT BETWEEN 1 AND 200
      OR (s.undo IS NOT NULL AND EXISTS (SELECT 1 FROM {schema}.workflow_steps o WHERE o.workflow_id = p_id AND o.name = 'undo ' || s.name))
      OR (s.name LIKE 'undo %' AND (
            EXISTS (SELECT 1 FROM {schema}.workflow_steps o WHERE o.workflow_id = p_id AND o.name = substr(s.name, 6) AND o.undo IS NOT NULL)
            OR EXISTS (SELECT 1 FROM jsonb_to_recordset(p_plan -> 'steps') AS o(name text, undo jsonb)
                        WHERE o.name = substr(s.name, 6) AND o.undo IS NOT NULL))) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'A step cannot be named %: a name has 1 to 200 characters, and `undo <step>` is what takes that step back.', v_name
      USING ERRCODE = 'check_violation';
  END IF;
  SELECT x.name INTO v_name
    FROM jsonb_to_recordset(p_plan -> 'edges') AS e(upstream text, downstream text)
   CROSS JOIN LATERAL (VALUES (e.upstream), (e.downstream)) AS x(name)
    LEFT JOIN (SELECT s.name FROM jsonb_to_recordset(p_plan -> 'steps') AS s(name text)) AS s ON s.name = x.name
    LEFT JOIN {schema}.workflow_steps o ON s.name IS NULL AND o.workflow_id = p_id AND o.name = x.name
   WHERE s.name IS NULL AND o.name IS NULL LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'An edge names the step %, which neither the plan nor workflow % has.', v_name, p_id USING ERRCODE = 'foreign_key_violation';
  END IF;
  RETURN QUERY
  WITH step AS MATERIALIZED (
    SELECT s.*, nextval(pg_get_serial_sequence('{schema}.jobs', 'id')) AS id
      FROM jsonb_to_recordset(p_plan -> 'steps') AS s(name text, kind text, args jsonb, priority smallint, share smallint,
           approval smallint, max_attempts smallint, gate_key text, tags text[], refs jsonb, meta jsonb, delay interval,
           expires_in interval, max_age interval, answer_in interval, any_of boolean, rate_keys text[], rate_weight smallint, undo jsonb)),
  edge AS MATERIALIZED (
    SELECT coalesce(u.id, us.job_id) AS upstream, coalesce(d.id, ds.job_id) AS downstream, d.id IS NULL AS grown, e.needs
      FROM jsonb_to_recordset(p_plan -> 'edges') AS e(upstream text, downstream text, needs text)
      LEFT JOIN step u ON u.name = e.upstream
      LEFT JOIN {schema}.workflow_steps us ON u.id IS NULL AND us.workflow_id = p_id AND us.name = e.upstream
      LEFT JOIN step d ON d.name = e.downstream
      LEFT JOIN {schema}.workflow_steps ds ON d.id IS NULL AND ds.workflow_id = p_id AND ds.name = e.downstream),
  needed AS MATERIALIZED (SELECT e.downstream, count(*)::integer AS n FROM edge e GROUP BY e.downstream),
  written AS (
    INSERT INTO {schema}.jobs AS j (id, kind, priority, share, state, approval, run_after, expires_at, too_old_at, max_attempts, tenant,
        submitted_by, gate_key, tags, refs, meta, args, answer_by, rate_keys, rate_weight, workflow_id)
    SELECT s.id, s.kind, coalesce(s.priority, 0::smallint), coalesce(s.share, 0::smallint),
           CASE WHEN n.n > 0 THEN 'blocked' WHEN s.approval <> 0 THEN 'pending' ELSE 'queued' END, coalesce(s.approval, 0::smallint),
           t.run_after, CASE WHEN n.n > 0 THEN NULL ELSE t.run_after + s.expires_in END, t.now + s.max_age,
           coalesce(s.max_attempts, 5::smallint), w.tenant, w.submitted_by, s.gate_key, s.tags, s.refs, s.meta, coalesce(s.args, '{}'),
           CASE WHEN n.n > 0 THEN NULL ELSE t.now + s.answer_in END, s.rate_keys, s.rate_weight, p_id
      FROM step s CROSS JOIN {schema}.workflows w LEFT JOIN needed n ON n.downstream = s.id
     CROSS JOIN LATERAL (
       SELECT c.now, c.now + coalesce(s.delay, interval '0') AS run_after FROM (SELECT clock_timestamp() AS now, s.id OFFSET 0) AS c) AS t
     WHERE w.id = p_id
    RETURNING j.id, j.kind, j.priority, j.share, j.state, j.run_after),
  named AS (
    INSERT INTO {schema}.workflow_steps (job_id, workflow_id, name, undo) SELECT s.id, p_id, s.name, s.undo FROM step s),
  linked AS (INSERT INTO {schema}.edges (upstream, downstream, needs) SELECT e.upstream, e.downstream, coalesce(e.needs, 'success') FROM edge e),
  waiting AS (
    INSERT INTO {schema}.waits (job_id, remaining, any_of, delay, expires_in, answer_in)
    SELECT s.id, n.n, coalesce(s.any_of, false), s.delay, s.expires_in, s.answer_in FROM step s JOIN needed n ON n.downstream = s.id),
  more AS (
    UPDATE {schema}.waits w SET remaining = w.remaining + n.n
      FROM (SELECT e.downstream, count(*)::integer AS n FROM edge e WHERE e.grown GROUP BY e.downstream) AS n WHERE w.job_id = n.downstream),
  referenced AS (
    INSERT INTO {schema}.job_refs (name, value, job_id)
    SELECT r.name, r.value, s.id
      FROM step s CROSS JOIN LATERAL (
        SELECT e.key AS name, e.value FROM jsonb_each_text(s.refs) AS e WHERE e.value IS NOT NULL
        UNION SELECT 'tag', tag FROM unnest(s.tags) AS tag) AS r
    ON CONFLICT DO NOTHING),
  numbers AS (
    UPDATE {schema}.workflows w SET total = w.total + n.n, open = w.open + n.n FROM (SELECT count(*)::integer AS n FROM step) AS n WHERE w.id = p_id)
  SELECT s.name, x.id, x.kind, x.priority, x.share, x.state, x.run_after FROM step s JOIN written x ON x.id = s.id ORDER BY s.id;
END $$;

-- Makes a workflow with its plan, in the caller's transaction; or answers the live workflow that has the key, as it
-- stands.
CREATE FUNCTION {schema}.workflow_start(p_name text, p_tenant text, p_submitted_by text, p_key text, p_meta jsonb, p_plan jsonb) RETURNS TABLE
  (workflow_id bigint, what text, name text, job_id bigint, kind text, priority smallint, share smallint, state text, run_after timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE v_id bigint;
BEGIN
  IF coalesce(jsonb_array_length(p_plan -> 'steps'), 0) = 0 THEN
    RAISE EXCEPTION 'A workflow has at least one step; the plan of % has none.', p_name USING ERRCODE = 'invalid_parameter_value';
  END IF;
  LOOP
    INSERT INTO {schema}.workflows (name, tenant, submitted_by, unique_key, meta) VALUES (p_name, p_tenant, p_submitted_by, p_key, p_meta)
    ON CONFLICT (unique_key) WHERE finished_at IS NULL AND unique_key IS NOT NULL DO NOTHING RETURNING id INTO v_id;
    IF FOUND THEN
      RETURN QUERY SELECT v_id, 'created', x.* FROM {schema}.workflow_write(v_id, p_plan) AS x;
      RETURN;
    END IF;
    -- It may have ended since: then the key is free, and the next turn takes it.
    SELECT w.id INTO v_id FROM {schema}.workflows w WHERE w.unique_key = p_key AND w.finished_at IS NULL;
    IF FOUND THEN
      RETURN QUERY SELECT v_id, 'kept', s.name, j.id, j.kind, j.priority, j.share, j.state, j.run_after
        FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id WHERE s.workflow_id = v_id ORDER BY j.id;
      RETURN;
    END IF;
  END LOOP;
END $$;

-- Makes a plain job the first step of a workflow of its own, named after its kind; a step is left as it is. The job's
-- row is locked first: a finish that waits for the row sees the workflow when it goes on, and a finish that came first
-- is seen here. NULL: no such job.
CREATE FUNCTION {schema}.workflow_adopt(p_job bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE j {schema}.jobs; v_id bigint;
BEGIN
  SELECT x.* INTO j FROM {schema}.jobs x WHERE x.id = p_job FOR NO KEY UPDATE;
  IF NOT FOUND OR j.workflow_id IS NOT NULL THEN RETURN j.workflow_id; END IF;
  INSERT INTO {schema}.workflows (name, tenant, submitted_by, total, open, failed, cancelled, with_errors)
  VALUES (j.kind, j.tenant, j.submitted_by, 1, (j.finished_at IS NULL)::integer, (j.state IN ('failed', 'expired'))::integer,
          (j.state = 'cancelled')::integer, (j.state = 'completed_with_errors')::integer) RETURNING id INTO v_id;
  INSERT INTO {schema}.workflow_steps (job_id, workflow_id, name, ended) VALUES (p_job, v_id, j.kind, j.finished_at IS NOT NULL);
  UPDATE {schema}.jobs x SET workflow_id = v_id, seq = x.seq + 1 WHERE x.id = p_job;
  RETURN v_id;
END $$;

-- Adds the steps of a plan to a live workflow. p_fence: the claim of the running job that adds, held until the commit,
-- so that a lost claim adds nothing; NULL: a person adds. Without p_flow it is the workflow of p_job, which is adopted
-- if it is a plain job. A name that is there already is kept: the next attempt of a handler adds the same steps again.
-- "joins" in the plan: steps that wait for p_job also wait for the new steps that no new step waits for. what: created
-- or kept; or why nothing was added, with the name of the step in question: lost, missing, finished, cancelled, late
-- (that step no longer waits), unknown (no step of that name), reserved (the name of a compensation).
CREATE FUNCTION {schema}.workflow_add(p_job bigint, p_fence integer, p_flow bigint, p_plan jsonb, p_channel text) RETURNS TABLE
  (workflow_id bigint, what text, name text, job_id bigint, kind text, priority smallint, share smallint, state text, run_after timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_id bigint := p_flow; w {schema}.workflows; v_why text; v_name text; v_new jsonb; v_edges jsonb; v_kept text[]; v_ended bigint[];
  v_grown bigint;
BEGIN
  IF p_job IS NOT NULL THEN
    IF p_fence IS NOT NULL THEN
      -- A plain job's row will be written, so the strong lock is the first one: two that hold FOR SHARE would wait for each other.
      PERFORM 1 FROM {schema}.jobs j WHERE j.id = p_job AND j.workflow_id IS NULL FOR NO KEY UPDATE;
      SELECT j.workflow_id INTO v_id FROM {schema}.jobs j WHERE j.id = p_job AND j.fence = p_fence AND j.finished_at IS NULL FOR SHARE;
      IF NOT FOUND THEN RETURN QUERY SELECT NULL::bigint, 'lost', NULL::text, p_job, NULL::text, NULL::smallint, NULL::smallint, NULL::text, NULL::timestamptz; RETURN; END IF;
    END IF;
    IF v_id IS NULL THEN
      v_id := {schema}.workflow_adopt(p_job);
    END IF;
  END IF;
  SELECT x.* INTO w FROM {schema}.workflows x WHERE x.id = v_id FOR UPDATE;
  IF NOT FOUND THEN v_why := 'missing';
  ELSIF w.cancel_requested THEN v_why := 'cancelled';
  ELSIF w.finished_at IS NOT NULL AND p_job IS NOT NULL AND p_fence IS NULL AND w.verdict IS NULL AND NOT EXISTS (
    SELECT 1 FROM {schema}.workflows o WHERE o.unique_key = w.unique_key AND o.finished_at IS NULL) THEN
    -- A caller that adds a step behind a job cannot know whether the workflow ends at this moment: the workflow goes on.
    -- Steps that were undone stay undone.
    -- Another session may start a workflow with the same key at this moment, unseen until it commits: that workflow wins.
    BEGIN
      UPDATE {schema}.workflows x SET state = 'running', finished_at = NULL, kept_until = NULL WHERE x.id = v_id;
    EXCEPTION WHEN unique_violation THEN v_why := 'finished';
    END;
  ELSIF w.state <> 'running' THEN v_why := 'finished'; END IF;
  -- Without what is there already.
  SELECT array_agg(o.name) INTO v_kept FROM {schema}.workflow_steps o
    JOIN jsonb_to_recordset(p_plan -> 'steps') AS s(name text) ON s.name = o.name WHERE o.workflow_id = v_id;
  SELECT coalesce(jsonb_agg(s.step), '[]') INTO v_new FROM jsonb_array_elements(p_plan -> 'steps') AS s(step)
   WHERE NOT (s.step ->> 'name' = ANY (coalesce(v_kept, '{}')));
  WITH asked AS (
    SELECT e.upstream, e.downstream, coalesce(e.needs, 'success') AS needs
      FROM jsonb_to_recordset(p_plan -> 'edges') AS e(upstream text, downstream text, needs text)),
  joined AS (
    SELECT n.step ->> 'name' AS upstream, d.name AS downstream, e.needs
      FROM jsonb_array_elements(v_new) AS n(step) JOIN {schema}.edges e ON e.upstream = p_job
      JOIN {schema}.workflow_steps d ON d.job_id = e.downstream JOIN {schema}.waits x ON x.job_id = e.downstream
     WHERE (p_plan -> 'joins')::boolean AND e.met IS NULL AND (x.any_of OR e.needs <> 'failure')
       AND NOT EXISTS (SELECT 1 FROM asked a WHERE a.upstream = n.step ->> 'name'))
  SELECT coalesce(jsonb_agg(jsonb_build_object('upstream', a.upstream, 'downstream', a.downstream, 'needs', a.needs)), '[]') INTO v_edges
    FROM (SELECT * FROM asked UNION SELECT * FROM joined) AS a
   WHERE NOT EXISTS (
     SELECT 1 FROM {schema}.workflow_steps u JOIN {schema}.workflow_steps d ON d.workflow_id = v_id AND d.name = a.downstream
       JOIN {schema}.edges e ON e.upstream = u.job_id AND e.downstream = d.job_id
      WHERE u.workflow_id = v_id AND u.name = a.upstream);
  IF v_why IS NULL THEN
    SELECT 'reserved', n.step ->> 'name' INTO v_why, v_name
      FROM jsonb_array_elements(v_new) AS n(step)
      JOIN {schema}.workflow_steps o ON o.workflow_id = v_id AND n.step ->> 'name' = 'undo ' || o.name AND o.undo IS NOT NULL LIMIT 1;
  END IF;
  IF v_why IS NULL THEN
    SELECT CASE WHEN o.job_id IS NULL THEN 'unknown' ELSE 'late' END, x.name INTO v_why, v_name
      FROM jsonb_to_recordset(v_edges) AS e(upstream text, downstream text)
     CROSS JOIN LATERAL (VALUES (e.upstream, false), (e.downstream, true)) AS x(name, waits)
      LEFT JOIN {schema}.workflow_steps o ON o.workflow_id = v_id AND o.name = x.name
      LEFT JOIN {schema}.jobs j ON j.id = o.job_id LEFT JOIN {schema}.waits q ON q.job_id = o.job_id
     WHERE NOT EXISTS (SELECT 1 FROM jsonb_array_elements(v_new) AS n(step) WHERE n.step ->> 'name' = x.name)
       AND (o.job_id IS NULL OR (x.waits AND NOT (j.state = 'blocked' AND j.gate_place = 0 AND q.signal IS NULL AND q.job_id IS NOT NULL)))
     LIMIT 1;
  END IF;
  IF v_why IS NOT NULL THEN
    RETURN QUERY SELECT v_id, v_why, v_name, p_job, NULL::text, NULL::smallint, NULL::smallint, NULL::text, NULL::timestamptz;
    RETURN;
  END IF;
  PERFORM 1 FROM {schema}.workflow_write(v_id, jsonb_build_object('steps', v_new, 'edges', v_edges));
  FOR v_grown, v_name IN
      SELECT DISTINCT o.job_id, o.name FROM jsonb_to_recordset(v_edges) AS e(downstream text)
        JOIN {schema}.workflow_steps o ON o.workflow_id = v_id AND o.name = e.downstream
       WHERE NOT EXISTS (SELECT 1 FROM jsonb_array_elements(v_new) AS n(step) WHERE n.step ->> 'name' = o.name) LOOP
    PERFORM 1 FROM (
      WITH RECURSIVE behind AS (
        SELECT e.downstream FROM {schema}.edges e WHERE e.upstream = v_grown
        UNION SELECT e.downstream FROM behind b JOIN {schema}.edges e ON e.upstream = b.downstream)
      SELECT 1 FROM behind b WHERE b.downstream = v_grown) AS circle;
    IF FOUND THEN
      RAISE EXCEPTION 'Step % of workflow % would wait for itself.', v_name, v_id USING ERRCODE = 'check_violation';
    END IF;
  END LOOP;
  -- Edges from steps that have ended are known at once.
  SELECT array_agg(DISTINCT u.job_id) INTO v_ended FROM jsonb_to_recordset(v_edges) AS e(upstream text)
    JOIN {schema}.workflow_steps u ON u.workflow_id = v_id AND u.name = e.upstream AND u.ended;
  PERFORM {schema}.workflow_follow(v_ended, p_channel);
  RETURN QUERY
    SELECT v_id, CASE WHEN s.name = ANY (coalesce(v_kept, '{}')) THEN 'kept' ELSE 'created' END, s.name, j.id, j.kind, j.priority, j.share, j.state, j.run_after
      FROM jsonb_to_recordset(p_plan -> 'steps') AS n(name text)
      JOIN {schema}.workflow_steps s ON s.workflow_id = v_id AND s.name = n.name JOIN {schema}.jobs j ON j.id = s.job_id ORDER BY j.id;
END $$;

-- A job and every job that waits for it, directly or through others.
CREATE FUNCTION {schema}.workflow_behind(p_job bigint) RETURNS bigint[] LANGUAGE sql STABLE AS $$
  WITH RECURSIVE behind AS (
    SELECT p_job AS id UNION SELECT e.downstream FROM behind b JOIN {schema}.edges e ON e.upstream = b.id)
  SELECT array_agg(b.id) FROM behind b
$$;

-- Runs a step and everything behind it again; other steps stay as they are. Job rows are locked first, in id order,
-- then the workflow; what was read before the locks is read again after them. what: retried; or why not, with the step
-- in question: missing, unknown, waiting (it will run anyway), live (a step behind it runs or is about to: cancel that
-- first), compensated (its effects were undone), taken (another live workflow has the key), again (the workflow grew
-- meanwhile).
CREATE FUNCTION {schema}.workflow_retry(p_flow bigint, p_step text, p_by text, p_note text) RETURNS TABLE
  (workflow_id bigint, what text, name text, job_id bigint, kind text, priority smallint, share smallint, state text, run_after timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE w {schema}.workflows; v_first bigint; v_ids bigint[]; v_now bigint[]; v_why text; v_name text := p_step;
BEGIN
  SELECT s.job_id INTO v_first FROM {schema}.workflow_steps s WHERE s.workflow_id = p_flow AND s.name = p_step;
  v_ids := {schema}.workflow_behind(v_first);
  PERFORM 1 FROM {schema}.jobs j WHERE j.id = ANY (v_ids) ORDER BY j.id FOR UPDATE;
  SELECT x.* INTO w FROM {schema}.workflows x WHERE x.id = p_flow FOR UPDATE;
  v_now := {schema}.workflow_behind(v_first);
  IF w.id IS NULL THEN v_why := 'missing';
  ELSIF v_first IS NULL OR NOT EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.id = v_first) THEN v_why := 'unknown';
  ELSIF w.verdict IS NOT NULL THEN v_why := 'compensated';
  ELSIF NOT v_now <@ v_ids THEN v_why := 'again';
  ELSIF w.finished_at IS NOT NULL AND EXISTS (
    SELECT 1 FROM {schema}.workflows o WHERE o.unique_key = w.unique_key AND o.finished_at IS NULL) THEN v_why := 'taken';
  ELSE
    SELECT CASE WHEN j.id = v_first THEN 'waiting' ELSE 'live' END, s.name INTO v_why, v_name
      FROM {schema}.jobs j JOIN {schema}.workflow_steps s ON s.job_id = j.id LEFT JOIN {schema}.waits q ON q.job_id = j.id
     WHERE j.id = ANY (v_now) AND j.finished_at IS NULL
       AND (j.id = v_first OR j.state <> 'blocked' OR j.gate_place <> 0 OR q.signal IS NOT NULL) ORDER BY j.id <> v_first LIMIT 1;
  END IF;
  IF v_why IS NULL THEN
    BEGIN
      UPDATE {schema}.workflows x SET state = 'running', finished_at = NULL, kept_until = NULL, cancel_requested = false WHERE x.id = p_flow;
    EXCEPTION WHEN unique_violation THEN v_why := 'taken';
    END;
  END IF;
  IF v_why IS NOT NULL THEN
    RETURN QUERY SELECT p_flow, v_why, v_name, v_first, NULL::text, NULL::smallint, NULL::smallint, NULL::text, NULL::timestamptz;
    RETURN;
  END IF;
  INSERT INTO {schema}.job_attempts (job_id, fence, attempt, worker_id, worker_name, started_at, ended_at, outcome, error)
  SELECT j.id, j.fence - 1, j.attempt, j.claimed_by, k.name, j.claimed_at, j.finished_at, j.state, j.errors
    FROM {schema}.jobs j LEFT JOIN {schema}.workers k ON k.id = j.claimed_by
   WHERE j.id = ANY (v_now) AND j.finished_at IS NOT NULL AND j.claimed_by IS NOT NULL ON CONFLICT DO NOTHING;
  WITH again AS (
    UPDATE {schema}.jobs j
       SET state = CASE WHEN j.id <> v_first THEN 'blocked' WHEN j.approval & 3 = 1 THEN 'pending' ELSE 'queued' END,
           approvers = NULL, answer_by = NULL, finished_at = NULL, result = NULL, errors = NULL, attempt = 0, losses = 0, deaths = 0,
           refunds = 0, runs_before = coalesce(j.runs_before, 0) + j.attempt + j.losses + j.refunds, cancel_requested = false, claimed_by = NULL, claimed_at = NULL, lane = NULL, expires_at = NULL,
           too_old_at = NULL, gate_place = 0, run_after = clock_timestamp(), fence = j.fence + 1, seq = j.seq + 1
      FROM (SELECT x.id, x.state, x.finished_at FROM {schema}.jobs x WHERE x.id = ANY (v_now)) AS was
     WHERE j.id = was.id AND was.finished_at IS NOT NULL
    RETURNING j.id, j.fence, j.seq, was.state AS was, was.finished_at AS ended_at)
  INSERT INTO {schema}.job_acts (job_id, verb, by_whom, note, detail)
  SELECT a.id, 'retry', p_by, p_note, jsonb_build_object('fence', a.fence, 'seq', a.seq, 'was', a.was, 'ended_at', a.ended_at) FROM again a;
  DELETE FROM {schema}.signals g WHERE g.job_id = ANY (v_now) AND g.timed_out;
  UPDATE {schema}.workflow_steps s SET ended = false WHERE s.job_id = ANY (v_now) AND s.ended;
  UPDATE {schema}.edges e SET met = NULL WHERE e.upstream = ANY (v_now) AND e.met IS NOT NULL;
  -- The first one runs though what it waited for may have failed: that is what was ordered.
  UPDATE {schema}.waits q
     SET remaining = CASE WHEN q.job_id = v_first THEN 0 ELSE n.remaining END, met = n.met,
         unmet = CASE WHEN q.job_id = v_first THEN 0 ELSE n.unmet END, signal = NULL, until = NULL
    FROM (SELECT e.downstream, (count(*) FILTER (WHERE e.met IS NULL))::integer AS remaining,
                 (count(*) FILTER (WHERE e.met))::integer AS met, (count(*) FILTER (WHERE NOT e.met))::integer AS unmet
            FROM {schema}.edges e WHERE e.downstream = ANY (v_now) GROUP BY e.downstream) AS n
   WHERE q.job_id = n.downstream;
  UPDATE {schema}.workflows x
     SET open = n.open, failed = n.failed, cancelled = n.cancelled, with_errors = n.with_errors
    FROM (SELECT count(*) FILTER (WHERE NOT s.ended) AS open,
                 count(*) FILTER (WHERE s.ended AND j.state IN ('failed', 'expired')) AS failed,
                 count(*) FILTER (WHERE s.ended AND (s.gone OR j.state = 'cancelled')) AS cancelled,
                 count(*) FILTER (WHERE s.ended AND j.state = 'completed_with_errors') AS with_errors
            FROM {schema}.workflow_steps s LEFT JOIN {schema}.jobs j ON j.id = s.job_id WHERE s.workflow_id = p_flow) AS n
   WHERE x.id = p_flow;
  RETURN QUERY SELECT p_flow, 'retried', s.name, j.id, j.kind, j.priority, j.share, j.state, j.run_after
    FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id WHERE s.job_id = ANY (v_now) ORDER BY j.id <> v_first, j.id;
END $$;
