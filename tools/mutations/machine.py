"""Mutations that the state machine must notice, whatever other tests say."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

FINISH: Final = "store/sql/finish.sql"
CONTROL: Final = "store/sql/control.sql"
UPKEEP: Final = "store/sql/upkeep.sql"
ENQUEUE: Final = "store/sql/enqueue.sql"
CLAIM: Final = "store/sql/claim.sql"
PROGRESS: Final = "store/sql/progress.sql"
GATES: Final = "store/migrations/0001_initial.up.sql"
FLOWS: Final = "store/migrations/0009_workflows.up.sql"


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
        "SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {told} AS told, {followed},\n"
        "       min(m.run_after) FILTER (WHERE m.state = 'queued') AS again_at FROM moved m\n",
        "SELECT coalesce(array_agg(m.id), '{}') AS ids, 0 AS promoted, {told} AS told, {followed},\n"
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
        _noticed("lives"),
    ),
    Mutation(
        "machine: an approval outlives the arguments it was for",
        CONTROL,
        "w.anew AND o.approval <> 0 AND NOT o.depends AS asks",
        "w.anew AND o.approval & 3 = 1 AND NOT o.depends AS asks",
        _noticed("answered"),
    ),
    Mutation(
        "machine: a replaced job keeps its approval",
        ENQUEUE,
        "(o.approval <> 0 OR excluded.approval <> 0)",
        "(excluded.approval <> 0)",
        _noticed("answered"),
    ),
    Mutation(
        "machine: a gate lets one more in than it has places",
        GATES,
        "v_free := greatest(0, g.max_running - g.held);",
        "v_free := greatest(0, g.max_running + 1 - g.held);",
        _noticed("limited"),
    ),
    Mutation(
        "machine: a freed place goes to the last in the queue",
        GATES,
        "     ORDER BY q.priority DESC, q.run_after, q.id LIMIT p_free FOR NO KEY UPDATE SKIP LOCKED)",
        "     ORDER BY q.priority, q.run_after DESC, q.id LIMIT p_free FOR NO KEY UPDATE SKIP LOCKED)",
        _noticed("limited"),
    ),
    Mutation(
        "machine: an older job waits behind a newer one",
        CLAIM,
        "ORDER BY h.run_after, h.id) AS m\n      {locked_head}\n      UNION ALL\n      SELECT r.id\n"
        "      FROM (SELECT h.kind, h.share, coalesce(max(h.run_after), h.lo) AS lo,\n"
        "                   coalesce((array_agg(h.id ORDER BY h.run_after DESC, h.id DESC))[1], 0) AS last_id\n",
        "ORDER BY h.run_after DESC, h.id) AS m\n      {locked_head}\n      UNION ALL\n      SELECT r.id\n"
        "      FROM (SELECT h.kind, h.share, coalesce(max(h.run_after), h.lo) AS lo,\n"
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
        FLOWS,
        "UPDATE {schema}.workflow_steps s SET ended = false WHERE s.job_id = ANY (v_now) AND s.ended;",
        "",
        _noticed("composed"),
    ),
    Mutation(
        "machine: a step behind one that failed waits for ever",
        FLOWS,
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
)
