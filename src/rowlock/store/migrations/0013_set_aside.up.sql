-- Jobs that a worker has set aside, because the database does not take a write of them now (a lock that another session
-- holds, a trigger that refuses), are named in the worker's row for doctor, explain and metrics. The column is NULL almost
-- always, which takes no room in the row. And no function notifies while the queue of notifications is nearly full: its
-- commit would fail. Online: a column without a default and two function bodies.
-- For code made for version 2 or later.
ALTER TABLE {schema}.workers ADD COLUMN set_aside jsonb;

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
  -- A message has a longest length, and a full queue of notifications would fail the ends themselves: a waiter that is
  -- not told looks again by itself.
  PERFORM pg_notify(p_channel, json_build_object('done', json_agg(x.job_id))::text)
    FROM (SELECT DISTINCT w.job_id FROM {schema}.job_waiters w WHERE w.job_id = ANY (v_done) LIMIT 300) AS x HAVING count(*) > 0 AND pg_notification_queue_usage() < 0.9;
  RETURN v_out;
END $$;

CREATE OR REPLACE FUNCTION {schema}.lock_release(p_key bigint, p_session bigint, p_n bigint, p_channel text)
RETURNS TABLE (was_held boolean, heir bigint) LANGUAGE plpgsql AS $$
BEGIN
  was_held := pg_advisory_unlock(p_key);
  DELETE FROM {schema}.locks k WHERE k.session = p_session AND k.n = p_n;
  SELECT k.session INTO heir FROM {schema}.locks k WHERE k.key = p_key AND NOT k.held ORDER BY k.since, k.session, k.n LIMIT 1;
  IF heir <> p_session AND pg_notification_queue_usage() < 0.9 THEN
    PERFORM pg_notify(p_channel, json_build_object('key', p_key::text, 'next', heir::text)::text);
  END IF;
  RETURN NEXT;
END $$;
