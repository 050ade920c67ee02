-- A row that a trigger refuses is passed over wherever one statement moves jobs for others: at gates, behind workflow steps and
-- when waits for signals end. Functions only: nothing is rewritten, and a call under way ends with the body it began with.
-- For code made for version 2 or later.

CREATE OR REPLACE FUNCTION {schema}.gate_promote(p_key text, p_free integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE v_n integer; v_id bigint;
BEGIN
  IF p_free <= 0 THEN RETURN 0; END IF;                -- also when max_running was lowered below held
  -- MATERIALIZED: a plan that ran the LIMIT once per outer row would hand over more places than there are.
  WITH first AS MATERIALIZED (
    SELECT q.id FROM {schema}.jobs q
     WHERE q.gate_key = p_key AND q.gate_place = -1 AND q.finished_at IS NULL
     ORDER BY q.priority DESC, q.run_after, q.id LIMIT p_free FOR NO KEY UPDATE SKIP LOCKED)
  UPDATE {schema}.jobs j
     SET state = 'queued', gate_place = 1, fence = j.fence + 1, seq = j.seq + 1,
         run_after = greatest(j.run_after, clock_timestamp())
    FROM first WHERE j.id = first.id;
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
WHEN OTHERS THEN
  v_n := 0;
  FOR v_id IN SELECT q.id FROM {schema}.jobs q
               WHERE q.gate_key = p_key AND q.gate_place = -1 AND q.finished_at IS NULL
               ORDER BY q.priority DESC, q.run_after, q.id LIMIT p_free + 100 LOOP
    EXIT WHEN v_n >= p_free;
    BEGIN
      UPDATE {schema}.jobs j
         SET state = 'queued', gate_place = 1, fence = j.fence + 1, seq = j.seq + 1,
             run_after = greatest(j.run_after, clock_timestamp())
       WHERE j.id = (SELECT q.id FROM {schema}.jobs q WHERE q.id = v_id AND q.gate_place = -1 AND q.finished_at IS NULL
                        FOR NO KEY UPDATE SKIP LOCKED);
      IF FOUND THEN v_n := v_n + 1; END IF;
    EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
    WHEN OTHERS THEN RAISE WARNING 'rowlock: job % gets no place at gate %: %', v_id, p_key, SQLERRM;
    END;
  END LOOP;
  RETURN v_n;
END $$;

CREATE OR REPLACE FUNCTION {schema}.gate_enter(p_ids bigint[], p_fences integer[], p_bulk integer DEFAULT 500)
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE v_key text; v_all bigint[]; g {schema}.gates; v_free integer;
BEGIN
  FOR v_key, v_all IN
      SELECT j.gate_key, array_agg(j.id ORDER BY j.priority DESC, j.run_after, j.id)
        FROM unnest(p_ids, p_fences) d(id, fence) JOIN {schema}.jobs j USING (id, fence)
       WHERE j.gate_place = 1 GROUP BY j.gate_key ORDER BY j.gate_key LOOP
    SELECT * INTO g FROM {schema}.gates x WHERE x.key = v_key FOR UPDATE;
    IF NOT FOUND THEN                                  -- first use of the key; created in key order too
      INSERT INTO {schema}.gates (key) VALUES (v_key) ON CONFLICT DO NOTHING;
      SELECT * INTO g FROM {schema}.gates x WHERE x.key = v_key FOR UPDATE;
    END IF;
    v_free := greatest(0, g.max_running - g.held);
    IF g.fifo AND EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.gate_key = v_key AND j.gate_place = -1
                             AND j.finished_at IS NULL) THEN
      v_free := 0;                                     -- strict FIFO: nobody overtakes the parked
    END IF;
    v_free := least(v_free, cardinality(v_all));
    RETURN QUERY SELECT unnest(v_all[1 : v_free]);
    UPDATE {schema}.gates SET held = held + v_free WHERE key = v_key AND v_free > 0;
    IF v_free < cardinality(v_all) THEN
      UPDATE {schema}.jobs j
         SET state = 'blocked', gate_place = -1, attempt = j.attempt - 1, fence = j.fence + 1, seq = j.seq + 1,
             claimed_by = NULL, claimed_at = NULL, lane = NULL
       WHERE j.id = ANY (v_all[v_free + 1 :]);
      BEGIN
        WITH more AS MATERIALIZED (
          SELECT q.id FROM {schema}.jobs q
           WHERE q.gate_key = v_key AND q.gate_place = 0 AND q.finished_at IS NULL
             AND q.state = 'queued' AND q.run_after <= now()
           ORDER BY q.priority DESC, q.run_after, q.id LIMIT p_bulk FOR NO KEY UPDATE SKIP LOCKED)
        UPDATE {schema}.jobs j SET state = 'blocked', gate_place = -1, fence = j.fence + 1, seq = j.seq + 1
          FROM more WHERE j.id = more.id;
      EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
      WHEN OTHERS THEN RAISE WARNING 'rowlock: a job of gate % cannot be parked: %', v_key, SQLERRM;
      END;
      -- A leaver passes over a parked job that somebody holds locked; newcomers of a FIFO gate make up for it.
      UPDATE {schema}.gates SET held = held + {schema}.gate_promote(v_key, max_running - held)
       WHERE key = v_key AND held < max_running;
    END IF;
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION {schema}.gates_repair(p_idle interval DEFAULT '60 s') RETURNS integer LANGUAGE plpgsql AS $$
DECLARE k text; g {schema}.gates; v_held integer; v_changed integer := 0;
BEGIN
  FOR k IN SELECT x.key FROM {schema}.gates x
            WHERE x.held > 0 OR x.key LIKE 'lane:%'
               OR EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.gate_key = x.key AND j.gate_place <> 0 AND j.finished_at IS NULL)
            ORDER BY x.key NOT LIKE 'lane:%', x.key LOOP
    SELECT * INTO g FROM {schema}.gates x WHERE x.key = k FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    IF k LIKE 'lane:%' THEN
      SELECT count(*) INTO v_held FROM {schema}.jobs j WHERE j.state = 'running' AND 'lane:' || j.lane = k;
    ELSE
      IF NOT g.fifo THEN
        BEGIN
          UPDATE {schema}.jobs j SET state = 'blocked', gate_place = -1, fence = j.fence + 1, seq = j.seq + 1
           WHERE j.id IN (SELECT q.id FROM {schema}.jobs q
                           WHERE q.gate_key = k AND q.gate_place = 1 AND q.finished_at IS NULL
                             AND q.state = 'queued' AND q.run_after < now() - p_idle
                             AND EXISTS (SELECT 1 FROM {schema}.jobs o WHERE o.gate_key = k AND o.gate_place = -1
                                            AND o.finished_at IS NULL)
                           FOR NO KEY UPDATE SKIP LOCKED);
        EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
        WHEN OTHERS THEN RAISE WARNING 'rowlock: a job of gate % cannot give its place back: %', k, SQLERRM;
        END;
      END IF;
      SELECT count(*) INTO v_held FROM {schema}.jobs j
       WHERE j.gate_key = k AND j.gate_place > 0 AND j.finished_at IS NULL;
      v_held := v_held + {schema}.gate_promote(k, g.max_running - v_held);
    END IF;
    IF v_held <> g.held THEN
      UPDATE {schema}.gates SET held = v_held WHERE key = k;
      v_changed := v_changed + 1;
    END IF;
  END LOOP;
  RETURN v_changed;
END $$;

CREATE FUNCTION {schema}.workflow_release_apart(p_ids bigint[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE v_half integer := cardinality(p_ids) / 2;
BEGIN
  RETURN {schema}.workflow_release(p_ids);
EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
WHEN OTHERS THEN
  IF v_half = 0 THEN
    RAISE WARNING 'rowlock: job % cannot be released: %', p_ids[1], SQLERRM;
    RETURN NULL;
  END IF;
  RETURN nullif(coalesce({schema}.workflow_release_apart(p_ids[: v_half]), '[]')
                || coalesce({schema}.workflow_release_apart(p_ids[v_half + 1 :]), '[]'), '[]');
END $$;

CREATE FUNCTION {schema}.workflow_stop_apart(p_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE v_half integer := cardinality(p_ids) / 2; v_ids bigint[];
BEGIN
  WITH stopped AS MATERIALIZED (
    SELECT j.id FROM {schema}.jobs j WHERE j.id = ANY (p_ids) AND j.state = 'blocked' AND j.gate_place = 0
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
  RETURN v_ids;
EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
WHEN OTHERS THEN
  IF v_half = 0 THEN
    RAISE WARNING 'rowlock: job % cannot be cancelled: %', p_ids[1], SQLERRM;
    RETURN '{}';
  END IF;
  RETURN {schema}.workflow_stop_apart(p_ids[: v_half]) || {schema}.workflow_stop_apart(p_ids[v_half + 1 :]);
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
    IF v_go IS NOT NULL THEN v_out := v_out || coalesce({schema}.workflow_release_apart(v_go), '[]'); END IF;
    v_ids := '{}';
    v_again := '{}';
    IF v_stop IS NOT NULL THEN
      v_ids := {schema}.workflow_stop_apart(v_stop);
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
  PERFORM {schema}.notify_ids(p_channel, 'done', array_agg(DISTINCT w.job_id))
    FROM {schema}.job_waiters w WHERE w.job_id = ANY (v_done) HAVING count(*) > 0;
  RETURN v_out;
END $$;

CREATE OR REPLACE FUNCTION {schema}.signals_overdue(p_limit integer) RETURNS TABLE (ids bigint[], released jsonb) LANGUAGE plpgsql AS $$
DECLARE v_ids bigint[];
BEGIN
  WITH over AS MATERIALIZED (
    SELECT q.job_id, j.workflow_id FROM {schema}.waits q JOIN {schema}.jobs j ON j.id = q.job_id
     WHERE q.until < clock_timestamp() AND NOT (j.state = 'blocked' AND j.gate_place = 0) FOR UPDATE OF q SKIP LOCKED),
  gone AS (DELETE FROM {schema}.waits q USING over o WHERE q.job_id = o.job_id AND o.workflow_id IS NULL)
  UPDATE {schema}.waits q SET signal = NULL, until = NULL FROM over o WHERE q.job_id = o.job_id AND o.workflow_id IS NOT NULL;
  SELECT array_agg(x.id) INTO v_ids FROM (
    SELECT j.id FROM {schema}.jobs j
     WHERE j.id IN (SELECT q.job_id FROM {schema}.waits q WHERE q.until < clock_timestamp() ORDER BY q.until LIMIT p_limit)
       AND j.state = 'blocked' AND j.gate_place = 0 ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED) AS x;
  INSERT INTO {schema}.signals (job_id, name, timed_out)
  SELECT q.job_id, q.signal, true FROM {schema}.waits q WHERE q.job_id = ANY (v_ids) AND q.until < clock_timestamp() ON CONFLICT DO NOTHING;
  RETURN QUERY SELECT v_ids, {schema}.workflow_release_apart(ARRAY(
    SELECT q.job_id FROM {schema}.waits q WHERE q.job_id = ANY (v_ids) AND q.until < clock_timestamp()));
END $$;
