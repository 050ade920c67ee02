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

CREATE OR REPLACE FUNCTION {schema}.admit(p_ids bigint[], p_fences integer[], p_bulk integer DEFAULT 500)
RETURNS TABLE (id bigint, again_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_key text; v_in bigint[]; v_keys text[]; v_now timestamptz; v_paused timestamptz[]; v_front timestamptz[]; v_horizon timestamptz[];
  v_urgency smallint[]; v_most integer[]; v_room float8[]; v_pace float8[]; v_since timestamptz[]; v_full timestamptz[]; v_sliding boolean[];
  v_used float8[]; j record; i integer; w float8; v_turn timestamptz; v_at timestamptz; v_early boolean; v_back bigint[] := '{}';
  v_turns timestamptz[] := '{}'; v_late record; v_more integer; v_left integer;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM unnest(p_ids, p_fences) d(id, fence) JOIN {schema}.jobs q USING (id, fence) WHERE q.rate_keys IS NOT NULL) THEN
    RETURN QUERY SELECT e, NULL::timestamptz FROM {schema}.gate_enter(p_ids, p_fences) AS e;
    RETURN;
  END IF;
  FOR v_key IN SELECT DISTINCT q.gate_key FROM unnest(p_ids, p_fences) d(id, fence) JOIN {schema}.jobs q USING (id, fence)
                WHERE q.gate_place > 0 ORDER BY 1 LOOP
    PERFORM 1 FROM {schema}.gates g WHERE g.key = v_key FOR UPDATE;
    IF NOT FOUND THEN
      INSERT INTO {schema}.gates (key) VALUES (v_key) ON CONFLICT DO NOTHING;
      PERFORM 1 FROM {schema}.gates g WHERE g.key = v_key FOR UPDATE;
    END IF;
  END LOOP;
  v_in := ARRAY(SELECT {schema}.gate_enter(p_ids, p_fences));
  RETURN QUERY SELECT q.id, NULL::timestamptz FROM {schema}.jobs q WHERE q.id = ANY (v_in) AND q.rate_keys IS NULL;

  PERFORM 1 FROM {schema}.rates r
    WHERE r.key IN (SELECT unnest(q.rate_keys) FROM {schema}.jobs q WHERE q.id = ANY (p_ids)) ORDER BY r.key FOR UPDATE;
  v_now := clock_timestamp();
  SELECT array_agg(r.key ORDER BY r.key), array_agg(r.paused_until ORDER BY r.key), array_agg(r.front ORDER BY r.key),
         array_agg(r.horizon ORDER BY r.key), array_agg(r.urgency ORDER BY r.key),
         array_agg(CASE WHEN r.sliding THEN r.amount ELSE r.burst END ORDER BY r.key), array_agg(n.room ORDER BY r.key),
         array_agg(n.pace ORDER BY r.key), array_agg(n.since ORDER BY r.key),
         array_agg(greatest(n.full_at, r.paused_until) ORDER BY r.key), array_agg(r.sliding ORDER BY r.key), array_agg(0::float8)
    INTO v_keys, v_paused, v_front, v_horizon, v_urgency, v_most, v_room, v_pace, v_since, v_full, v_sliding, v_used
    FROM {schema}.rates r CROSS JOIN LATERAL {schema}.rate_now(r, v_now) AS n
   WHERE r.key IN (SELECT unnest(q.rate_keys) FROM {schema}.jobs q WHERE q.id = ANY (p_ids));

  FOR j IN SELECT q.id, q.kind, q.share, q.priority, q.run_after, q.rate_keys, coalesce(q.rate_weight, 1) AS rate_weight,
                  q.rate_turn IS TRUE AS rate_turn
             FROM unnest(p_ids, p_fences) d(id, fence) JOIN {schema}.jobs q USING (id, fence)
            WHERE q.rate_keys IS NOT NULL AND (q.gate_place <> 1 OR q.id = ANY (v_in))
            ORDER BY 8 DESC, q.priority DESC, q.run_after, q.id LOOP
    v_at := NULL;
    FOREACH v_key IN ARRAY j.rate_keys LOOP
      i := array_position(v_keys, v_key);
      CONTINUE WHEN i IS NULL;                           -- somebody deleted the row: nothing limits it
      w := least(j.rate_weight, v_most[i]);
      v_early := j.rate_turn OR (v_horizon[i] > v_now AND j.priority > v_urgency[i]);
      CONTINUE WHEN v_paused[i] <= v_now AND v_room[i] >= w - 1e-6
           AND (v_early OR v_horizon[i] <= v_now OR v_full[i] < v_now - interval '1 s');
      v_turn := greatest(v_paused[i], v_since[i] + make_interval(secs => w * v_pace[i]),
                         CASE WHEN v_early THEN v_front[i] ELSE v_horizon[i] END + make_interval(secs => w * v_pace[i]));
      IF v_early THEN
        v_front[i] := v_turn;
      ELSE
        v_urgency[i] := CASE WHEN v_horizon[i] > v_now THEN greatest(v_urgency[i], j.priority) ELSE j.priority END;
      END IF;
      v_horizon[i] := greatest(v_horizon[i], v_turn);
      v_at := greatest(v_at, v_turn);
    END LOOP;
    IF v_at IS NOT NULL THEN
      v_back := v_back || j.id;
      v_turns := v_turns || v_at;
      IF NOT j.rate_turn THEN v_late := j; v_more := p_bulk; END IF;
      CONTINUE;
    END IF;
    FOREACH v_key IN ARRAY j.rate_keys LOOP
      i := array_position(v_keys, v_key);
      CONTINUE WHEN i IS NULL;
      w := least(j.rate_weight, v_most[i]);
      IF v_full[i] < v_now - interval '1 s' THEN
        v_horizon[i] := '-infinity'; v_front[i] := '-infinity';
      END IF;
      v_full[i] := 'infinity';
      v_used[i] := v_used[i] + w;
      v_room[i] := v_room[i] - w;
      IF NOT v_sliding[i] THEN v_since[i] := v_since[i] + make_interval(secs => w * v_pace[i]); END IF;
    END LOOP;
    id := j.id; again_at := NULL;
    RETURN NEXT;
  END LOOP;

  IF v_more IS NOT NULL THEN
    -- Only keys that made somebody wait count; each of the others is judged when the turn has come.
    WITH near AS MATERIALIZED (
      SELECT q.id, q.run_after, q.rate_keys, coalesce(q.rate_weight, 1) AS rate_weight, q.rate_turn IS TRUE AS rate_turn FROM {schema}.jobs q
       WHERE q.state = 'queued' AND q.kind = v_late.kind AND q.priority = v_late.priority AND q.share = v_late.share
         AND q.run_after >= v_late.run_after AND q.run_after <= v_now
       ORDER BY q.run_after, q.id LIMIT p_bulk),
    same AS MATERIALIZED (
      SELECT n.id, row_number() OVER (ORDER BY n.run_after, n.id) AS n
        FROM near n CROSS JOIN LATERAL (
          SELECT 1 FROM {schema}.jobs q WHERE q.id = n.id AND q.state = 'queued' AND q.run_after <= v_now FOR NO KEY UPDATE SKIP LOCKED) AS locked
       WHERE n.rate_keys = v_late.rate_keys AND n.rate_weight = v_late.rate_weight AND NOT n.rate_turn),
    moved AS (
      UPDATE {schema}.jobs q
         SET fence = q.fence + 1, seq = q.seq + 1, rate_turn = true,
             run_after = (SELECT max(u.horizon + make_interval(secs => s.n * least(v_late.rate_weight, u.most) * u.pace))
                            FROM unnest(v_keys, v_horizon, v_most, v_pace) AS u(key, horizon, most, pace)
                           WHERE u.key = ANY (v_late.rate_keys) AND u.horizon > v_now) + interval '0.1 ms'
        FROM same s WHERE q.id = s.id RETURNING q.id)
    SELECT count(*) INTO v_more FROM moved;
    FOR i IN 1 .. cardinality(v_keys) LOOP
      IF v_keys[i] = ANY (v_late.rate_keys) AND v_horizon[i] > v_now THEN
        v_horizon[i] := v_horizon[i] + make_interval(secs => v_more * least(v_late.rate_weight, v_most[i]) * v_pace[i]);
      END IF;
    END LOOP;
  END IF;

  UPDATE {schema}.rates r
     SET (tokens, uses, updated_at) = (
           SELECT n.tokens - CASE WHEN r.sliding THEN 0 ELSE d.used END,
                  CASE WHEN r.sliding THEN (n.uses[1] + d.used::integer) || n.uses[2:] ELSE n.uses END, n.updated_at
             FROM {schema}.rate_now(r, v_now) AS n),
         front = d.front, horizon = d.horizon, urgency = d.urgency, used_at = v_now
    FROM unnest(v_keys, v_used, v_front, v_horizon, v_urgency) AS d(key, used, front, horizon, urgency)
   WHERE r.key = d.key;
  IF cardinality(v_back) = 0 THEN RETURN; END IF;

  WITH back AS MATERIALIZED (
    SELECT q.id, q.gate_key, d.turn FROM unnest(v_back, v_turns) AS d(id, turn) JOIN {schema}.jobs q ON q.id = d.id),
  moved AS (
    UPDATE {schema}.jobs q
       SET state = 'queued', run_after = b.turn + interval '0.1 ms', rate_turn = true, attempt = q.attempt - 1, fence = q.fence + 1,
           seq = q.seq + 1, gate_place = 0, claimed_by = NULL, claimed_at = NULL, lane = NULL
      FROM back b WHERE q.id = b.id)
  SELECT {schema}.gate_leave(array_agg(b.gate_key)) INTO v_left FROM back b WHERE b.gate_key IS NOT NULL;
  -- Somebody was promoted to a place that was given back: whoever claimed has to look again at once.
  RETURN QUERY SELECT d.id, CASE WHEN v_left > 0 THEN v_now ELSE d.turn END FROM unnest(v_back, v_turns) AS d(id, turn);
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

CREATE OR REPLACE FUNCTION {schema}.workflow_release_apart(p_ids bigint[]) RETURNS jsonb LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION {schema}.workflow_stop_apart(p_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION {schema}.workflow_repair(p_flows integer, p_steps integer, p_channel text) RETURNS TABLE (ids bigint[], released jsonb)
LANGUAGE plpgsql AS $$
DECLARE v_ids bigint[]; v_from bigint := 0;
BEGIN
  IF (SELECT count(*) FROM (SELECT 1 FROM {schema}.workflows w WHERE w.finished_at IS NULL LIMIT p_flows + 1) AS x) > p_flows THEN
    SELECT min(w.id) + floor(random() * (max(w.id) - min(w.id)))::bigint INTO v_from FROM {schema}.workflows w WHERE w.finished_at IS NULL;
  END IF;
  SELECT array_agg(x.job_id ORDER BY x.job_id) INTO v_ids FROM (
    SELECT s.job_id
      FROM (SELECT w.id, w.open FROM {schema}.workflows w WHERE w.finished_at IS NULL AND w.id >= v_from ORDER BY w.id LIMIT p_flows) AS w
      JOIN {schema}.workflow_steps s ON s.workflow_id = w.id
      LEFT JOIN {schema}.jobs j ON j.id = s.job_id
      LEFT JOIN {schema}.waits q ON q.job_id = s.job_id
     WHERE (NOT s.ended AND (j.id IS NULL OR j.finished_at IS NOT NULL))
        OR (j.state = 'blocked' AND j.gate_place = 0 AND q.signal IS NULL AND q.go IS NOT NULL)
        OR (s.ended AND (w.open <= 0 OR EXISTS (SELECT 1 FROM {schema}.edges e WHERE e.upstream = s.job_id AND e.met IS NULL)))
     LIMIT p_steps) AS x;
  RETURN QUERY SELECT v_ids, {schema}.workflow_follow(v_ids, p_channel);
END $$;

DROP FUNCTION {schema}.workflow_follow_apart(bigint[], text);
DROP FUNCTION {schema}.signals_time_out_apart(bigint[]);
DROP FUNCTION {schema}.rate_turns_apart(bigint[], timestamptz[]);
DROP FUNCTION {schema}.gate_park_apart(bigint[]);
DROP FUNCTION {schema}.warn_refused(bigint, text, text, text);
