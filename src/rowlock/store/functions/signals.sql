-- Signals: messages that a running job waits for, suspended as blocked. The job's row is locked before its signals and
-- waits.

-- Keeps the first signal of each name. Sender and waiting job both lock the job's row first, so each sees what the
-- other wrote. what: sent, kept (an earlier one counts, or the time was over), final, missing; released: as
-- workflow_release answers.
CREATE FUNCTION {schema}.signal_send(p_job bigint, p_name text, p_payload jsonb, p_by text) RETURNS TABLE
  (what text, state text, released jsonb, timed_out boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE v_state text; v_final boolean; v_out jsonb; v_late boolean;
BEGIN
  SELECT j.state, j.finished_at IS NOT NULL INTO v_state, v_final FROM {schema}.jobs j WHERE j.id = p_job FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN QUERY SELECT 'missing', NULL::text, NULL::jsonb, false; RETURN; END IF;
  IF v_final THEN RETURN QUERY SELECT 'final', v_state, NULL::jsonb, false; RETURN; END IF;
  INSERT INTO {schema}.signals (job_id, name, payload, sent_by) VALUES (p_job, p_name, p_payload, p_by) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    SELECT g.timed_out INTO v_late FROM {schema}.signals g WHERE g.job_id = p_job AND g.name = p_name;
    RETURN QUERY SELECT 'kept', v_state, NULL::jsonb, v_late; RETURN;
  END IF;
  IF v_state = 'blocked' AND EXISTS (SELECT 1 FROM {schema}.waits q WHERE q.job_id = p_job AND q.signal = p_name) THEN
    v_out := {schema}.workflow_release(ARRAY[p_job]);
  END IF;
  RETURN QUERY SELECT 'sent', j.state, v_out, false FROM {schema}.jobs j WHERE j.id = p_job;
END $$;

-- Runs in the statement that suspends these jobs, which holds their rows: writes what each waits for and for how long.
-- A job whose signal is there already goes back to the queue at once. The wait has its own limit, so expires_at is
-- cleared.
CREATE FUNCTION {schema}.signal_await(p_moved bigint[], p_ids bigint[], p_names text[], p_seconds float8[]) RETURNS jsonb LANGUAGE plpgsql STRICT AS $$
DECLARE v_there bigint[];
BEGIN
  INSERT INTO {schema}.waits AS q (job_id, signal, until)
  SELECT j.id, d.name, clock_timestamp() + make_interval(secs => d.seconds)
    FROM unnest(p_ids, p_names, p_seconds) AS d(id, name, seconds)
    JOIN {schema}.jobs j ON j.id = d.id AND j.state = 'blocked' AND j.id = ANY (p_moved)
  ON CONFLICT (job_id) DO UPDATE SET signal = excluded.signal, until = excluded.until;
  UPDATE {schema}.jobs j SET expires_at = NULL WHERE j.id = ANY (p_moved) AND j.state = 'blocked' AND j.expires_at IS NOT NULL;
  SELECT array_agg(q.job_id) INTO v_there
    FROM {schema}.waits q JOIN {schema}.signals g ON g.job_id = q.job_id AND g.name = q.signal WHERE q.job_id = ANY (p_moved);
  RETURN {schema}.workflow_release(v_there);
END $$;

-- Lets these waits time out; the caller holds the jobs' rows. The timeout and the release of a job happen together or
-- not at all: after the timeout alone no signal would count any more. A refused job goes on waiting; they are halved
-- until it is alone. Answers as workflow_release does.
CREATE FUNCTION {schema}.signals_time_out_apart(p_ids bigint[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE v_half integer := cardinality(p_ids) / 2;
BEGIN
  INSERT INTO {schema}.signals (job_id, name, timed_out)
  SELECT q.job_id, q.signal, true FROM {schema}.waits q WHERE q.job_id = ANY (p_ids) ON CONFLICT DO NOTHING;
  RETURN {schema}.workflow_release(p_ids);
EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
WHEN OTHERS THEN
  IF v_half = 0 THEN
    PERFORM {schema}.warn_refused(p_ids[1], NULL, 'end of its wait', SQLERRM);
    RETURN NULL;
  END IF;
  RETURN nullif(coalesce({schema}.signals_time_out_apart(p_ids[: v_half]), '[]')
                || coalesce({schema}.signals_time_out_apart(p_ids[v_half + 1 :]), '[]'), '[]');
END $$;

-- Ends waits whose time is over. Held rows are passed over: at this moment the signal is sent, or the job ended. A job
-- that ended, was replaced or retried, or is parked at its gate no longer waits, so it gets no timeout.
CREATE FUNCTION {schema}.signals_overdue(p_limit integer) RETURNS TABLE (ids bigint[], released jsonb) LANGUAGE plpgsql AS $$
DECLARE v_ids bigint[]; v_id bigint; v_flow bigint;
BEGIN
  FOR v_id, v_flow IN
      SELECT q.job_id, j.workflow_id FROM {schema}.waits q JOIN {schema}.jobs j ON j.id = q.job_id
       WHERE q.until < clock_timestamp() AND NOT (j.state = 'blocked' AND j.gate_place = 0) FOR UPDATE OF q SKIP LOCKED LOOP
    BEGIN
      IF v_flow IS NULL THEN DELETE FROM {schema}.waits q WHERE q.job_id = v_id;
      ELSE UPDATE {schema}.waits q SET signal = NULL, until = NULL WHERE q.job_id = v_id;
      END IF;
    EXCEPTION WHEN deadlock_detected OR serialization_failure THEN RAISE;
    WHEN OTHERS THEN PERFORM {schema}.warn_refused(v_id, NULL, 'end of its wait', SQLERRM);
    END;
  END LOOP;
  SELECT array_agg(x.id) INTO v_ids FROM (
    SELECT j.id FROM {schema}.jobs j
     WHERE j.id IN (SELECT q.job_id FROM {schema}.waits q WHERE q.until < clock_timestamp() ORDER BY q.until LIMIT p_limit)
       AND j.state = 'blocked' AND j.gate_place = 0 ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED) AS x;
  RETURN QUERY SELECT v_ids, {schema}.signals_time_out_apart(ARRAY(
    SELECT q.job_id FROM {schema}.waits q WHERE q.job_id = ANY (v_ids) AND q.until < clock_timestamp()));
END $$;
