-- Approval in advance, by the rules that operators write.

-- Approves those of the given jobs that a rule fits. Every argument that the rule names must have exactly that value
-- (containment would let ["stranger", "friend"] pass a rule for ["friend"]), unless the rule says that it contains. A
-- rule counts as the approval of the person who wrote it: not for that person's own jobs or arguments, unless the kind
-- lets submitters approve; as one approval where several are needed; as none if that person has approved already. A rule
-- of a server without authentication has no author. Judged on the locked row. An approved job gets a new position, as
-- the old one may lie behind the claim cursors by now. Answers the jobs that got an approval; state queued: it was the
-- last one they needed.
CREATE FUNCTION {schema}.approve_by_rule(p_ids bigint[]) RETURNS TABLE (id bigint, state text, run_after timestamptz) LANGUAGE sql AS $$
  WITH judged AS (
    SELECT j.id, cardinality(coalesce(j.approvers, '{}')) >= (j.approval >> 3) AS enough, coalesce(r.created_by, 'rule') AS by_whom,
           r.id AS rule, r.note
      FROM {schema}.jobs j
     CROSS JOIN LATERAL (
       SELECT r.id, r.created_by, r.note FROM {schema}.approval_rules r
        WHERE (r.kind IS NULL OR r.kind = j.kind OR (r.kind LIKE '%*' AND starts_with(j.kind, left(r.kind, -1))))
          AND (r.submitted_by IS NULL OR r.submitted_by = j.submitted_by) AND (r.tenant IS NULL OR r.tenant = j.tenant)
          AND (r.args IS NULL
               OR (r.args_match = 'contains' AND j.args @> r.args)
               OR (r.args_match = 'exact' AND jsonb_typeof(r.args) = 'object' AND NOT EXISTS (
                     SELECT 1 FROM jsonb_each(CASE WHEN jsonb_typeof(r.args) = 'object' THEN r.args END) AS e
                      WHERE j.args -> e.key IS DISTINCT FROM e.value)))
          AND NOT (j.approval & 4 <> 0 AND coalesce(r.created_by = j.submitted_by, true))
          AND NOT ((j.approval & 4 <> 0 OR NOT coalesce((SELECT k.own_approval FROM {schema}.kinds k WHERE k.name = j.kind), false))
                   AND (coalesce(r.created_by = j.submitted_by, false) OR EXISTS (
                     SELECT 1 FROM {schema}.job_acts a
                      WHERE a.job_id = j.id AND a.verb = 'edit' AND a.by_whom = r.created_by AND a.detail ? 'args')))
          AND (j.approval >> 3 = 0 OR r.created_by IS NOT NULL)
          AND (coalesce(r.created_by, 'rule') = ANY (j.approvers)) IS NOT TRUE
        ORDER BY r.id LIMIT 1) AS r
     WHERE j.id = ANY (p_ids) AND j.state = 'pending' AND j.approval & 3 = 1 ORDER BY j.id FOR UPDATE OF j),
  approved AS (
    UPDATE {schema}.jobs j
       SET approvers = array_append(j.approvers, g.by_whom), seq = j.seq + 1, fence = j.fence + g.enough::integer,
           state = CASE WHEN g.enough THEN 'queued' ELSE j.state END,
           approval = CASE WHEN g.enough THEN (j.approval & 32764) | 2 ELSE j.approval END,
           answer_by = CASE WHEN g.enough THEN NULL ELSE j.answer_by END,
           run_after = CASE WHEN g.enough THEN greatest(j.run_after, clock_timestamp()) ELSE j.run_after END
      FROM judged g WHERE j.id = g.id
    RETURNING j.id, j.state, j.run_after, j.fence, j.seq, g.rule, g.by_whom, g.note),
  told AS (
    INSERT INTO {schema}.job_acts (job_id, verb, by_whom, note, detail)
    SELECT a.id, 'approve', a.by_whom, concat_ws(': ', 'rule ' || a.rule, a.note), jsonb_build_object('fence', a.fence, 'seq', a.seq)
           || CASE WHEN a.state = 'pending' THEN jsonb_build_object('stays', true) ELSE '{}' END || jsonb_build_object('rule', a.rule)
      FROM approved a)
  SELECT a.id, a.state, a.run_after FROM approved a ORDER BY a.id
$$;
