-- The ends of workflow steps: what they release, what they cancel, and how the workflow ends. Lock order: job rows by
-- id, gates, workflows by id; then blocked job rows with SKIP LOCKED, so that nothing waits here.

-- Moves blocked jobs on whose waiting is over. The caller holds their workflows, or their own rows. Answers the jobs
-- that became queued, which workers must hear of: [id, kind, priority, share, run_after as epoch] each. A row that
-- another transaction holds is passed over, and the repair comes back for it. A job that a person has put off keeps the
-- later moment. A job that asks for approval now is judged by the rules at once, as if it were enqueued now.
CREATE FUNCTION {schema}.workflow_release(p_ids bigint[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE v_out jsonb; v_asked bigint[];
BEGIN
  WITH free AS MATERIALIZED (
    SELECT j.id, w.signal, CASE WHEN w.signal IS NULL THEN w.delay END AS delay,
           CASE WHEN w.signal IS NULL THEN w.expires_in END AS expires_in, w.answer_in
      FROM {schema}.jobs j LEFT JOIN {schema}.waits w ON w.job_id = j.id
     WHERE j.id = ANY (p_ids) AND j.state = 'blocked' AND j.gate_place = 0
     ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED),
  released AS (
    UPDATE {schema}.jobs j
       SET state = CASE WHEN j.approval & 3 = 1 THEN 'pending' ELSE 'queued' END, fence = j.fence + 1, seq = j.seq + 1,
           run_after = greatest(j.run_after, t.now + coalesce(f.delay, interval '0')),
           expires_at = coalesce(greatest(j.run_after, t.now + coalesce(f.delay, interval '0')) + f.expires_in, j.expires_at),
           answer_by = CASE WHEN j.approval & 3 = 1 THEN coalesce(t.now + f.answer_in, j.answer_by) ELSE j.answer_by END
      FROM free f CROSS JOIN (SELECT clock_timestamp() AS now) AS t
     WHERE j.id = f.id
    RETURNING j.id, j.kind, j.priority, j.share, j.run_after, j.state, j.workflow_id, f.signal),
  cleared AS (UPDATE {schema}.waits w SET signal = NULL, until = NULL FROM released r
               WHERE w.job_id = r.id AND r.signal IS NOT NULL AND r.workflow_id IS NOT NULL),
  forgotten AS (DELETE FROM {schema}.waits w USING released r WHERE w.job_id = r.id AND r.signal IS NOT NULL AND r.workflow_id IS NULL)
  SELECT jsonb_agg(jsonb_build_array(r.id, r.kind, r.priority, r.share, extract(epoch FROM r.run_after)) ORDER BY r.id)
           FILTER (WHERE r.state = 'queued'), array_agg(r.id) FILTER (WHERE r.state = 'pending')
    INTO v_out, v_asked FROM released r;
  IF v_asked IS NOT NULL THEN
    SELECT coalesce(v_out, '[]') || coalesce(jsonb_agg(jsonb_build_array(j.id, j.kind, j.priority, j.share, extract(epoch FROM j.run_after))), '[]')
      INTO v_out FROM {schema}.approve_by_rule(v_asked) AS a JOIN {schema}.jobs j ON j.id = a.id WHERE a.state = 'queued';
    IF v_out = '[]' THEN RETURN NULL; END IF;
  END IF;
  RETURN v_out;
END $$;

-- Moves them on like workflow_release. A job whose row a trigger refuses is passed over like one that is held: the
-- caller serves other jobs, too, and the repair comes back for it. They are halved until the refused one is alone.
CREATE FUNCTION {schema}.workflow_release_apart(p_ids bigint[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE v_half integer := cardinality(p_ids) / 2;
BEGIN
  RETURN {schema}.workflow_release(p_ids);
EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
WHEN OTHERS THEN
  IF v_half = 0 THEN
    PERFORM {schema}.warn_refused(p_ids[1], NULL, 'release', SQLERRM);
    RETURN NULL;
  END IF;
  RETURN nullif(coalesce({schema}.workflow_release_apart(p_ids[: v_half]), '[]')
                || coalesce({schema}.workflow_release_apart(p_ids[v_half + 1 :]), '[]'), '[]');
END $$;

-- Cancels blocked steps whose conditions are not met, or whose workflow was cancelled; returns those that it ended. The
-- caller holds their workflows. Rows that are held or refused are passed over, as by workflow_release_apart.
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
    PERFORM {schema}.warn_refused(p_ids[1], NULL, 'cancelling', SQLERRM);
    RETURN '{}';
  END IF;
  RETURN {schema}.workflow_stop_apart(p_ids[: v_half]) || {schema}.workflow_stop_apart(p_ids[v_half + 1 :]);
END $$;

-- How a workflow whose steps are all final has ended. A failed step that another step was there for (an edge of failure
-- or finish) counts as an error, not as the workflow's failure.
CREATE FUNCTION {schema}.workflow_verdict(p_id bigint) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN w.verdict IS NOT NULL THEN w.verdict
    WHEN w.cancel_requested THEN 'cancelled'
    WHEN w.failed = 0 AND w.cancelled = 0 THEN CASE WHEN w.with_errors > 0 THEN 'completed_with_errors' ELSE 'completed' END
    WHEN EXISTS (
      SELECT 1 FROM {schema}.workflow_steps s JOIN {schema}.jobs j ON j.id = s.job_id
       WHERE s.workflow_id = p_id AND j.state IN ('failed', 'expired')
         AND NOT EXISTS (SELECT 1 FROM {schema}.edges e WHERE e.upstream = j.id AND e.needs IN ('failure', 'finish'))) THEN 'failed'
    WHEN EXISTS (
      SELECT 1 FROM {schema}.workflow_steps s LEFT JOIN {schema}.jobs j ON j.id = s.job_id
       WHERE s.workflow_id = p_id AND (s.gone OR (j.state = 'cancelled'
         AND coalesce(j.errors ->> 'reason', '') NOT IN ('not needed', 'dependency')))) THEN 'cancelled'
    WHEN w.failed > 0 OR w.with_errors > 0 THEN 'completed_with_errors'
    ELSE 'completed' END
  FROM {schema}.workflows w WHERE w.id = p_id
$$;

-- Runs in the statement that makes jobs final, for those that are steps. Counts their ends, judges the edges behind
-- them, and releases or cancels the steps that waited, in rounds, since a cancelled step is an end too; closes
-- workflows whose last step has ended. Given jobs that still wait are judged again, which makes up for a release that
-- passed over a held row. Everything is read after the workflows are locked, each statement with a snapshot of its own,
-- so nothing older than the lock is believed. STRICT: a flush without steps does not even enter. Answers the jobs that
-- were released, as workflow_release does.
CREATE FUNCTION {schema}.workflow_follow(p_ids bigint[], p_channel text) RETURNS jsonb LANGUAGE plpgsql STRICT AS $$
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

-- Follows these ends like workflow_follow. A step whose workflow, edges or waits a trigger refuses is passed over, and
-- comes back with the next repair: they are halved until it is alone.
CREATE FUNCTION {schema}.workflow_follow_apart(p_ids bigint[], p_channel text) RETURNS jsonb LANGUAGE plpgsql STRICT AS $$
DECLARE v_half integer := cardinality(p_ids) / 2;
BEGIN
  RETURN {schema}.workflow_follow(p_ids, p_channel);
EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
WHEN OTHERS THEN
  IF v_half = 0 THEN
    PERFORM {schema}.warn_refused(p_ids[1], NULL, 'place in its workflow', SQLERRM);
    RETURN NULL;
  END IF;
  RETURN nullif(coalesce({schema}.workflow_follow_apart(p_ids[: v_half], p_channel), '[]')
                || coalesce({schema}.workflow_follow_apart(p_ids[v_half + 1 :], p_channel), '[]'), '[]');
END $$;

-- Finds steps that were ended by code without workflows, steps that a release passed over because their row was held,
-- and workflows without a live step that are not closed. Looks at p_flows live workflows, from a random one on when
-- there are more, so that each round sees others.
CREATE FUNCTION {schema}.workflow_repair(p_flows integer, p_steps integer, p_channel text) RETURNS TABLE (ids bigint[], released jsonb)
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
  RETURN QUERY SELECT v_ids, {schema}.workflow_follow_apart(v_ids, p_channel);
END $$;
