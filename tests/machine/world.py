"""World: everything the store says of its jobs at one moment, read by one query."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rowlock.model.state import State

if TYPE_CHECKING:
    from tests.factories import Store

    from rowlock.model.job import Claim

LOOK: Final = """
SELECT json_build_object(
  'now', extract(epoch FROM clock_timestamp()),
  'jobs', (SELECT json_agg(json_build_object(
     'id', j.id, 'kind', j.kind, 'priority', j.priority, 'state', j.state, 'fence', j.fence, 'seq', j.seq,
     'attempt', j.attempt, 'losses', j.losses, 'refunds', j.refunds, 'claimed_by', j.claimed_by, 'lane', j.lane,
     'gate_key', j.gate_key, 'gate_place', j.gate_place, 'approval', j.approval, 'approvers', j.approvers,
     'submitted_by', j.submitted_by, 'cancelling', j.cancel_requested, 'unique_key', j.unique_key,
     'unique_scope', j.unique_scope, 'workflow', j.workflow_id, 'rates', j.rate_keys, 'rate_turn', j.rate_turn IS TRUE,
     'args', j.args, 'reason', j.errors ->> 'reason', 'run_after', extract(epoch FROM j.run_after),
     'created_at', extract(epoch FROM j.created_at), 'expires_at', extract(epoch FROM j.expires_at),
     'too_old_at', extract(epoch FROM j.too_old_at), 'answer_by', extract(epoch FROM j.answer_by),
     'claimed_at', extract(epoch FROM j.claimed_at), 'finished_at', extract(epoch FROM j.finished_at)) ORDER BY j.id)
     FROM {s}.jobs j),
  'gates', (SELECT json_object_agg(g.key, json_build_array(g.max_running, g.held, g.fifo)) FROM {s}.gates g),
  'flows', (SELECT json_object_agg(f.id, row_to_json(f)) FROM {s}.workflows f),
  'steps', (SELECT json_object_agg(x.job_id, json_build_array(x.workflow_id, x.name, x.ended, x.undo IS NOT NULL))
            FROM {s}.workflow_steps x),
  'edges', (SELECT json_agg(json_build_array(e.upstream, e.downstream, e.needs, e.met)) FROM {s}.edges e),
  'waits', (SELECT json_object_agg(w.job_id, json_build_array(
              w.remaining, w.met, w.unmet, w.go, w.signal, extract(epoch FROM w.until))) FROM {s}.waits w),
  'signals', (SELECT json_agg(json_build_array(n.job_id, n.name, n.timed_out)) FROM {s}.signals n),
  'progress', (SELECT json_object_agg(p.job_id, json_build_array(
              p.fence, p.n, p.items_in_progress, p.items_completed, p.items_skipped, p.items_failed, p.checkpoint,
              extract(epoch FROM p.reported_at)))
            FROM {s}.job_progress p),
  'items', (SELECT json_agg(json_build_array(i.job_id, i.fence, i.state, i.n))
            FROM (SELECT i.job_id, i.fence, i.state, count(*) AS n FROM {s}.job_items i GROUP BY 1, 2, 3) AS i),
  'keys', (SELECT json_object_agg(k.key, k.job_id) FROM {s}.job_keys k),
  'attempts', (SELECT json_agg(json_build_array(a.job_id, a.fence, a.worker_id, a.outcome)) FROM {s}.job_attempts a),
  'workers', (SELECT json_object_agg(w.id, extract(epoch FROM w.seen_at)) FROM {s}.workers w),
  'lanes', (SELECT json_object_agg(l.name, l.max_total) FROM {s}.lanes l),
  'pairs', (SELECT json_agg(json_build_array(p.kind, p.priority, extract(epoch FROM p.low_water))) FROM {s}.pairs p)
)::text"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A row of jobs; moments in seconds."""

    id: int
    kind: str
    priority: int
    state: State
    fence: int
    seq: int
    attempt: int
    losses: int
    refunds: int
    claimed_by: int | None
    lane: str | None
    gate_key: str | None
    gate_place: int
    approval: int
    approvers: list[str] | None
    submitted_by: str | None
    cancelling: bool
    unique_key: str | None
    unique_scope: str | None
    workflow: int | None
    rates: list[str] | None
    rate_turn: bool
    args: dict[str, Any]
    reason: str | None
    run_after: float
    created_at: float
    expires_at: float | None
    too_old_at: float | None
    answer_by: float | None
    claimed_at: float | None
    finished_at: float | None

    @property
    def order(self) -> tuple[int, float, int]:
        """Where it stands in a queue."""
        return -self.priority, self.run_after, self.id

    @property
    def waits(self) -> bool:
        return self.state in {State.PENDING, State.BLOCKED, State.QUEUED}

    @property
    def parked(self) -> bool:
        return self.gate_place == -1 and not self.state.is_final

    @property
    def holds_key(self) -> bool:
        if self.unique_scope == "live":
            return not self.state.is_final
        return self.unique_scope == "waiting" and self.waits


@dataclass(frozen=True, slots=True)
class Wait:
    """What a blocked job waits for."""

    remaining: int
    met: int
    unmet: int
    go: bool | None
    signal: str | None
    until: float | None


@dataclass(frozen=True, slots=True)
class Gate:
    """A concurrency key, or a lane's cap."""

    limit: int
    held: int
    fifo: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A job's place in its workflow."""

    workflow: int
    name: str
    ended: bool
    undo: bool


@dataclass(frozen=True, slots=True)
class World:
    """What is committed at one moment."""

    now: float = 0.0
    jobs: dict[int, Job] = field(default_factory=dict)
    gates: dict[str, Gate] = field(default_factory=dict)
    flows: dict[int, dict[str, Any]] = field(default_factory=dict)
    steps: dict[int, Step] = field(default_factory=dict)
    edges: list[tuple[int, int, str, bool | None]] = field(default_factory=list)
    waits: dict[int, Wait] = field(default_factory=dict)
    signals: set[tuple[int, str, bool]] = field(default_factory=set)
    progress: dict[int, list[Any]] = field(default_factory=dict)
    items: list[tuple[int, int, str, int]] = field(default_factory=list)
    keys: dict[str, int] = field(default_factory=dict)
    attempts: dict[tuple[int, int], tuple[int | None, str]] = field(default_factory=dict)
    workers: dict[int, float] = field(default_factory=dict)
    lanes: dict[str, int | None] = field(default_factory=dict)
    pairs: dict[tuple[str, int], float | None] = field(default_factory=dict)

    def current(self, claim: Claim) -> Job | None:
        """The job, if that claim is the one that counts; None: it is stale."""
        job = self.jobs.get(claim.job_id)
        return job if job is not None and job.fence == claim.fence and not job.state.is_final else None

    def holder(self, key: str | None, scope: str | None) -> Job | None:
        """The job that has a unique key now."""
        held = (j for j in self.jobs.values() if j.unique_key == key and j.unique_scope == scope and j.holds_key)
        return next(held, None)

    def due(self) -> list[Job]:
        """What a claim may take, in the order of a strict lane."""
        queued = (j for j in self.jobs.values() if j.state is State.QUEUED and j.run_after <= self.now)
        return sorted(queued, key=lambda job: job.order)

    def places(self, key: str) -> int:
        """How many places at a gate, or a lane's cap, belong to somebody."""
        if key.startswith("lane:"):
            return sum(j.state is State.RUNNING and f"lane:{j.lane}" == key for j in self.jobs.values())
        return sum(j.gate_key == key and j.gate_place > 0 and not j.state.is_final for j in self.jobs.values())


async def look(store: Store) -> World:
    """Read everything with one query: one snapshot."""
    said = json.loads(await store.value(LOOK))
    rows = {name: value or [] for name, value in said.items() if name != "now"}
    pairs: dict[str, Any] = {name: dict(rows[name] or {}) for name in ("gates", "flows", "steps", "waits", "progress")}
    return World(
        now=said["now"],
        jobs={row["id"]: Job(**row | {"state": State(row["state"])}) for row in rows["jobs"]},
        gates={key: Gate(*row) for key, row in pairs["gates"].items()},
        flows={int(key): row for key, row in pairs["flows"].items()},
        steps={int(key): Step(*row) for key, row in pairs["steps"].items()},
        edges=[tuple(row) for row in rows["edges"]],
        waits={int(key): Wait(*row) for key, row in pairs["waits"].items()},
        signals={tuple(row) for row in rows["signals"]},
        progress={int(key): row for key, row in pairs["progress"].items()},
        items=[tuple(row) for row in rows["items"]],
        keys=dict(rows["keys"] or {}),
        attempts={(row[0], row[1]): (row[2], row[3]) for row in rows["attempts"]},
        workers={int(key): at for key, at in dict(rows["workers"] or {}).items()},
        lanes=dict(rows["lanes"] or {}),
        pairs={(row[0], row[1]): row[2] for row in rows["pairs"]},
    )
