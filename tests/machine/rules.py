"""Rules: what may happen, by subject; a machine of a test is put together from these."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.machine import duties
from tests.machine.acts import (
    KINDS,
    PRIORITIES,
    Approve,
    CancelRunning,
    CancelWaiting,
    ClaimIds,
    ClaimSome,
    Edit,
    Enqueue,
    Finish,
    GiveBack,
    Reject,
    Report,
    Reprioritise,
    Retry,
    Settled,
    Signal,
    Stop,
    Suspend,
)
from tests.machine.machine import Machine
from tests.machine.world import look

from rowlock.model.job import NewJob
from rowlock.model.state import State

PICK: Final = st.integers(0, 6)
WHO: Final = st.sampled_from(("bob", "cat", "ann"))
SPANS: Final = (7.0, 61.0, 307.0, 3607.0)
NEEDS: Final = ("success", "strict", "finish", "failure")


def some(machine: Machine) -> bool:
    return bool(machine.world.jobs)


def claimed(machine: Machine) -> bool:
    return bool(machine.memory.claims)


def alone(machine: Machine) -> bool:
    return machine.held is None


def seconds(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)


class Jobs(Machine):
    """Enqueue, claim, and the owner's writes, stale ones too."""

    @rule(kind=st.sampled_from(KINDS), priority=st.sampled_from(PRIORITIES))
    def enqueue(self, kind: str, priority: int) -> None:
        self.perform(Enqueue(NewJob(kind, priority=priority, submitted_by="ann")))

    @rule(worker=PICK, n=st.integers(1, 4), lane=st.sampled_from(("free", "capped")))
    def claim_some(self, worker: int, n: int, lane: str) -> None:
        self.perform(ClaimSome(self.worker(worker), n, lane))

    @precondition(some)
    @rule(worker=PICK, n=PICK)
    def claim_one(self, worker: int, n: int) -> None:
        job = self.job(n, State.QUEUED)
        self.perform(job and ClaimIds(self.worker(worker), [job.id]))

    @precondition(claimed)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3), state=st.sampled_from(("completed", "completed_with_errors", "failed")))
    def finish(self, picks: list[int], state: str) -> None:
        claims = {found[0] for n in picks if (found := self.claim(n))}
        self.perform(Finish(sorted(claims, key=lambda claim: (claim.job_id, claim.fence)), state))

    @precondition(claimed)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3), delay=st.sampled_from((0.0, 30.0)), how=st.sampled_from(("failed", "snoozed")))
    def give_back(self, picks: list[int], delay: float, how: str) -> None:
        claims = {found[0] for n in picks if (found := self.claim(n))}
        ordered = sorted(claims, key=lambda claim: (claim.job_id, claim.fence))
        self.perform(GiveBack(ordered, how, delay, refund=int(how == "snoozed")))

    @precondition(claimed)
    @rule(n=PICK, name=st.sampled_from("xyz"), state=st.sampled_from(("in_progress", "completed", "skipped", "failed")))
    def report(self, n: int, name: str, state: str) -> None:
        found = self.claim(n)
        self.perform(found and Report([found[0]], [(name, state), ("w", "in_progress")], checkpoint=n or None))

    @precondition(claimed)
    @rule(n=PICK)
    def ask_settled(self, n: int) -> None:
        found = self.claim(n)
        self.perform(found and Settled([found[0]], found[1]))


class Orders(Machine):
    """What a person may order."""

    @rule(kind=st.sampled_from(KINDS), approval=st.sampled_from((1, 5, 9)), answer=st.sampled_from((None, 300.0)))
    def enqueue_for_approval(self, kind: str, approval: int, answer: float | None) -> None:
        self.perform(Enqueue(NewJob(kind, approval=approval, answer_in=seconds(answer), submitted_by="ann")))

    @precondition(some)
    @rule(n=PICK)
    def cancel(self, n: int) -> None:
        job = self.job(n)
        self.perform(job and (CancelRunning if job.state is State.RUNNING else CancelWaiting)([job.id]))

    @precondition(some)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3))
    def stop(self, picks: list[int]) -> None:
        self.perform(Stop(sorted({job.id for n in picks if (job := self.job(n))})))

    @precondition(some)
    @rule(n=PICK)
    def retry(self, n: int) -> None:
        job = self.job(n, State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED, State.COMPLETED_WITH_ERRORS)
        self.perform(job and Retry([job.id]))

    @precondition(some)
    @rule(n=PICK, by=WHO)
    def approve(self, n: int, by: str) -> None:
        job = self.job(n, State.PENDING)
        self.perform(job and Approve([job.id], by))

    @precondition(some)
    @rule(n=PICK)
    def reject(self, n: int) -> None:
        job = self.job(n, State.PENDING)
        self.perform(job and Reject([job.id]))

    @precondition(some)
    @rule(n=PICK, by=WHO, change=st.integers(0, 2))
    def edit(self, n: int, by: str, change: int) -> None:
        job = self.job(n, State.PENDING, State.BLOCKED, State.QUEUED)
        self.perform(job and Edit(job.id, job.args.get("n", 0) + change, by))

    @precondition(some)
    @rule(n=PICK, priority=st.sampled_from(PRIORITIES))
    def reprioritise(self, n: int, priority: int) -> None:
        job = self.job(n)
        self.perform(job and Reprioritise([job.id], priority))


class Time(Machine):
    """Time passes; what upkeep makes of it."""

    @rule(delay=st.sampled_from((None, 30.0, 600.0)), expires=st.sampled_from((None, 20.0)), age=st.sampled_from((None, 200.0)))
    def enqueue_with_times(self, delay: float | None, expires: float | None, age: float | None) -> None:
        times = {"run_in": seconds(delay), "expires_in": seconds(expires), "max_age": seconds(age)}
        self.perform(Enqueue(NewJob("a", **times)))

    @precondition(alone)
    @rule(span=st.sampled_from(SPANS), beating=st.integers(0, 7))
    def advance(self, span: float, beating: int) -> None:
        before, alive = self.world, [worker for i, worker in enumerate(self.workers) if beating >> i & 1]
        self.bench.steps += 1
        self.bench.run(self.bench.travel(span))
        for worker in alive:
            values = {"hungry": True, "state": "up", "stuck": 0, "ids": [], "fences": []}
            (said,) = self.bench.run(self.bench.main.fetch("beat", worker=worker, **values))
            asked = {job.id for job in before.jobs.values() if job.claimed_by == worker and job.cancelling and job.state is State.RUNNING}
            assert set(said["cancelled"]) == asked
        self.memory.travelled += span
        self.world = self.bench.run(look(self.bench.eye))
        same = {i: (job.state, job.fence, job.seq) for i, job in before.jobs.items()}
        assert {i: (job.state, job.fence, job.seq) for i, job in self.world.jobs.items()} == same

    @rule()
    def rescue(self) -> None:
        self.perform(duties.Rescue())

    @rule(n=PICK)
    def rescue_dead(self, n: int) -> None:
        self.perform(duties.RescueDead(self.worker(n)))

    @rule(n=PICK, known=st.integers(0, 3))
    def disown(self, n: int, known: int) -> None:
        worker = self.worker(n)
        mine = [job.id for job in self.world.jobs.values() if job.state is State.RUNNING and job.claimed_by == worker]
        self.perform(duties.Disown(worker, mine[:known]))

    @rule(n=PICK)
    def lose_a_worker_row(self, n: int) -> None:
        worker = self.worker(n)
        self.bench.run(self.bench.eye.execute("DELETE FROM {s}.workers WHERE id = $1", worker))
        self.workers[n % len(self.workers)] = self.bench.run(self.bench.eye.worker())
        self.world = self.bench.run(look(self.bench.eye))

    @rule()
    def orphans(self) -> None:
        self.perform(duties.Orphans())

    @rule()
    def stalled(self) -> None:
        self.perform(duties.Stalled())

    @rule(name=st.sampled_from(("expire", "too_old", "unanswered")))
    def over(self, name: str) -> None:
        self.perform(duties.Over(name))

    @rule()
    def sweep(self) -> None:
        self.perform(duties.Sweep())

    @precondition(alone)
    @rule()
    def prune(self) -> None:
        self.perform(duties.Prune())


class Keys(Machine):
    """Unique keys of both scopes, and idempotency keys."""

    @rule(
        key=st.sampled_from("uv"),
        scope=st.sampled_from(("live", "waiting")),
        policy=st.sampled_from(("keep", "replace", "debounce")),
        approval=st.sampled_from((0, 0, 1)),
        gate=st.sampled_from((None, None, "g")),
        args=st.integers(0, 3),
    )
    def enqueue_keyed(self, key: str, scope: str, policy: str, approval: int, gate: str | None, args: int) -> None:  # noqa: PLR0913
        wait: dict[str, Any] = {"run_in": seconds(30.0), "max_wait": seconds(45.0)} if policy == "debounce" else {}
        scope = "waiting" if policy == "debounce" else scope
        named = {"unique_key": f"{scope}:{key}", "unique_scope": scope, "on_conflict": policy}
        self.perform(Enqueue(NewJob("a", approval=approval, gate_key=gate, submitted_by="ann", **named, **wait), args))

    @rule(key=st.sampled_from("ij"))
    def enqueue_once(self, key: str) -> None:
        self.perform(Enqueue(NewJob("a", idempotency_key=key, keep_key=seconds(600.0))))


class Gates(Machine):
    """Gates, rates and lane caps."""

    @rule(gate=st.sampled_from("gh"), rate=st.sampled_from((None, None, ("r",))), priority=st.sampled_from(PRIORITIES))
    def enqueue_limited(self, gate: str, rate: tuple[str, ...] | None, priority: int) -> None:
        self.perform(Enqueue(NewJob("a", priority=priority, gate_key=gate, rate_keys=rate)))

    @rule()
    def enqueue_rated(self) -> None:
        self.perform(Enqueue(NewJob("a", rate_keys=("r",))))

    @rule(key=st.sampled_from("gh"), limit=st.integers(0, 3))
    def set_gate(self, key: str, limit: int) -> None:
        self.perform(duties.SetGate(key, limit))

    @precondition(alone)
    @rule(cap=st.sampled_from((None, 0, 1, 2, 3)))
    def set_cap(self, cap: int | None) -> None:
        self.perform(duties.SetCap(cap))

    @rule()
    def repair_all(self) -> None:
        self.repair()


class Flows(Machine):
    """Workflows and signals."""

    @rule(
        n=st.integers(2, 4),
        edges=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(NEEDS)), max_size=4),
        special=st.sampled_from(("", "", "approval", "gate", "any", "undo", "undo")),
    )
    def start(self, n: int, edges: list[tuple[int, int, str]], special: str) -> None:
        steps = [
            {
                "name": f"s{i}",
                "kind": "a",
                "approval": int(special == "approval" and i == n - 1),
                "gate_key": "g" if special == "gate" else None,
                "any_of": special == "any",
                "undo": {"kind": "a"} if special == "undo" else None,
            }
            for i in range(n)
        ]
        pairs = {(up, down): needs for up, down, needs in edges if up < down < n}
        joined = [{"upstream": f"s{up}", "downstream": f"s{down}", "needs": needs} for (up, down), needs in pairs.items()]
        self.perform(duties.Start(json.dumps({"steps": steps, "edges": joined})))

    @precondition(claimed)
    @rule(n=PICK, joins=st.booleans())
    def grow(self, n: int, joins: bool) -> None:
        found = self.claim(n)
        if found and found[0].job_id in self.world.jobs:
            self.perform(duties.Grow(found[0].job_id, found[0].fence, f"grown {found[0].job_id}.{found[0].fence}", joins))

    @precondition(lambda self: bool(self.world.flows))
    @rule(n=PICK, halt=st.booleans())
    def cancel_flow(self, n: int, halt: bool) -> None:
        flows = list(self.world.flows)
        self.perform(duties.CancelFlow(flows[-1 - n % len(flows)], halt))

    @precondition(lambda self: bool(self.world.steps))
    @rule(n=PICK)
    def retry_step(self, n: int) -> None:
        steps = list(self.world.steps.values())
        step = steps[-1 - n % len(steps)]
        self.perform(duties.RetryStep(step.workflow, step.name))

    @precondition(claimed)
    @rule(n=PICK, name=st.sampled_from("st"), wait=st.sampled_from((None, 30.0)))
    def wait_for_signal(self, n: int, name: str, wait: float | None) -> None:
        found = self.claim(n)
        self.perform(found and Suspend([found[0]], name, wait))

    @precondition(some)
    @rule(n=PICK, name=st.sampled_from("st"))
    def signal(self, n: int, name: str) -> None:
        job = self.job(n, State.BLOCKED) or self.job(n)
        self.perform(job and Signal(job.id, name))

    @rule()
    def signals_overdue(self) -> None:
        self.perform(duties.Overdue())

    @rule()
    def repair_flows(self) -> None:
        self.perform(duties.RepairFlows())


class AtOnce(Machine):
    """Two connections at the same jobs."""

    @precondition(lambda self: self.held is None and bool(self.world.jobs))
    @rule(n=PICK, what=st.integers(0, 25))
    def hold_open(self, n: int, what: int) -> None:
        job = self.job(n)
        if job is not None:
            self.hold(self.act_on(job, what))

    @precondition(lambda self: self.held is not None)
    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        self.let_go(commit=commit)

    @precondition(lambda self: self.held is None and bool(self.world.jobs))
    @rule(n=PICK, first=st.integers(0, 25), second=st.integers(0, 25), commit=st.booleans())
    def both(self, n: int, first: int, second: int, commit: bool) -> None:
        job = self.job(n)
        if job is not None:
            self.collide(self.act_on(job, first), self.act_on(job, second), commit=commit)

    @precondition(some)
    @rule(n=PICK, what=st.integers(0, 25))
    def touch(self, n: int, what: int) -> None:
        job = self.job(n)
        if job is not None:
            self.perform(self.act_on(job, what))

    @precondition(alone)
    @rule()
    def put_right(self) -> None:
        self.repair()
