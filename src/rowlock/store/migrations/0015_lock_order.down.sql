CREATE OR REPLACE FUNCTION {schema}.workflow_add(p_job bigint, p_fence integer, p_flow bigint, p_plan jsonb, p_channel text) RETURNS TABLE
  (workflow_id bigint, what text, name text, job_id bigint, kind text, priority smallint, share smallint, state text, run_after timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_id bigint := p_flow; w {schema}.workflows; v_why text; v_name text; v_new jsonb; v_edges jsonb; v_kept text[]; v_ended bigint[];
  v_grown bigint;
BEGIN
  IF p_job IS NOT NULL THEN
    IF p_fence IS NOT NULL THEN
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
    -- Whoever adds behind a job cannot know whether the workflow ends at this moment: it goes on. What was undone stays undone.
    -- Somebody may start another one of its key at this very moment, which nobody sees before their commit: they were first.
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

CREATE OR REPLACE FUNCTION {schema}.workflow_follow(p_ids bigint[], p_channel text) RETURNS jsonb LANGUAGE plpgsql STRICT AS $$
DECLARE
  v_ids bigint[] := p_ids; v_flows bigint[]; v_go bigint[]; v_stop bigint[]; v_done bigint[] := '{}';
  v_out jsonb := '[]'; v_id bigint; v_verdict text; v_undo jsonb; v_n integer; v_again bigint[] := '{}';
BEGIN
  -- Nearly always all of them have ended. Else it is worth a closer look at who has, and who still waits though its edges are known.
  SELECT array_agg(DISTINCT j.workflow_id), count(*) INTO v_flows, v_n
    FROM {schema}.jobs j WHERE j.id = ANY (p_ids) AND j.finished_at IS NOT NULL AND j.workflow_id IS NOT NULL;
  IF v_n < cardinality(p_ids) THEN
    v_again := p_ids;
    SELECT array_agg(DISTINCT s.workflow_id) INTO v_flows
      FROM {schema}.workflow_steps s LEFT JOIN {schema}.jobs j ON j.id = s.job_id
     WHERE s.job_id = ANY (p_ids)
       AND (j.id IS NULL OR j.finished_at IS NOT NULL
            OR (j.state = 'blocked' AND EXISTS (SELECT 1 FROM {schema}.waits x WHERE x.job_id = j.id AND x.signal IS NULL AND x.go IS NOT NULL)));
  END IF;
  IF v_flows IS NULL THEN RETURN NULL; END IF;
  PERFORM 1 FROM {schema}.workflows w WHERE w.id = ANY (v_flows) ORDER BY w.id FOR UPDATE;
  WHILE cardinality(v_ids) > 0 LOOP
    WITH final AS MATERIALIZED (
      SELECT s.job_id, s.workflow_id, s.ended, j.id IS NULL AS gone, coalesce(j.state, 'cancelled') AS state,
             coalesce(j.errors ->> 'reason', '') = 'not needed' AS unneeded
        FROM {schema}.workflow_steps s LEFT JOIN {schema}.jobs j ON j.id = s.job_id
       WHERE s.job_id = ANY (v_ids) AND (j.id IS NULL OR j.finished_at IS NOT NULL)),
    counted AS (
      UPDATE {schema}.workflow_steps s SET ended = true, gone = f.gone FROM final f WHERE s.job_id = f.job_id AND NOT f.ended),
    numbers AS (
      UPDATE {schema}.workflows w
         SET open = w.open - n.n, failed = w.failed + n.failed, cancelled = w.cancelled + n.cancelled, with_errors = w.with_errors + n.with_errors
        FROM (SELECT f.workflow_id, count(*) AS n, count(*) FILTER (WHERE f.state IN ('failed', 'expired')) AS failed,
                     count(*) FILTER (WHERE f.state = 'cancelled') AS cancelled,
                     count(*) FILTER (WHERE f.state = 'completed_with_errors') AS with_errors
                FROM final f WHERE NOT f.ended GROUP BY f.workflow_id) AS n
       WHERE w.id = n.workflow_id),
    known AS (
      UPDATE {schema}.edges e
         SET met = CASE e.needs WHEN 'finish' THEN true WHEN 'strict' THEN f.state = 'completed'
                                WHEN 'failure' THEN f.state IN ('failed', 'expired', 'cancelled') AND NOT f.unneeded
                                ELSE f.state IN ('completed', 'completed_with_errors') END
        FROM final f WHERE e.upstream = f.job_id AND e.met IS NULL
      RETURNING e.downstream, e.met),
    lessened AS (
      UPDATE {schema}.waits w SET remaining = w.remaining - n.n, met = w.met + n.met, unmet = w.unmet + n.n - n.met
        FROM (SELECT k.downstream, count(*)::integer AS n, (count(*) FILTER (WHERE k.met))::integer AS met
                FROM known k GROUP BY k.downstream) AS n
       WHERE w.job_id = n.downstream
      RETURNING w.job_id, w.go, w.signal),
    judged AS (
      SELECT l.job_id, l.go FROM lessened l WHERE l.go IS NOT NULL AND l.signal IS NULL
      UNION ALL
      SELECT w.job_id, w.go FROM {schema}.waits w
       WHERE w.job_id = ANY (v_again) AND w.go IS NOT NULL AND w.signal IS NULL
         AND NOT EXISTS (SELECT 1 FROM known k WHERE k.downstream = w.job_id))
    -- What is taken back goes on though the workflow was cancelled.
    SELECT array_agg(d.job_id) FILTER (WHERE d.go AND (NOT f.cancel_requested OR f.state = 'compensating')),
           array_agg(d.job_id) FILTER (WHERE NOT d.go OR (f.cancel_requested AND f.state <> 'compensating'))
      INTO v_go, v_stop
      FROM judged d JOIN {schema}.jobs j ON j.id = d.job_id AND j.state = 'blocked' JOIN {schema}.workflows f ON f.id = j.workflow_id;
    IF v_go IS NOT NULL THEN v_out := v_out || coalesce({schema}.workflow_release(v_go), '[]'); END IF;
    v_ids := '{}';
    v_again := '{}';
    IF v_stop IS NOT NULL THEN
      WITH stopped AS MATERIALIZED (
        SELECT j.id FROM {schema}.jobs j WHERE j.id = ANY (v_stop) AND j.state = 'blocked' AND j.gate_place = 0
         ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED),
      cancelled AS (
        UPDATE {schema}.jobs j
           SET state = 'cancelled', finished_at = now(), fence = j.fence + 1, seq = j.seq + 1,
               errors = coalesce(why.unmet, jsonb_build_object('reason', 'workflow cancelled'))
          FROM stopped s LEFT JOIN LATERAL (
            SELECT jsonb_build_object('reason', CASE WHEN e.needs = 'failure' THEN 'not needed' ELSE 'dependency' END,
                                      'step', u.name, 'job', e.upstream, 'state', coalesce(f.state, 'deleted'), 'needed', e.needs) AS unmet
              FROM {schema}.edges e JOIN {schema}.workflow_steps u ON u.job_id = e.upstream
              LEFT JOIN {schema}.jobs f ON f.id = e.upstream
             WHERE e.downstream = s.id AND NOT e.met
             ORDER BY e.needs = 'failure', e.upstream LIMIT 1) AS why ON true
         WHERE j.id = s.id RETURNING j.id)
      SELECT coalesce(array_agg(c.id), '{}') INTO v_ids FROM cancelled c;
      v_done := v_done || v_ids;
    END IF;
  END LOOP;
  FOR v_id IN SELECT w.id FROM {schema}.workflows w WHERE w.id = ANY (v_flows) AND w.open <= 0 AND w.finished_at IS NULL ORDER BY w.id LOOP
    v_verdict := {schema}.workflow_verdict(v_id);
    IF v_verdict IN ('failed', 'cancelled') THEN
      -- Not twice: a workflow that has a verdict comes from its compensation.
      v_undo := NULL;
      BEGIN
        SELECT CASE WHEN w.verdict IS NULL THEN {schema}.workflow_undo(v_id) END INTO v_undo FROM {schema}.workflows w WHERE w.id = v_id;
      EXCEPTION WHEN integrity_constraint_violation OR data_exception OR program_limit_exceeded OR syntax_error_or_access_rule_violation THEN
        -- This statement ends the jobs of others, too: they must not wait for a row that can never be written.
        UPDATE {schema}.workflows w SET undo_error = SQLERRM WHERE w.id = v_id;
      END;
      IF v_undo IS NOT NULL THEN
        UPDATE {schema}.workflows w SET verdict = v_verdict WHERE w.id = v_id;
        v_out := v_out || v_undo;
        CONTINUE;
      END IF;
    END IF;
    UPDATE {schema}.workflows w SET state = v_verdict, finished_at = now() WHERE w.id = v_id;
    v_done := v_done || -v_id;
  END LOOP;
  -- A message has a longest length; whoever is left out looks again by itself.
  PERFORM pg_notify(p_channel, json_build_object('done', json_agg(x.job_id))::text)
    FROM (SELECT DISTINCT w.job_id FROM {schema}.job_waiters w WHERE w.job_id = ANY (v_done) LIMIT 300) AS x HAVING count(*) > 0;
  RETURN v_out;
END $$;

CREATE OR REPLACE FUNCTION {schema}.signals_overdue(p_limit integer) RETURNS TABLE (ids bigint[], released jsonb) LANGUAGE plpgsql AS $$
DECLARE v_ids bigint[];
BEGIN
  DELETE FROM {schema}.waits q USING {schema}.jobs j
   WHERE q.until < clock_timestamp() AND j.id = q.job_id AND NOT (j.state = 'blocked' AND j.gate_place = 0) AND j.workflow_id IS NULL;
  UPDATE {schema}.waits q SET signal = NULL, until = NULL FROM {schema}.jobs j
   WHERE q.until < clock_timestamp() AND j.id = q.job_id AND NOT (j.state = 'blocked' AND j.gate_place = 0) AND j.workflow_id IS NOT NULL;
  SELECT array_agg(x.id) INTO v_ids FROM (
    SELECT j.id FROM {schema}.jobs j
     WHERE j.id IN (SELECT q.job_id FROM {schema}.waits q WHERE q.until < clock_timestamp() ORDER BY q.until LIMIT p_limit)
       AND j.state = 'blocked' AND j.gate_place = 0 ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED) AS x;
  INSERT INTO {schema}.signals (job_id, name, timed_out)
  SELECT q.job_id, q.signal, true FROM {schema}.waits q WHERE q.job_id = ANY (v_ids) AND q.until < clock_timestamp() ON CONFLICT DO NOTHING;
  RETURN QUERY SELECT v_ids, {schema}.workflow_release(ARRAY(
    SELECT q.job_id FROM {schema}.waits q WHERE q.job_id = ANY (v_ids) AND q.until < clock_timestamp()));
END $$;

DROP FUNCTION {schema}.notify_ids(text, text, bigint[]);
