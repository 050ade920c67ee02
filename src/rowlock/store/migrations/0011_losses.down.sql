CREATE OR REPLACE FUNCTION {schema}.workflow_retry(p_flow bigint, p_step text, p_by text, p_note text) RETURNS TABLE
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
           refunds = 0, cancel_requested = false, claimed_by = NULL, claimed_at = NULL, lane = NULL, expires_at = NULL,
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

ALTER TABLE {schema}.jobs DROP COLUMN runs_before;
ALTER TABLE {schema}.kinds DROP COLUMN max_losses;
ALTER TABLE {schema}.workers DROP COLUMN held;
