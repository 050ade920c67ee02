-- Rates: at most so many jobs of one key start per period, by a token bucket or by a sliding window of 21 steps. Lock
-- order: all gates by key, then all rates by key.

-- How the row of a rate stands at p_now. room: what may start now; pace: seconds per unit in the long run; since: w
-- units fit at since + w * pace if nobody else comes; full_at: since when nothing of the rate is used, infinity while
-- something is. The oldest step of a window counts whole although part of it has passed, so no window of that length
-- ever has more than the amount.
CREATE FUNCTION {schema}.rate_now(r {schema}.rates, p_now timestamptz, OUT tokens double precision, OUT uses integer[],
  OUT updated_at timestamptz, OUT room double precision, OUT pace double precision, OUT since timestamptz, OUT full_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_per double precision := extract(epoch FROM r.per);
  v_now timestamptz := greatest(p_now, r.updated_at);  -- a clock that was set back gives nothing
  v_step double precision := v_per / 20; v_passed double precision; v_oldest integer;
BEGIN
  IF NOT r.sliding THEN
    pace := v_per / r.amount;
    updated_at := v_now;
    tokens := least(r.burst, r.tokens + extract(epoch FROM v_now - r.updated_at) / pace);
    room := tokens;
    uses := '{}';
    since := v_now - make_interval(secs => tokens * pace);
    full_at := CASE WHEN tokens < r.burst THEN 'infinity' ELSE r.updated_at + make_interval(secs => (r.burst - r.tokens) * pace) END;
    RETURN;
  END IF;
  pace := v_per * 21 / 20 / r.amount;
  tokens := 0;
  v_passed := floor(extract(epoch FROM v_now - r.updated_at) / v_step);
  IF v_passed > 20 OR cardinality(r.uses) = 0 THEN
    uses := array_fill(0, ARRAY[21]);
    updated_at := v_now;
  ELSE
    uses := (array_fill(0, ARRAY[v_passed::integer]) || r.uses)[1:21];
    updated_at := r.updated_at + make_interval(secs => v_passed * v_step);
  END IF;
  SELECT r.amount - sum(u.n), max(u.i) FILTER (WHERE u.n > 0) INTO room, v_oldest FROM unnest(uses) WITH ORDINALITY AS u(n, i);
  since := updated_at + make_interval(secs => (22 - coalesce(v_oldest, 1)) * v_step - pace);
  full_at := CASE WHEN v_oldest IS NULL THEN r.updated_at + make_interval(secs => 21 * v_step) ELSE 'infinity' END;
END $$;

-- Gives queued jobs their turns; the caller has locked them. One that a trigger refuses stays where it is, and its turn
-- is not given to another: they are halved until it is alone.
CREATE FUNCTION {schema}.rate_turns_apart(p_ids bigint[], p_turns timestamptz[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_half integer := cardinality(p_ids) / 2;
BEGIN
  UPDATE {schema}.jobs q SET fence = q.fence + 1, seq = q.seq + 1, rate_turn = true, run_after = d.turn
    FROM unnest(p_ids, p_turns) AS d(id, turn) WHERE q.id = d.id;
EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
WHEN OTHERS THEN
  IF v_half = 0 THEN
    PERFORM {schema}.warn_refused(p_ids[1], NULL, 'turn', SQLERRM);
  ELSE
    PERFORM {schema}.rate_turns_apart(p_ids[: v_half], p_turns[: v_half]);
    PERFORM {schema}.rate_turns_apart(p_ids[v_half + 1 :], p_turns[v_half + 1 :]);
  END IF;
END $$;

-- Runs right after a claim, in its transaction, for claimed jobs that are new at a gate (gate_place 1) or have rates.
-- Answers the jobs that may run, and with again_at those that were put back; parked jobs are not answered. Gates come
-- before rates: a job that waits at its gate uses nothing of a rate, and a job that its rate refuses gives its place
-- back. All gates are locked in key order before the first rate, since giving a place back locks a gate: also the gates
-- of jobs that came with a place (gate_place 2).
--
-- A refused job gets a turn: the moment at which its rate has room for it, behind the turns given before. A job that
-- arrives while others wait for their turns gets one too, unless it is more urgent than they are or nothing of the rate
-- was used for a second (those that waited are gone). Use is counted here alone, under the row's lock: the bound holds
-- whatever workers do. One refused newcomer means "over the rate": up to p_bulk more jobs of its kind with the same
-- rates get their turns at once, unclaimed, so that a busy key never drowns a claim.
CREATE FUNCTION {schema}.admit(p_ids bigint[], p_fences integer[], p_bulk integer DEFAULT 500)
RETURNS TABLE (id bigint, again_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_key text; v_in bigint[]; v_keys text[]; v_now timestamptz; v_paused timestamptz[]; v_front timestamptz[]; v_horizon timestamptz[];
  v_urgency smallint[]; v_most integer[]; v_room float8[]; v_pace float8[]; v_since timestamptz[]; v_full timestamptz[]; v_sliding boolean[];
  v_used float8[]; j record; i integer; w float8; v_turn timestamptz; v_at timestamptz; v_early boolean; v_back bigint[] := '{}';
  v_turns timestamptz[] := '{}'; v_late record; v_more integer; v_left integer;
  v_same bigint[]; v_same_turns timestamptz[];
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
      CONTINUE WHEN i IS NULL;                           -- the row was deleted: nothing limits it
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
    -- Only keys that made a job wait count; each of the others is judged when the turn has come.
    WITH near AS MATERIALIZED (
      SELECT q.id, q.run_after, q.rate_keys, coalesce(q.rate_weight, 1) AS rate_weight, q.rate_turn IS TRUE AS rate_turn FROM {schema}.jobs q
       WHERE q.state = 'queued' AND q.kind = v_late.kind AND q.priority = v_late.priority AND q.share = v_late.share
         AND q.run_after >= v_late.run_after AND q.run_after <= v_now
       ORDER BY q.run_after, q.id LIMIT p_bulk),
    same AS MATERIALIZED (
      SELECT n.id, row_number() OVER (ORDER BY n.run_after, n.id) AS n
        FROM near n CROSS JOIN LATERAL (
          SELECT 1 FROM {schema}.jobs q WHERE q.id = n.id AND q.state = 'queued' AND q.run_after <= v_now FOR NO KEY UPDATE SKIP LOCKED) AS locked
       WHERE n.rate_keys = v_late.rate_keys AND n.rate_weight = v_late.rate_weight AND NOT n.rate_turn)
    SELECT array_agg(s.id ORDER BY s.n), array_agg(t.turn ORDER BY s.n) INTO v_same, v_same_turns
      FROM same s CROSS JOIN LATERAL (
        SELECT max(u.horizon + make_interval(secs => s.n * least(v_late.rate_weight, u.most) * u.pace)) + interval '0.1 ms' AS turn
          FROM unnest(v_keys, v_horizon, v_most, v_pace) AS u(key, horizon, most, pace)
         WHERE u.key = ANY (v_late.rate_keys) AND u.horizon > v_now) AS t;
    v_more := coalesce(cardinality(v_same), 0);
    IF v_more > 0 THEN PERFORM {schema}.rate_turns_apart(v_same, v_same_turns); END IF;
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
  -- A parked job was promoted to a place that was given back: the claiming worker must claim again at once.
  RETURN QUERY SELECT d.id, CASE WHEN v_left > 0 THEN v_now ELSE d.turn END FROM unnest(v_back, v_turns) AS d(id, turn);
END $$;
