"""Rules: everything that may happen to the store. One rule chooses by weight; a machine of a test is its weights.

Rules of their own would be chosen evenly, half of them switched off in each example: hardly a job would ever end.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.factories import beating
from tests.machine import duties
from tests.machine.acts import KINDS, ClaimIds, ClaimSome, Enqueue
from tests.machine.machine import Machine
from tests.machine.orders import Approve, CancelRunning, CancelWaiting, Edit, Reject, Reprioritise, Retry, Signal, Stop
from tests.machine.owned import Finish, GiveBack, Report, Settled, Suspend
from tests.machine.world import look

from rowlock.model.job import Claim, NewJob
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NUMBER: Final = st.integers(0, 11)
PEOPLE: Final = ("bob", "cat", "ann")
SPANS: Final = (7.0, 61.0, 61.0, 307.0, 3607.0)
LIVE: Final = tuple(state for state in State if not state.is_final)
FINAL: Final = tuple(state for state in State if state.is_final)
NEEDS: Final = ("success", "strict", "finish", "failure")
ITEMS: Final = ("in_progress", "completed", "skipped", "failed")
UPKEEP: Final = (
    duties.Rescue(),
    duties.Stalled(),
    duties.Over("expire"),
    duties.Over("too_old"),
    duties.Over("unanswered"),
    duties.Sweep(),
    duties.RepairGates(),
)


def step_of(weights: Mapping[str, int]) -> Callable[..., None]:
    """The one rule of a machine: `what` by weight, and three numbers that choose what it is done to and how."""
    mix = [name for name, weight in weights.items() for _ in range(weight)]

    @rule(what=st.sampled_from(mix), a=NUMBER, b=NUMBER, c=NUMBER)
    def step(self: Rules, what: str, a: int, b: int, c: int) -> None:
        getattr(self, what)(a, b, c)

    return step


def seconds(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)


class Rules(Machine):
    """Each takes three numbers. The lower a number, the newer the job or claim it stands for."""

    # --- enqueue -----------------------------------------------------------------------------------------------------

    def enqueue(self, a: int, b: int, _c: int) -> None:
        self.perform(Enqueue(NewJob(KINDS[a % 3], priority=5 * (b % 2), submitted_by="ann")))

    def enqueue_for_approval(self, a: int, b: int, _c: int) -> None:
        answer = seconds((None, 300.0)[b % 2])
        self.perform(Enqueue(NewJob(KINDS[a % 3], approval=(1, 5, 9)[a % 3], answer_in=answer, submitted_by="ann")))

    def enqueue_with_times(self, a: int, b: int, c: int) -> None:
        delay, expires, age = (None, 30.0, 600.0)[a % 3], (None, 20.0)[b % 2], (None, 200.0)[c % 2]
        times = NewJob("a", run_in=seconds(delay), expires_in=seconds(expires), max_age=seconds(age))
        self.perform(Enqueue(times))

    def enqueue_keyed(self, a: int, b: int, c: int) -> None:
        policy = ("keep", "replace", "debounce")[b % 3]
        scope = "waiting" if policy == "debounce" or a % 2 else "live"
        wait: dict[str, Any] = {"run_in": seconds(30.0), "max_wait": seconds(45.0)} if policy == "debounce" else {}
        named: dict[str, Any] = {"unique_key": f"{scope}:{'uuv'[a % 3]}", "unique_scope": scope, "on_conflict": policy}
        gate, approval = (None, None, "g")[c % 3], int(c % 4 == 3)
        kind = KINDS[a % 3] if b % 2 else "a"
        self.perform(Enqueue(NewJob(kind, approval=approval, gate_key=gate, submitted_by="ann", **named, **wait), b))

    def pile_up(self, a: int, b: int, _c: int) -> None:
        """One more of a key of which others run: the key is about those that wait."""
        named: dict[str, Any] = {"unique_key": "waiting:u", "unique_scope": "waiting"}
        answer = self.perform(Enqueue(NewJob(KINDS[a % 2], **named), b))
        if answer is not None:
            self.perform(ClaimIds(self.workers[0], [answer[1]]))

    def enqueue_once(self, a: int, _b: int, _c: int) -> None:
        self.perform(Enqueue(NewJob("a", idempotency_key="ij"[a % 2], keep_key=seconds(600.0))))

    def enqueue_limited(self, a: int, b: int, c: int) -> None:
        gate, rate = ("g", "h", "g", None)[a % 4], ("r",) if b % 4 == 0 else None
        approval = int(c % 4 == 3)
        self.perform(Enqueue(NewJob("a", priority=5 * (c % 2), gate_key=gate, rate_keys=rate, approval=approval)))

    # --- claim, and the owner's writes -------------------------------------------------------------------------------

    def claim_some(self, a: int, b: int, c: int) -> None:
        self.perform(ClaimSome(self.worker(a), 1 + b % 4, ("free", "capped")[c % 2]))

    def claim_one(self, a: int, b: int, _c: int) -> None:
        job = self.job(b, State.QUEUED)
        if job is not None:
            self.perform(ClaimIds(self.worker(a), [job.id]))

    def some_claims(self, a: int, b: int) -> list[Claim]:
        """One to three of one worker that count, or of all there ever were; one of each job, as answers name jobs."""
        found = [claim for i in range(1 + b % 3) if (claim := self.claim(a + i, stale=b > 8))]
        found = [claim for claim in found if self.memory.owners.get(claim) == self.memory.owners.get(found[0])]
        return list({claim.job_id: claim for claim in found}.values())

    def finish(self, a: int, b: int, c: int) -> None:
        state = ("completed", "completed", "completed_with_errors", "failed", "cancelled")[c % 5]
        self.perform(Finish(self.some_claims(a, b), state))

    def give_back(self, a: int, b: int, c: int) -> None:
        how = ("failed", "snoozed")[c % 2]
        self.perform(GiveBack(self.some_claims(a, b), how, (0.0, 30.0)[c % 3 // 2], refund=c % 2))

    def report(self, a: int, b: int, c: int) -> None:
        found = self.claim(a, stale=b > 8)
        items = [("xyz"[b % 3], ITEMS[c % 4]), ("w", ITEMS[a % 2])]
        if found is not None:
            self.perform(Report([found], items, checkpoint=c or None))

    def ask_settled(self, a: int, _b: int, _c: int) -> None:
        found = self.claim(a, stale=True)
        if found is not None:
            self.perform(Settled([found], self.memory.owners[found.job_id, found.fence]))

    # --- orders ------------------------------------------------------------------------------------------------------

    def cancel(self, a: int, b: int, _c: int) -> None:
        job = (self.job(a, State.RUNNING) if b % 3 else None) or self.job(a)
        if job is not None:
            self.perform((CancelRunning if job.state is State.RUNNING else CancelWaiting)([job.id]))

    def edit(self, a: int, b: int, c: int) -> None:
        job = self.job(a, State.PENDING, State.BLOCKED, State.QUEUED)
        if job is not None:
            self.perform(Edit(job.id, job.args.get("n", 0) + c % 3, PEOPLE[b % 3]))

    def answer(self, a: int, b: int, c: int) -> None:
        job = self.job(a, State.PENDING)
        if job is not None:
            self.perform(Reject([job.id]) if c == 0 else Approve([job.id], PEOPLE[b % 3]))

    def retry(self, a: int, _b: int, _c: int) -> None:
        job = self.job(a, *FINAL)
        if job is not None:
            self.perform(Retry([job.id]))

    def stop(self, a: int, b: int, _c: int) -> None:
        self.perform(Stop(sorted({job.id for n in (a, a + b % 3) if (job := self.job(n))})))

    def reprioritise(self, a: int, b: int, _c: int) -> None:
        job = self.job(a)
        if job is not None:
            self.perform(Reprioritise([job.id], 5 * (b % 2)))

    # --- time and upkeep ---------------------------------------------------------------------------------------------

    def advance(self, a: int, b: int, _c: int) -> None:
        """Time passes, and some workers beat after it."""
        if self.held is not None:
            return
        before, span = self.world, SPANS[a % len(SPANS)]
        self.bench.steps += 1
        self.bench.run(self.bench.travel(span))
        for i, worker in enumerate(self.workers):
            if b >> i & 1:
                self._beat(worker)
        self.memory.travelled += span
        self.world = self.bench.run(look(self.bench.eye))
        same = {i: (job.state, job.fence, job.seq) for i, job in before.jobs.items()}
        assert {i: (job.state, job.fence, job.seq) for i, job in self.world.jobs.items()} == same

    def _beat(self, worker: int) -> None:
        claims = [claim for claim, owner in self.memory.claims if owner == worker]
        (said,) = self.bench.run(self.bench.main.fetch("beat", **beating(worker, *claims)))
        running = [job for job in self.world.jobs.values() if job.state is State.RUNNING and job.claimed_by == worker]
        assert set(said["cancelled"]) == {job.id for job in running if job.cancelling}
        lost = [claim.job_id for claim in claims if (claim.job_id, claim.fence) in self.memory.settled]
        assert sorted(said["lost"]) == sorted(lost), "a beat tells of every claim that is lost, and of no other"

    def upkeep(self, a: int, _b: int, _c: int) -> None:
        self.perform(UPKEEP[a % len(UPKEEP)])

    def rescue(self, a: int, b: int, c: int) -> None:
        """A minute of silence, but for some; then the reaper."""
        self.advance(1, b & c, 0)
        self.perform(duties.Rescue() if a % 3 else duties.RescueDead(self.worker(b)))

    def disown(self, a: int, b: int, _c: int) -> None:
        worker = self.worker(a)
        mine = [job.id for job in self.world.jobs.values() if job.state is State.RUNNING and job.claimed_by == worker]
        self.perform(duties.Disown(worker, mine[: b % 3]))

    def orphan(self, a: int, _b: int, _c: int) -> None:
        """Somebody deletes the row of a worker."""
        if self.held is not None:
            return
        worker = self.worker(a)
        self.bench.run(self.bench.eye.execute("DELETE FROM {s}.workers WHERE id = $1", worker))
        self.workers[a % len(self.workers)] = self.bench.run(self.bench.eye.worker())
        self.world = self.bench.run(look(self.bench.eye))
        self.perform(duties.Orphans())

    def prune(self, _a: int, _b: int, _c: int) -> None:
        if self.held is None:
            self.advance(4, 7, 0)
            self.perform(duties.Prune())

    def set_limit(self, a: int, b: int, _c: int) -> None:
        if self.held is None:
            limit = (1, 2, 3, 0, None)[b % 5]
            self.perform(duties.SetGate("gh"[a % 2], limit or 0) if a % 3 else duties.SetCap(limit))
            self.repair()

    # --- workflows and signals ---------------------------------------------------------------------------------------

    def start(self, a: int, b: int, c: int) -> None:
        n, special = 2 + a % 3, ("", "undo", "undo", "approval", "gate", "any")[b % 6]
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
        shapes = ([(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (1, 3), (2, 3)], [(0, 2), (1, 2)], [(0, 1)])
        edges = [
            {"upstream": f"s{up}", "downstream": f"s{down}", "needs": NEEDS[(c + i) % 5 % 4]}
            for i, (up, down) in enumerate(shapes[c % 4])
            if down < n
        ]
        self.perform(duties.Start(json.dumps({"steps": steps, "edges": edges})))

    def grow(self, a: int, b: int, _c: int) -> None:
        found = self.claim(a, stale=b > 8)
        if found and found.job_id in self.world.jobs:
            name = f"grown {found.job_id}.{found.fence}"
            self.perform(duties.Grow(found.job_id, found.fence, name, joins=bool(b % 2)))

    def cancel_flow(self, a: int, b: int, _c: int) -> None:
        flows = list(self.world.flows)
        if flows:
            self.perform(duties.CancelFlow(flows[-1 - a % len(flows)], halt=bool(b % 2)))

    def retry_step(self, a: int, _b: int, _c: int) -> None:
        steps = list(self.world.steps.values())
        if steps:
            step = steps[-1 - a % len(steps)]
            self.perform(duties.RetryStep(step.workflow, step.name))

    def suspend(self, a: int, b: int, c: int) -> None:
        found = self.claim(a, stale=b > 8)
        if found is not None:
            self.perform(Suspend([found], "st"[b % 2], (None, 30.0)[c % 2]))

    def signal(self, a: int, b: int, _c: int) -> None:
        job = self.job(a, State.BLOCKED) or self.job(a)
        if job is not None:
            self.perform(Signal(job.id, "st"[b % 2]))

    def overdue(self, _a: int, _b: int, _c: int) -> None:
        self.advance(1, 7, 0)
        self.perform(duties.Overdue())

    # --- two at once -------------------------------------------------------------------------------------------------

    def hold_open(self, a: int, b: int, c: int) -> None:
        """Begin what stays open, or end it."""
        if self.held is not None:
            self.let_go(commit=bool(c % 3))
        elif (job := self.job(a % 4, *LIVE)) is not None:
            self.contended = job.id
            self.hold(self.act_on(job, b))

    def meanwhile(self, a: int, b: int, c: int) -> None:
        job = self.world.jobs.get(self.contended) if self.held else self.job(a)
        if job is not None:
            self.perform(self.act_on(job, b + c))

    def both(self, a: int, b: int, c: int) -> None:
        if self.held is not None:
            self.let_go(commit=bool(a % 3))
        elif (job := self.job(a % 4, *LIVE)) is not None:
            self.collide(self.act_on(job, b), self.act_on(job, 2 * c + a // 4), commit=a != 11)

    def put_right(self, _a: int, _b: int, _c: int) -> None:
        if self.held is None:
            self.repair()
