-- Gates: at most max_running jobs of one key run at a time; the others are parked (blocked, gate_place -1). Lock order
-- of every caller: job rows by id, then gates by key, lane caps ('lane:<name>') before all others.

-- Hands free places of a gate to the jobs parked longest at it; returns how many it handed over. The caller holds the
-- gate's row. A parked job whose row a trigger refuses is passed over like one that is held: the statement that ends
-- another job of the gate must not fail because of it. At most a hundred of them are passed over.
CREATE FUNCTION {schema}.gate_promote(p_key text, p_free integer) RETURNS integer LANGUAGE plpgsql AS $$
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
    WHEN OTHERS THEN PERFORM {schema}.warn_refused(v_id, NULL, 'promotion', SQLERRM);
    END;
  END LOOP;
  RETURN v_n;
END $$;

-- Parks queued jobs, which the caller has locked. One that a trigger refuses stays where it is: they are halved until
-- it is alone.
CREATE FUNCTION {schema}.gate_park_apart(p_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_half integer := cardinality(p_ids) / 2;
BEGIN
  UPDATE {schema}.jobs j SET state = 'blocked', gate_place = -1, fence = j.fence + 1, seq = j.seq + 1 WHERE j.id = ANY (p_ids);
EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
WHEN OTHERS THEN
  IF v_half = 0 THEN
    PERFORM {schema}.warn_refused(p_ids[1], NULL, 'parking', SQLERRM);
  ELSE
    PERFORM {schema}.gate_park_apart(p_ids[: v_half]);
    PERFORM {schema}.gate_park_apart(p_ids[v_half + 1 :]);
  END IF;
END $$;

-- Runs right after a claim, in its transaction, for claimed jobs that are new at their gate (gate_place 1). Returns the
-- ids that may run; the others are parked. The gate's row is locked before the count is judged: a job that left between
-- the judgement and the parking would find nobody to promote. One parked job means that the gate is full: up to p_bulk
-- more jobs of that key then leave the claim index at once, unclaimed, so that one busy key never drowns a claim.
CREATE FUNCTION {schema}.gate_enter(p_ids bigint[], p_fences integer[], p_bulk integer DEFAULT 500)
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
      PERFORM {schema}.gate_park_apart(ARRAY(
        SELECT q.id FROM {schema}.jobs q
         WHERE q.gate_key = v_key AND q.gate_place = 0 AND q.finished_at IS NULL
           AND q.state = 'queued' AND q.run_after <= now()
         ORDER BY q.priority DESC, q.run_after, q.id LIMIT p_bulk FOR NO KEY UPDATE SKIP LOCKED));
      -- A leaver passes over a parked job whose row is locked; newcomers of a FIFO gate make up for it.
      UPDATE {schema}.gates SET held = held + {schema}.gate_promote(v_key, max_running - held)
       WHERE key = v_key AND held < max_running;
    END IF;
  END LOOP;
END $$;

-- Gives places back. Runs in the transaction of every exit of a job (finish, retry, snooze, loss, cancel, expiry),
-- after the job rows. p_keys has one entry per leaving job, so keys repeat; a key without a gate row is ignored.
-- Returns how many jobs can start now: those that were promoted, and one for a lane cap that was full, since workers
-- elsewhere stopped asking. Unless it is 0, the caller must wake a worker.
CREATE FUNCTION {schema}.gate_leave(p_keys text[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE g record; v_held integer; v_n integer; v_promoted integer := 0;
BEGIN
  FOR g IN SELECT x.key, x.max_running, x.held FROM {schema}.gates x
            WHERE x.key = ANY (p_keys) ORDER BY x.key NOT LIKE 'lane:%', x.key FOR UPDATE LOOP
    v_held := greatest(0, g.held - (SELECT count(*) FROM unnest(p_keys) k WHERE k = g.key)::integer);
    v_n := CASE WHEN g.key LIKE 'lane:%' THEN 0        -- nobody parks at a lane cap: its jobs simply stay queued
                ELSE {schema}.gate_promote(g.key, g.max_running - v_held) END;
    UPDATE {schema}.gates SET held = v_held + v_n WHERE key = g.key;
    v_promoted := v_promoted + v_n + (g.key LIKE 'lane:%' AND g.held >= g.max_running)::integer;
  END LOOP;
  RETURN v_promoted;
END $$;

-- Recounts what is held and hands free places on. Each gate is judged under its own lock, which every entry and exit
-- takes before it commits, so the count cannot change meanwhile. A promoted job that no worker claimed within p_idle
-- (its lane is off) gives its place back, unless the gate is FIFO or a trigger refuses it. A gate whose row another
-- session holds, or a trigger refuses, is left to the next round. Returns how many gates were corrected.
CREATE FUNCTION {schema}.gates_repair(p_idle interval DEFAULT '60 s') RETURNS integer LANGUAGE plpgsql AS $$
DECLARE k text; g {schema}.gates; v_held integer; v_changed integer := 0;
BEGIN
  FOR k IN SELECT x.key FROM {schema}.gates x
            WHERE x.held > 0 OR x.key LIKE 'lane:%'
               OR EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.gate_key = x.key AND j.gate_place <> 0 AND j.finished_at IS NULL)
            ORDER BY x.key NOT LIKE 'lane:%', x.key LOOP
    SELECT * INTO g FROM {schema}.gates x WHERE x.key = k FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    BEGIN
      IF k LIKE 'lane:%' THEN
        SELECT count(*) INTO v_held FROM {schema}.jobs j WHERE j.state = 'running' AND 'lane:' || j.lane = k;
      ELSE
        IF NOT g.fifo THEN
          PERFORM {schema}.gate_park_apart(ARRAY(
            SELECT q.id FROM {schema}.jobs q
             WHERE q.gate_key = k AND q.gate_place = 1 AND q.finished_at IS NULL
               AND q.state = 'queued' AND q.run_after < now() - p_idle
               AND EXISTS (SELECT 1 FROM {schema}.jobs o WHERE o.gate_key = k AND o.gate_place = -1 AND o.finished_at IS NULL)
             FOR NO KEY UPDATE SKIP LOCKED));
        END IF;
        SELECT count(*) INTO v_held FROM {schema}.jobs j
         WHERE j.gate_key = k AND j.gate_place > 0 AND j.finished_at IS NULL;
        v_held := v_held + {schema}.gate_promote(k, g.max_running - v_held);
      END IF;
      IF v_held <> g.held THEN
        UPDATE {schema}.gates SET held = v_held WHERE key = k;
        v_changed := v_changed + 1;
      END IF;
    EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
    WHEN OTHERS THEN PERFORM {schema}.warn_refused(NULL, 'gate ' || k, 'repair', SQLERRM);
    END;
  END LOOP;
  RETURN v_changed;
END $$;
