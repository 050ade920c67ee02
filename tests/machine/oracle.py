"""Oracle: which changes of jobs are allowed. Built on the one table of transitions; knows nothing of SQL."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import TYPE_CHECKING, Final

from rowlock.model.state import TRANSITIONS, State, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.machine.rates import Start
    from tests.machine.snapshot import Job, Snapshot

    from rowlock.model.job import Claim

Path = tuple[Verb | str, ...]
REFUSED: Final = "refused"
"""A claim that its gate or its rate takes back before it commits: two moves of the fence, and nobody saw it running."""
TURN: Final = "turn"
"""A later place in the queue, given by a rate to jobs that nobody claimed."""
WITHDRAWN: Final = "withdrawn"
"""The cancel of a job that waits: it never ends one that runs."""
_BESIDE: Final[dict[str, dict[State, dict[State, int]]]] = {
    WITHDRAWN: {state: {State.CANCELLED: 1} for state in TRANSITIONS[Verb.CANCEL] if state is not State.RUNNING},
    REFUSED: {State.QUEUED: {State.BLOCKED: 2, State.QUEUED: 2}},
    TURN: {State.QUEUED: {State.QUEUED: 1}},
}
STAYS: Final[Path] = ()
FREED: Final = frozenset({STAYS, (Verb.RELEASE,)})
"""What an end may bring others: a place at a gate, or the end of what a step waited for."""
CASCADE: Final = FREED | {(Verb.CANCEL,), (Verb.RELEASE, Verb.CANCEL)}
"""The same where workflows follow: a step whose edges are not met is cancelled."""
CROWDED: Final = frozenset({STAYS, (Verb.PARK,), (Verb.PARK, Verb.RELEASE), (Verb.RELEASE,), (TURN,)})
"""What a claim may do to jobs it did not take: more of a full gate park, freed places are handed on."""
NOBODY: Final = frozenset({STAYS})


@dataclass(frozen=True, slots=True)
class Meant:
    """What a statement says it did (paths of the jobs it names), and what it may have done beside them."""

    paths: Mapping[int, Iterable[Path]] = field(default_factory=dict)
    sides: frozenset[Path] = NOBODY
    creates: bool = False
    prunes: bool = False


@dataclass(slots=True)
class Memory:
    """What the oracle remembers of what was answered."""

    claims: list[tuple[Claim, int]] = field(default_factory=list)
    """Every claim ever answered, the stale ones too, with its worker."""
    owners: dict[tuple[int, int], int] = field(default_factory=dict)
    settled: dict[tuple[int, int], bool] = field(default_factory=dict)
    """How a claim ended: by its owner's own accepted write, or by a revocation."""
    owed: Counter[str] = field(default_factory=Counter)
    """Places that nobody holds and the gates duty has to find."""
    loose: bool = False
    """Two were at it at once, or a limit was raised: somebody may wait though they need not, until the next repair."""
    keys: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Idempotency keys: the job, and until when."""
    starts: dict[str, list[Start]] = field(default_factory=dict)
    """By rate."""
    travelled: float = 0.0
    edited: dict[int, set[str]] = field(default_factory=dict)
    """Who changed a job's arguments."""
    saved: dict[int, int] = field(default_factory=dict)
    """The newest checkpoint of a job."""
    fired: set[tuple[str, str]] = field(default_factory=set)
    """Slots that have had their job."""

    def known(self, key: str, snapshot: Snapshot) -> int | None:
        """The job an idempotency key stands for; None: it is free, or its time is over."""
        job_id, until = self.keys.get(key, (0, 0.0))
        return job_id if until > snapshot.now + self.travelled else None

    def took(self, claim: Claim, worker: int) -> None:
        key = (claim.job_id, claim.fence)
        assert key not in self.owners, f"{claim} was handed out twice"
        self.owners[key] = worker
        self.claims.append((claim, worker))

    def settle(self, snapshot: Snapshot, accepted: Iterable[tuple[int, int]]) -> None:
        """Note which claims came to their end: by an accepted write of their owner, or by a revocation."""
        for key in accepted:
            assert key in self.owners, f"an outcome was accepted that nobody had a claim for: {key}"
            assert key not in self.settled, f"a second outcome was accepted for (job, fence) {key}"
            self.settled[key] = True
            job = snapshot.jobs.get(key[0])
            assert job is None or job.fence > key[1], f"its outcome was accepted, and the claim still counts: {job}"
        for key in self.owners.keys() - self.settled.keys():
            job = snapshot.jobs.get(key[0])
            if job is None or job.fence != key[1]:
                self.settled[key] = False


def walk(state: State, path: Path) -> set[tuple[State, int]]:
    """Where the table lets a path of verbs lead, and by how much the fence moves on the way."""
    reached = {(state, 0)}
    for verb in path:
        reached = {(after, moved + n) for before, moved in reached for after, n in _next(before, verb).items()}
    return reached


def _next(before: State, verb: Verb | str) -> Mapping[State, int]:
    """A state after one verb, and whether the fence tells: not of a cancel that was only asked for, nor of an edit."""
    if not isinstance(verb, Verb):
        return _BESIDE[verb].get(before, {})
    silent = before if verb in {Verb.CANCEL, Verb.EDIT} else None
    return {after: int(after is not silent) for after in TRANSITIONS[verb].get(before, frozenset())}


def _allowed(job_id: int, meant: Sequence[Meant]) -> set[Path]:
    """Every path the statements allow this job, whichever was first."""
    allowed: set[Path] = set()
    for order in permutations(meant):
        paths: set[Path] = {STAYS}
        for said in order:
            own = [tuple(path) for path in said.paths.get(job_id, [STAYS])]
            steps = {path + side for path in own for side in said.sides} | {
                side + path for path in own for side in said.sides
            }
            paths = {before + step for before in paths for step in steps}
        allowed |= paths
    return allowed


def judge(before: Snapshot, after: Snapshot, *meant: Meant) -> None:
    """Every change is one the table has and the statements account for."""
    bounded(before, after)
    for job_id in before.jobs.keys() | after.jobs.keys():
        was, now = before.jobs.get(job_id), after.jobs.get(job_id)
        if was is None and now is not None:
            undoes = job_id in after.steps and after.steps[job_id].name.startswith("undo ")
            told = _hook_of(now) is not None and _tells_of_an_end(now, before, after)
            assert told or any(said.creates or (undoes and said.sides is CASCADE) for said in meant), (
                f"nobody enqueued {now}"
            )
            beginnings = (State.PENDING, State.QUEUED, State.BLOCKED)
            paths = _allowed(job_id, meant)
            assert any((now.state, now.fence) in walk(first, path) for first in beginnings for path in paths), now
            assert now.attempt == 0 or now.state is State.RUNNING, now
        elif was is not None and now is None:
            assert any(said.prunes for said in meant), f"somebody removed {was}"
            assert was.state.is_final, f"retention removed a live job: {was}"
        elif was is not None and now is not None:
            _judge_change(was, now, _allowed(job_id, meant))


def _judge_change(was: Job, now: Job, paths: set[Path]) -> None:
    moved = now.fence - was.fence
    assert any((now.state, moved) in walk(was.state, path) for path in paths), (
        f"{was.state} -> {now.state}, fence +{moved}, is none of {sorted(paths)}:\n{was}\n{now}"
    )
    changed = replace(now, seq=was.seq) != was
    assert now.seq > was.seq or not changed, f"seq does not tell of it:\n{was}\n{now}"
    assert now.seq - was.seq >= moved, (was, now)
    began = now.state is State.RUNNING and moved > 0
    assert was.runs + began <= now.runs <= was.runs + moved, f"its runs are counted, and never fewer:\n{was}\n{now}"
    assert (now.id, now.kind, now.workflow if was.workflow else None) == (was.id, was.kind, was.workflow), (was, now)


def _hook_of(job: Job) -> tuple[int, int] | None:
    """The run, as (job, fence), that a hook tells of; None: it is none."""
    return (job.args["job"], job.args["fence"]) if "fence" in job.args else None


def _tells_of_an_end(hook: Job, before: Snapshot, after: Snapshot) -> bool:
    """Whether the run it names has ended since."""
    told, was, now = _hook_of(hook), before.jobs.get(hook.args["job"]), after.jobs.get(hook.args["job"])
    assert told is not None
    return was is not None and now is not None and was.fence <= told[1] < now.fence


def hooked(before: Snapshot, after: Snapshot) -> set[tuple[int, int]]:
    """The runs whose hooks were inserted meanwhile."""
    return {told for i, job in after.jobs.items() if i not in before.jobs and (told := _hook_of(job)) is not None}


def by_rule(snapshot: Snapshot, job: Job, memory: Memory) -> str | None:
    """Whose rule approves the job in advance: the first that fits it; None: nobody's. Nobody counts twice."""
    for kind, submitter, author in snapshot.rules:
        fits = kind in (None, job.kind) and submitter in (None, job.submitted_by)
        own = author is None or job.submitted_by in (None, author) or author in memory.edited.get(job.id, ())
        counts = author is not None or job.approval >> 3 == 0
        again = (author or "rule") in (job.approvers or ())
        mine = author is not None and (author == job.submitted_by or author in memory.edited.get(job.id, ()))
        if fits and counts and not again and not mine and not (own and job.approval & 4):
            return author or "rule"
    return None


def bounded(before: Snapshot, after: Snapshot) -> None:
    """Nobody gets a place beyond the limit; those who had one when it was lowered keep it."""
    for key, gate in after.gates.items():
        places = after.places(key)
        assert places <= max(gate.limit, before.places(key)), f"{key} is for {gate.limit}, and {places} are in"


def in_turn(before: Snapshot, after: Snapshot) -> None:
    """A freed place goes to the first in the gate's queue."""
    parked = [(job, after.jobs.get(job.id)) for job in before.jobs.values() if job.parked]
    for job, now in parked:
        if now is None or now.gate_key != job.gate_key or now.gate_place <= 0:
            continue
        for other, there in parked:
            if other.gate_key == job.gate_key and there is not None and there.fence == other.fence:
                assert job.order < other.order, f"{job} got a place before {other}"


# --- what holds at every moment --------------------------------------------------------------------------------------


def check(snapshot: Snapshot, memory: Memory, *, quiet: bool) -> None:
    """The invariants. quiet: nobody is in the middle of a transaction."""
    for job in snapshot.jobs.values():
        _check_job(job, snapshot, memory)
    _check_keys(snapshot, memory)
    _check_told_once(snapshot, memory)
    _check_gates(snapshot, memory, settled=quiet and not memory.loose)
    _check_steps(snapshot, settled=quiet and not memory.loose)
    _check_beside(snapshot)


def _check_job(job: Job, snapshot: Snapshot, memory: Memory) -> None:
    assert job.state.is_final == (job.finished_at is not None), job
    assert min(job.attempt, job.losses, job.refunds) >= 0, f"counted below zero: {job}"
    assert job.state in _PLACED[job.gate_place], job
    if job.state is State.RUNNING:
        owner = memory.owners.get((job.id, job.fence))
        assert owner is not None, f"runs, and nobody was told: {job}"
        assert job.claimed_by == owner, f"was handed to worker {owner}: {job}"
        assert job.lane is not None, job
        assert job.attempt >= 1, job
        assert (job.gate_key is None) == (job.gate_place == 0), job
    if job.state in {State.RUNNING, State.QUEUED}:
        assert job.approval & 3 != 1, f"nobody approved it: {job}"
    if job.state is State.PENDING:
        assert job.approval & 3 == 1, job
    wait = snapshot.waits.get(job.id)
    if job.state is State.BLOCKED and not job.parked:
        assert wait is not None, f"nothing will ever release it: {job}"


_PLACED: Final = {
    -1: {State.BLOCKED},
    0: set(State),
    1: {State.QUEUED, State.RUNNING},
    2: {State.RUNNING},
}


def _check_keys(snapshot: Snapshot, memory: Memory) -> None:
    held = Counter((job.unique_key, job.unique_scope) for job in snapshot.jobs.values() if job.holds_key)
    assert all(n == 1 for n in held.values()), f"unique keys held more than once: {held}"
    flows = Counter(f["unique_key"] for f in snapshot.flows.values() if f["unique_key"] and f["finished_at"] is None)
    assert all(n == 1 for n in flows.values()), f"keys of live workflows held more than once: {flows}"
    for key in memory.keys:
        known = memory.known(key, snapshot)
        assert known is None or snapshot.keys.get(key) == known, f"{key} stands for job {known}: {snapshot.keys}"


def _check_told_once(snapshot: Snapshot, memory: Memory) -> None:
    """One hook of a run, one job of a slot; whoever looks for a job by a reference finds it."""
    hooks = Counter(told for job in snapshot.jobs.values() if (told := _hook_of(job)) is not None)
    assert all(n == 1 for n in hooks.values()), f"hooks that tell of one run: {hooks}"
    slots = Counter((job.schedule, job.slot) for job in snapshot.jobs.values() if job.slot is not None)
    assert all(n == 1 for n in slots.values()), f"jobs of one slot: {slots}"
    assert slots.keys() <= memory.fired, f"nobody fired these slots: {slots.keys() - memory.fired}"
    refs = {(job.id, *named) for job in snapshot.jobs.values() for named in job.referred}
    assert snapshot.refs == refs, f"references that are wrong: {snapshot.refs ^ refs}"
    holders = Counter(key for _, _, key, held in snapshot.locks if held)
    assert all(n == 1 for n in holders.values()), f"locks held more than once: {holders}"


def _check_gates(snapshot: Snapshot, memory: Memory, *, settled: bool) -> None:
    for key, gate in snapshot.gates.items():
        places = snapshot.places(key)
        assert gate.held == places + memory.owed[key], (
            f"{key} counts {gate.held}, {places} hold a place, {memory.owed[key]} were left to the duty"
        )
        parked = [job for job in snapshot.jobs.values() if job.parked and job.gate_key == key]
        if settled and parked:
            assert gate.held >= gate.limit, f"{key} has room ({gate}), and these wait for it: {parked}"


def _check_steps(snapshot: Snapshot, *, settled: bool) -> None:
    for number, flow in snapshot.flows.items():
        steps = {job_id: step for job_id, step in snapshot.steps.items() if step.workflow == number}
        ends = Counter(snapshot.jobs[job_id].state for job_id in steps if snapshot.jobs[job_id].state.is_final)
        assert flow["open"] == len(steps) - ends.total(), f"{flow['open']} open of {steps}: {flow}"
        assert flow["total"] == len(steps), flow
        assert flow["failed"] == ends[State.FAILED] + ends[State.EXPIRED], flow
        assert flow["cancelled"] == ends[State.CANCELLED], flow
        assert flow["with_errors"] == ends[State.COMPLETED_WITH_ERRORS], flow
        assert (flow["finished_at"] is not None) == (flow["open"] == 0), flow
    for job_id, step in snapshot.steps.items():
        assert step.ended == snapshot.jobs[job_id].state.is_final, (step, snapshot.jobs[job_id])
    for up, down, needs, met in snapshot.edges:
        job = snapshot.jobs[up]
        assert met is _met(needs, job), f"the edge to {down} needs {needs}, says {met}: {job}"
    for job_id, wait in snapshot.waits.items():
        owner = snapshot.jobs[job_id]
        if owner.state is State.BLOCKED and owner.gate_place == 0 and wait.signal is None and job_id in snapshot.steps:
            mine = Counter(met for _, down, _, met in snapshot.edges if down == job_id)
            assert (wait.remaining, wait.met, wait.unmet) == (mine[None], mine[True], mine[False]), (wait, owner)
            if settled:
                assert wait.go is None, f"everything it waits for is known ({wait}): {owner}"


def _met(needs: str, job: Job) -> bool | None:
    """What an edge says once the upstream job is final."""
    if not job.state.is_final:
        return None
    good = job.state in {State.COMPLETED, State.COMPLETED_WITH_ERRORS}
    return {
        "finish": True,
        "success": good,
        "strict": job.state is State.COMPLETED,
        "failure": not good and job.reason != "not needed",
    }[needs]


def _check_beside(snapshot: Snapshot) -> None:
    """Progress is conserved, and nothing is left of jobs that are gone."""
    for job_id, (fence, _, *counts, _, _) in snapshot.progress.items():
        job = snapshot.jobs[job_id]
        assert fence < job.fence or job.state is State.RUNNING, (fence, job)
        states = ("in_progress", "completed", "skipped", "failed")
        items = Counter({state: n for owner, at, state, n in snapshot.items if (owner, at) == (job_id, fence)})
        assert counts == [items[state] for state in states], f"items of {job_id}: counted {counts}, there are {items}"
    for job_id, fence in snapshot.attempts:
        assert fence < snapshot.jobs[job_id].fence, (fence, snapshot.jobs[job_id])
    saved = Counter(job_id for job_id, _ in snapshot.saved)
    assert all(n == 1 for n in saved.values()), f"older checkpoints were left: {snapshot.saved}"
    for job_id in (
        *saved,
        *snapshot.waits,
        *(item[0] for item in snapshot.items),
        *(signal[0] for signal in snapshot.signals),
    ):
        assert job_id in snapshot.jobs, f"left over of job {job_id}"
