"""Mutations that the state machine must notice, whatever other tests say."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation, migration

FINISH: Final = "store/sql/finish.sql"
CONTROL: Final = "store/sql/control.sql"
UPKEEP: Final = "store/sql/upkeep.sql"
ENQUEUE: Final = "store/sql/enqueue.sql"
CLAIM: Final = "store/sql/claim.sql"
PROGRESS: Final = "store/sql/progress.sql"
GATES: Final = "store/migrations/0001_initial.up.sql"
FLOWS: Final = "store/migrations/0009_workflows.up.sql"
LOCK_ORDER: Final = migration("lock_order")
LIMITS: Final = "store/migrations/0008_limits.up.sql"
RATES: Final = "store/sql/rates.sql"
SCHEDULES: Final = "store/sql/schedules.sql"
LOCKS: Final = "store/sql/locks.sql"
RELEASES: Final = "store/migrations/0010_locks.up.sql"
PLANS: Final = "flow/enqueue/insert.py"


def _noticed(*machines: str) -> tuple[str, ...]:
    return tuple(f"tests/machine/test_machine.py::test_the_store_keeps_to_the_oracle[{name}]" for name in machines)


MUTATIONS: Final = (
    Mutation(
        "machine: a stale claim completes the next attempt",
        FINISH,
        "j.claimed_by = :worker::bigint AND j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL\n\n",
        "j.id = d.id AND j.finished_at IS NULL\n\n",
        _noticed("lives"),
    ),
    Mutation(
        "machine: a rescue leaves the fence as it is",
        FINISH,
        "fence = j.fence + 1, seq = j.seq + 1, gate_place = 0,",
        "fence = j.fence + (l.owner IS NOT NULL)::integer, seq = j.seq + 1, gate_place = 0,",
        _noticed("lives"),
    ),
    Mutation(
        "machine: who gives a job back keeps its place",
        FINISH,
        "SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified,"
        " {followed},\n"
        "       min(m.run_after) FILTER (WHERE m.state = 'queued') AS again_at FROM moved m\n",
        "SELECT coalesce(array_agg(m.id), '{}') AS ids, 0 AS promoted, {notified} AS notified, {followed},\n"
        "       min(m.run_after) FILTER (WHERE m.state = 'queued') AS again_at FROM moved m\n",
        _noticed("limited"),
    ),
    Mutation(
        "machine: a dead worker costs its jobs an attempt",
        UPKEEP,
        "* random() AS delay, 1 AS refund,",
        "* random() AS delay, 0 AS refund,",
        _noticed("lives"),
    ),
    Mutation(
        "machine: a job goes back beside its waiting twin",
        FINISH,
        "(l.state <> 'failed' AND (j.cancel_requested OR was.twin IS NOT NULL))",
        "(l.state <> 'failed' AND j.cancel_requested)",
        _noticed("keyed"),
    ),
    Mutation(
        "machine: of two that come back at once both do",
        FINISH,
        "          AND t.id > me.id AND o.state",
        "          AND t.id > me.id AND false AND o.state",
        _noticed("keyed"),
    ),
    Mutation(
        "machine: a job whose cancel was asked for is tried again",
        FINISH,
        "(l.state <> 'failed' AND (j.cancel_requested OR was.twin IS NOT NULL))",
        "(l.state <> 'failed' AND was.twin IS NOT NULL)",
        _noticed("lives"),
    ),
    Mutation(
        "machine: the sweep publishes a moment behind the head",
        UPKEEP,
        "SELECT h.kind, h.priority, h.share, h.run_after FROM h ORDER BY 1, 2, 3",
        "SELECT h.kind, h.priority, h.share, h.run_after + interval '1 s' FROM h ORDER BY 1, 2, 3",
        _noticed("fair"),
    ),
    Mutation(
        "machine: an approval outlives the arguments it was for",
        CONTROL,
        "w.anew AND o.approval <> 0 AND NOT o.depends AS asks",
        "w.anew AND o.approval & 3 = 1 AND NOT o.depends AS asks",
        _noticed("answered"),
    ),
    Mutation(
        "machine: a gate lets one more in than it has places",
        migration("refused_rows"),
        "v_free := greatest(0, g.max_running - g.held);",
        "v_free := greatest(0, g.max_running + 1 - g.held);",
        _noticed("limited"),
    ),
    Mutation(
        "machine: a freed place goes to the last in the queue",
        migration("refused_rows"),
        "     ORDER BY q.priority DESC, q.run_after, q.id LIMIT p_free FOR NO KEY UPDATE SKIP LOCKED)",
        "     ORDER BY q.priority, q.run_after DESC, q.id LIMIT p_free FOR NO KEY UPDATE SKIP LOCKED)",
        _noticed("limited"),
    ),
    Mutation(
        "machine: a pair is emptied from its end",
        CLAIM,
        "  ORDER BY j.run_after, j.id\n  LIMIT l.free",
        "  ORDER BY j.run_after DESC, j.id\n  LIMIT l.free",
        _noticed("lives"),
    ),
    Mutation(
        "machine: an older job waits behind a newer one",
        CLAIM,
        "ORDER BY h.run_after, h.id) AS m\n      {locked_head}\n      UNION ALL\n      SELECT r.id\n"
        "      FROM (SELECT h.kind, level.priority, h.share, coalesce(max(h.run_after), h.lo) AS lo,\n"
        "                   coalesce((array_agg(h.id ORDER BY h.run_after DESC, h.id DESC))[1], 0) AS last_id\n",
        "ORDER BY h.run_after DESC, h.id) AS m\n      {locked_head}\n      UNION ALL\n      SELECT r.id\n"
        "      FROM (SELECT h.kind, level.priority, h.share, coalesce(max(h.run_after), h.lo) AS lo,\n"
        "                   coalesce((array_agg(h.id ORDER BY h.run_after DESC, h.id DESC))[1], 0) AS last_id\n",
        _noticed("lives"),
    ),
    Mutation(
        "machine: items of the attempt before are counted with this one's",
        PROGRESS,
        "items_completed = CASE WHEN p.fence = excluded.fence THEN p.items_completed ELSE 0 END",
        "items_completed = p.items_completed",
        _noticed("lives"),
    ),
    Mutation(
        "machine: a step that ends twice is counted twice",
        migration("losses"),
        "UPDATE {schema}.workflow_steps s SET ended = false WHERE s.job_id = ANY (v_now) AND s.ended;",
        "",
        _noticed("composed"),
    ),
    Mutation(
        "machine: a step behind one that failed waits for ever",
        migration("refused_rows"),
        "    IF v_stop IS NOT NULL THEN\n",
        "    IF false THEN\n",
        _noticed("composed"),
    ),
    Mutation(
        "machine: a cancel takes the job from under its claimer",
        CONTROL,
        "AND j.state IN ('pending', 'blocked', 'queued') ORDER BY j.id FOR UPDATE),\n{end_jobs},\n",
        "AND j.state IN ('pending', 'blocked', 'queued') ORDER BY j.id),\n{end_jobs},\n",
        _noticed("together"),
    ),
    Mutation(
        "machine: an idempotency key stands for a job that was never made",
        ENQUEUE,
        "coalesce((SELECT twin.id FROM twin), {key_job})",
        "{key_job}",
        _noticed("keyed"),
    ),
    Mutation(
        "machine: the idempotency key does not follow the unique key",
        PLANS,
        "            yield from verbs.point_key(values, receipt.id)\n",
        "",
        _noticed("keyed"),
    ),
    Mutation(
        "machine: of a key that a bulk says twice the last one counts",
        ENQUEUE,
        "ORDER BY d.key, d.n) AS f ORDER BY f.n",
        "ORDER BY d.key, d.n DESC) AS f ORDER BY f.n",
        _noticed("keyed"),
    ),
    Mutation(
        "machine: a bulk that is rejected leaves jobs behind",
        ENQUEUE,
        "FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) RETURNING j.id, j.refs, j.tags)\nDELETE",
        "FROM {schema}.jobs j WHERE :ids::bigint[] IS NULL RETURNING j.id, j.refs, j.tags)\nDELETE",
        _noticed("keyed"),
    ),
    Mutation(
        "machine: a replaced job is still found by its old references",
        ENQUEUE,
        "USING (SELECT * FROM before EXCEPT SELECT * FROM after) AS g",
        "USING (SELECT * FROM before WHERE false) AS g",
        _noticed("keyed"),
    ),
    Mutation(
        "machine: a job that ended instead of another attempt is told as a failed one",
        FINISH,
        "  WHERE d.hook IS NOT NULL AND m.state = 'queued'),",
        "  WHERE d.hook IS NOT NULL),",
        _noticed("lives"),
    ),
    Mutation(
        "machine: nobody is told of a job that expired",
        UPKEEP,
        "FROM concluded o JOIN {schema}.kinds k ON k.name = o.kind WHERE",
        "FROM concluded o JOIN {schema}.kinds k ON k.name = o.kind AND o.state = 'failed' WHERE",
        _noticed("lives"),
    ),
    Mutation(
        "machine: one tenant's backlog is served before the others'",
        CLAIM,
        "ORDER BY h.debt + h.rank, h.run_after, h.id) AS m",
        "ORDER BY h.run_after, h.id) AS m",
        _noticed("fair"),
    ),
    Mutation(
        "machine: a fair lane forgets whose turn it was",
        CLAIM,
        "ORDER BY h.debt + h.rank, h.run_after, h.id) AS m",
        "ORDER BY h.rank, h.run_after, h.id) AS m",
        _noticed("fair"),
    ),
    Mutation(
        "machine: a pair with more to give is left alone",
        CLAIM,
        "            HAVING count(h.id) = h.take\n            ORDER BY h.debt + h.take, 4",
        "            HAVING count(h.id) > h.take\n            ORDER BY h.debt + h.take, 4",
        _noticed("fair"),
    ),
    Mutation(
        "machine: a released step passes a more urgent job",
        CLAIM,
        "      WHERE p.priority > j.priority)",
        "      WHERE false)",
        _noticed("composed"),
    ),
    Mutation(
        "machine: a job that rises lands behind the cursors",
        RATES,
        "seq = j.seq + 1, run_after = clock_timestamp()\n  FROM held h",
        "seq = j.seq + 1, run_after = j.run_after\n  FROM held h",
        _noticed("fair"),
    ),
    Mutation(
        "machine: a bucket never overflows",
        LIMITS,
        "tokens := least(r.burst, r.tokens + extract(epoch FROM v_now - r.updated_at) / pace);",
        "tokens := r.tokens + extract(epoch FROM v_now - r.updated_at) / pace;",
        _noticed("limited"),
    ),
    Mutation(
        "machine: a bucket keeps its last token",
        LIMITS,
        "AND v_room[i] >= w - 1e-6\n",
        "AND v_room[i] >= w + 1\n",
        _noticed("limited"),
    ),
    Mutation(
        "machine: a rate that is paused lets jobs start",
        LIMITS,
        "CONTINUE WHEN v_paused[i] <= v_now AND v_room",
        "CONTINUE WHEN v_room",
        _noticed("limited"),
    ),
    Mutation(
        "machine: a stale claim pauses a rate",
        RATES,
        "j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL\n  CROSS JOIN LATERAL unnest",
        "j.id = d.id\n  CROSS JOIN LATERAL unnest",
        _noticed("limited"),
    ),
    Mutation(
        "machine: a workflow whose key is taken says it was made",
        FLOWS,
        "RETURN QUERY SELECT v_id, 'kept', s.name",
        "RETURN QUERY SELECT v_id, 'created', s.name",
        _noticed("composed"),
    ),
    Mutation(
        "machine: a rule approves its author's own job under four eyes",
        migration("approvals"),
        "coalesce(r.created_by = j.submitted_by, ",
        "coalesce(false, ",
        _noticed("answered"),
        count=2,
    ),
    Mutation(
        "machine: nobody's rule counts as one of several approvers",
        migration("approvals"),
        "          AND (j.approval >> 3 = 0 OR r.created_by IS NOT NULL)\n",
        "",
        _noticed("answered"),
    ),
    Mutation(
        "machine: a schedule is fired by what was read before its edit",
        SCHEDULES,
        "WHERE s.name = :name::text AND s.version = :version::integer AND s.enabled\n",
        "WHERE s.name = :name::text\n",
        _noticed("scheduled"),
    ),
    Mutation(
        "machine: two schedulers take the same slots",
        SCHEDULES,
        "  AND s.next_at = :expected::timestamptz - {travelled} AND s.next_at <= clock_timestamp()\n",
        "",
        _noticed("scheduled"),
    ),
    Mutation(
        "machine: a run that goes on does not overlap the next",
        SCHEDULES,
        "WHERE j.id = s.last_job AND j.finished_at IS NULL) AS busy",
        "WHERE j.id = s.last_job AND j.finished_at IS NOT NULL) AS busy",
        _noticed("scheduled"),
    ),
    Mutation(
        "machine: a newcomer passes those who wait for a lock",
        LOCKS,
        "AND NOT w.held AND w.session <> :session::bigint)",
        "AND NOT w.held AND w.session = :session::bigint)",
        _noticed("scheduled"),
    ),
    Mutation(
        "machine: a lock goes to the one that came last",
        migration("set_aside"),
        "ORDER BY k.since, k.session, k.n LIMIT 1",
        "ORDER BY k.since DESC, k.session, k.n LIMIT 1",
        _noticed("scheduled"),
    ),
    Mutation(
        "machine: waiting for a lock counts as being gone",
        LOCKS,
        "WHERE NOT EXISTS (SELECT 1 FROM here h WHERE h.pid = k.pid AND h.key = k.session)",
        "WHERE NOT EXISTS (SELECT 1 FROM here h WHERE h.pid = k.pid AND h.key = k.key)",
        _noticed("scheduled"),
    ),
    Mutation(
        "machine: an attempt goes on from an older checkpoint",
        PROGRESS,
        "ORDER BY s.saved_at DESC NULLS LAST LIMIT 1",
        "ORDER BY s.saved_at LIMIT 1",
        _noticed("lives"),
    ),
    Mutation(
        "machine: a stale claim saves a checkpoint",
        PROGRESS,
        "    AND j.id = :id::bigint AND j.fence = :fence::integer AND j.finished_at IS NULL FOR SHARE),\nolder",
        "    AND j.id = :id::bigint AND j.finished_at IS NULL FOR SHARE),\nolder",
        _noticed("lives"),
    ),
    Mutation(
        "machine: a stale claim commits guarded rows",
        FINISH,
        "j.id = :id::bigint AND j.fence = :fence::integer AND j.finished_at IS NULL FOR SHARE",
        "j.id = :id::bigint AND j.finished_at IS NULL FOR SHARE",
        _noticed("lives"),
    ),
    Mutation(
        "machine: retention takes what is too young",
        UPKEEP,
        "x.finished_at >= r.pruned_to AND x.finished_at < r.until AND",
        "x.finished_at >= r.pruned_to AND x.finished_at < now() AND",
        _noticed("lives"),
    ),
    Mutation(
        "machine: a scheduled job starts before its time",
        CLAIM,
        "ANY (:ids::bigint[]) AND j.state = 'queued' AND j.run_after <= statement_timestamp()\n  ORDER BY",
        "ANY (:ids::bigint[]) AND j.state = 'queued'\n  ORDER BY",
        _noticed("lives"),
    ),
    Mutation(
        "machine: a job that is held for a person runs",
        UPKEEP,
        "WHEN p.policy = 'hold' THEN 'pending' ELSE 'queued' END AS state",
        "ELSE 'queued' END AS state",
        _noticed("lives"),
    ),
    Mutation(
        "machine: somebody who has approved approves again by a rule",
        migration("approvals"),
        "          AND (coalesce(r.created_by, 'rule') = ANY (j.approvers)) IS NOT TRUE\n",
        "",
        _noticed("answered"),
    ),
)
