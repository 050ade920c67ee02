"""Snapshot: all rows of the store that concern jobs at one moment, read by one query."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rowlock.model.state import State

if TYPE_CHECKING:
    from tests.factories import Store

    from rowlock.model.job import Claim

Pair = tuple[str, int, int]
"""Kind, priority, share: what a claim probes."""
LOOK: Final = """
SELECT json_build_object(
  'now', extract(epoch FROM clock_timestamp()),
  'jobs', (SELECT json_agg(json_build_object(
     'id', j.id, 'kind', j.kind, 'priority', j.priority, 'share', j.share, 'state', j.state, 'fence', j.fence,
     'seq', j.seq,
     'attempt', j.attempt, 'max_attempts', j.max_attempts, 'losses', j.losses,
     'runs', j.attempt + j.losses + j.refunds + coalesce(j.runs_before, 0),
     'refunds', j.refunds, 'claimed_by', j.claimed_by, 'lane', j.lane,
     'gate_key', j.gate_key, 'gate_place', j.gate_place, 'approval', j.approval, 'approvers', j.approvers,
     'submitted_by', j.submitted_by, 'tenant', j.tenant, 'cancelling', j.cancel_requested, 'unique_key', j.unique_key,
     'unique_scope', j.unique_scope, 'workflow', j.workflow_id, 'rates', j.rate_keys,
     'rate_turn', j.rate_turn IS TRUE,
     'weight', coalesce(j.rate_weight, 1), 'refs', j.refs, 'tags', j.tags, 'schedule', j.meta ->> 'schedule',
     'slot', j.meta ->> 'slot', 'args', j.args, 'reason', j.errors ->> 'reason',
     'run_after', extract(epoch FROM j.run_after),
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
  'pairs', (SELECT json_agg(json_build_array(p.kind, p.priority, p.share, extract(epoch FROM p.low_water)))
            FROM {s}.pairs p),
  'refs', (SELECT json_agg(json_build_array(r.job_id, r.name, r.value)) FROM {s}.job_refs r),
  'saved', (SELECT json_agg(json_build_array(c.job_id, c.checkpoint)) FROM {s}.job_checkpoints c),
  'rates', (SELECT json_object_agg(r.key, json_build_array(
              extract(epoch FROM greatest(r.horizon, 'epoch')), extract(epoch FROM greatest(r.paused_until, 'epoch'))))
            FROM {s}.rates r),
  'rules', (SELECT json_agg(json_build_array(r.kind, r.submitted_by, r.created_by) ORDER BY r.id)
            FROM {s}.approval_rules r),
  'schedules', (SELECT json_object_agg(c.name, json_build_array(
              c.version, c.enabled, extract(epoch FROM c.every), c.missed, c.overlap,
              extract(epoch FROM c.next_at) + extract(epoch FROM t.span), c.last_job)) FROM {s}.schedules c
            CROSS JOIN (SELECT timestamptz '2000-01-01 00:00:00+00' - k.origin AS span FROM {s}.calendar k) AS t),
  'locks', (SELECT json_agg(json_build_array(k.session, k.n, k.key, k.held) ORDER BY k.since, k.session, k.n)
            FROM {s}.locks k)
)::text"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A row of jobs; moments in seconds."""

    id: int
    kind: str
    priority: int
    share: int
    state: State
    fence: int
    seq: int
    attempt: int
    max_attempts: int
    losses: int
    runs: int
    refunds: int
    claimed_by: int | None
    lane: str | None
    gate_key: str | None
    gate_place: int
    approval: int
    approvers: list[str] | None
    submitted_by: str | None
    tenant: str | None
    cancelling: bool
    unique_key: str | None
    unique_scope: str | None
    workflow: int | None
    rates: list[str] | None
    rate_turn: bool
    weight: int
    refs: dict[str, Any] | None
    tags: list[str] | None
    schedule: str | None
    slot: str | None
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
    def pair(self) -> Pair:
        return self.kind, self.priority, self.share

    @property
    def referred(self) -> set[tuple[str, str]]:
        """What it is found by."""
        named = {(name, str(value)) for name, value in (self.refs or {}).items()}
        return named | {("tag", tag) for tag in self.tags or ()}

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
class Scheduled:
    """A schedule of an interval; every in seconds, next_at by the calendar."""

    version: int
    enabled: bool
    every: float
    missed: str
    overlap: str
    next_at: float | None
    last_job: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
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
    pairs: dict[Pair, float | None] = field(default_factory=dict)
    """Where each begins, as the last sweep published it."""
    refs: set[tuple[int, str, str]] = field(default_factory=set)
    saved: list[tuple[int, Any]] = field(default_factory=list)
    """Checkpoints of users' own transactions."""
    rates: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The last turn that was given, and until when it is paused."""
    rules: list[tuple[str | None, str | None, str | None]] = field(default_factory=list)
    """Approvals given in advance: for that kind, that submitter, by whom."""
    schedules: dict[str, Scheduled] = field(default_factory=dict)
    locks: list[tuple[int, int, int, bool]] = field(default_factory=list)
    """(session, number, key, held), those that came first in front."""

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


async def look(store: Store) -> Snapshot:
    """Read everything with one query: one snapshot."""
    said = json.loads(await store.value(LOOK))
    rows = {name: value or [] for name, value in said.items() if name != "now"}
    pairs: dict[str, Any] = {name: dict(rows[name] or {}) for name in ("gates", "flows", "steps", "waits", "progress")}
    return Snapshot(
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
        pairs={(row[0], row[1], row[2]): row[3] for row in rows["pairs"]},
        refs={tuple(row) for row in rows["refs"]},
        saved=[tuple(row) for row in rows["saved"]],
        rates={key: (row[0], row[1]) for key, row in dict(rows["rates"] or {}).items()},
        rules=[tuple(row) for row in rows["rules"]],
        schedules={name: Scheduled(*row) for name, row in dict(rows["schedules"] or {}).items()},
        locks=[tuple(row) for row in rows["locks"]],
    )
