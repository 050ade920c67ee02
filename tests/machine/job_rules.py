"""Rules: everything that may happen to a job. One rule chooses by weight; a machine of a test is its weights.

Rules of their own would be chosen evenly, half of them switched off in each example: hardly a job would ever end.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.factories import beating
from tests.machine import upkeep
from tests.machine.action import KINDS, Enqueue
from tests.machine.askers import ASKERS, ORDERS, Ask, AskMany
from tests.machine.bulk_enqueue import EnqueueMany
from tests.machine.claim_writes import Finish, GiveBack, Guard, Report, Resume, Save, Settled
from tests.machine.claims import PAIRS, ClaimIds, ClaimReleased, ClaimSome
from tests.machine.machine import Machine
from tests.machine.orders import (
    AddRule,
    Approve,
    ByRule,
    CancelRunning,
    CancelWaiting,
    DropRules,
    Edit,
    Reject,
    Reprioritise,
    Retry,
    Stop,
)
from tests.machine.rates import Heed, PauseRate
from tests.machine.snapshot import look

from rowlock.flow.claim.fairness import Fairness
from rowlock.model.job import Claim, NewJob
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.machine.connections import MachineDatabase
    from tests.machine.snapshot import Pair

NUMBER: Final = st.integers(0, 11)
PEOPLE: Final = ("bob", "cat", "ann")
TENANTS: Final = (None, "acme", "zeta")
SPANS: Final = (7.0, 61.0, 61.0, 307.0, 3607.0)
LIVE: Final = tuple(state for state in State if not state.is_final)
FINAL: Final = tuple(state for state in State if state.is_final)
ITEMS: Final = ("in_progress", "completed", "skipped", "failed")
UPKEEP: Final = (
    upkeep.Rescue(),
    upkeep.Stalled(),
    upkeep.Over("expire"),
    upkeep.Over("too_old"),
    upkeep.Over("unanswered"),
    upkeep.Sweep(),
    upkeep.RepairGates(),
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

    def __init__(self, db: MachineDatabase) -> None:
        super().__init__(db)
        self.turns = {worker: Fairness() for worker in self.workers}

    # --- enqueue -----------------------------------------------------------------------------------------------------

    def enqueue(self, a: int, b: int, _c: int) -> None:
        self.perform(Enqueue(NewJob(KINDS[a % 3], priority=5 * (b % 2), submitted_by="ann", max_attempts=1 + b % 3)))

    def enqueue_for_approval(self, a: int, b: int, _c: int) -> None:
        answer = seconds((None, 300.0)[b % 2])
        self.perform(Enqueue(NewJob(KINDS[a % 3], approval=(1, 5, 9)[a % 3], answer_in=answer, submitted_by="ann")))

    def enqueue_with_times(self, a: int, b: int, c: int) -> None:
        delay, expires, age = (None, 30.0, 600.0)[a % 3], (None, 20.0)[b % 2], (None, 200.0)[c % 2]
        times = NewJob("ac"[b // 2 % 2], run_in=seconds(delay), expires_in=seconds(expires), max_age=seconds(age))
        self.perform(Enqueue(times))

    def enqueue_keyed(self, a: int, b: int, c: int) -> None:
        policy = ("keep", "replace", "debounce")[b % 3]
        scope = "waiting" if policy == "debounce" or a % 2 else "live"
        wait: dict[str, Any] = {"run_in": seconds(30.0), "max_wait": seconds(45.0)} if policy == "debounce" else {}
        named: dict[str, Any] = {"unique_key": f"{scope}:{'uuv'[a % 3]}", "unique_scope": scope, "on_conflict": policy}
        gate, approval = (None, None, "g")[c % 3], int(c % 4 == 3)
        kind = KINDS[a % 3] if b % 2 else "a"
        found: dict[str, Any] = {"refs": json.dumps({"p": b % 2}), "tags": ("t", "uv"[c % 2])} if a % 2 else {}
        job = NewJob(kind, approval=approval, gate_key=gate, submitted_by="ann", **named, **wait, **found)
        self.perform(Enqueue(job, b))

    def enqueue_both(self, a: int, b: int, c: int) -> None:
        """Both keys: the one decides first, the other what the first stands for from now on."""
        policy, scope = ("keep", "replace", "reject")[b % 3], ("live", "waiting")[a % 2]
        named: dict[str, Any] = {"unique_key": f"{scope}:{'uv'[c % 2]}", "unique_scope": scope, "on_conflict": policy}
        once: dict[str, Any] = {"idempotency_key": "mno"[c % 3], "keep_key": seconds(600.0)}
        self.perform(Enqueue(NewJob("a", gate_key=(None, "g")[b % 2], **named, **once), b))

    def enqueue_many(self, a: int, b: int, c: int) -> None:
        """A bulk, with a key twice in it or not."""
        letters = ("uv", "uvu", "vu", "uuv")[b % 4]
        if c % 3 == 0:
            once: list[dict[str, Any]] = [{"idempotency_key": f"k{x}", "keep_key": seconds(600.0)} for x in letters]
            self.perform(EnqueueMany(tuple(NewJob("a", **named) for named in once)))
            return
        scope, policy = ("live", "waiting")[a % 2], ("keep", "keep", "reject")[a % 3]
        named: list[dict[str, Any]]
        named = [{"unique_key": f"{scope}:{x}", "unique_scope": scope, "on_conflict": policy} for x in letters]
        gates = [(None, "g")[(c + n) % 2] for n in range(len(letters))]
        self.perform(
            EnqueueMany(tuple(NewJob("a", gate_key=gate, **said) for said, gate in zip(named, gates, strict=True)))
        )

    def enqueue_shared(self, a: int, b: int, c: int) -> None:
        """Of one tenant among several, or of none."""
        self.perform(Enqueue(NewJob(KINDS[a % 2], priority=5 * (b % 5 // 4), share=(0, 1, 1, 1, 2, 3)[c % 6])))

    def enqueue_metered(self, a: int, b: int, _c: int) -> None:
        """Under a bucket, some of them heavier."""
        gate = "g" if a == 11 else None
        self.perform(
            Enqueue(NewJob("a", priority=5 * (a % 2), gate_key=gate, rate_keys=("k",), rate_weight=1 + b % 4 // 3))
        )

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

    def burst(self, a: int, _b: int, _c: int) -> None:
        """As many as a full bucket has tokens, one after the other."""
        for _ in range(3):
            answer = self.perform(Enqueue(NewJob("a", rate_keys=("k",))))
            if answer is not None:
                self.perform(ClaimIds(self.worker(a), [answer[1]]))

    # --- claim, and the owner's writes -------------------------------------------------------------------------------

    def pairs(self) -> tuple[Pair, ...]:
        """All there is to probe."""
        return tuple(sorted({job.pair for job in self.snapshot.jobs.values() if job.state is State.QUEUED})) or PAIRS

    def claim_some(self, a: int, b: int, c: int) -> None:
        """In exact order, or the heads of the pairs and then pair by pair, or pair by pair as they are listed."""
        n, pairs = 1 + b % 4, self.pairs()
        take = a % 3 if c > 7 else n
        first = b % len(pairs)
        listed = pairs if take else (*pairs[first:], *pairs[:first])
        self.perform(ClaimSome(self.worker(a), n, ("free", "capped")[c % 2], listed, take))

    def claim_fairly(self, a: int, b: int, c: int) -> None:
        worker, n, pairs = self.worker(a), 1 + b % 4, self.pairs()
        turns = self.turns.setdefault(worker, Fairness())
        # By what the worker gave so far, or by whatever it might have given.
        debts = tuple(turns.debts(pairs) if c % 2 else [float((a + i * b) % 5) for i in range(len(pairs))])
        rows = self.perform(ClaimSome(worker, n, "fair", pairs, 1 + c % n, debts))
        turns.record(pairs, ((row["kind"], row["priority"], row["share"]) for row in rows or ()))

    def claim_released(self, a: int, b: int, c: int) -> None:
        """Steps, and sometimes others that are not due or not queued any more."""
        found = [job for n in range(1 + b % 3) if (job := self.job(a + n, *((State.QUEUED,) if c % 4 else ())))]
        if found:
            ids = sorted({job.id for job in found})
            self.perform(ClaimReleased(self.worker(a), ids, ("free", "capped")[c % 2], self.pairs()))

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
        self.perform(Finish(self.some_claims(a, b), state, hook=c > 8))

    def give_back(self, a: int, b: int, c: int) -> None:
        how = ("failed", "snoozed")[c % 2]
        self.perform(GiveBack(self.some_claims(a, b), how, (0.0, 30.0)[c % 3 // 2], refund=c % 2, hook=c > 8))

    def report(self, a: int, b: int, c: int) -> None:
        found = self.claim(a, stale=b > 8)
        items = [("xyz"[b % 3], ITEMS[c % 4]), ("w", ITEMS[a % 2])]
        if found is not None:
            self.perform(Report([found], items, checkpoint=c or None))

    def again(self, a: int, b: int, c: int) -> None:
        """An attempt reports and fails, told by a hook, and the next one reports; unless a cancel was asked for."""
        found = self.claim(a, stale=False)
        if found is None:
            return
        items = [("x", "completed"), ("y", ITEMS[b % 4])]
        self.perform(Report([found], items, checkpoint=b or None))
        if c % 3 == 0:
            self.perform(CancelRunning([found.job_id]))
        self.perform(GiveBack([found], hook=c % 3 != 1))
        for row in self.perform(ClaimIds(self.worker(a), [found.job_id])) or ():
            if not row["parked"]:
                self.perform(Report([Claim(row["id"], row["fence"])], items[:1]))
                # The one before does not know yet.
                self.perform(Save([found], c) if b % 2 else Guard([found]))

    def save(self, a: int, b: int, c: int) -> None:
        """In the user's own transaction: guarded rows, a checkpoint, or what an attempt goes on from."""
        found = self.claim(a, stale=b > 5)
        if found is None:
            return
        if c % 2 == 0:
            self.perform(Guard([found]))
            return
        for act in (Report([found], (), checkpoint=c + 1), Save([found], c + 100))[:: 1 if c % 4 == 1 else -1]:
            self.perform(act)
        self.perform(Resume([found]))

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

    def approve_ahead(self, a: int, b: int, c: int) -> None:
        """An approval in advance, or none any more."""
        if c < 3:
            self.perform(DropRules())
            return
        author = (*PEOPLE, None)[b % 4]
        self.perform(AddRule((None, *KINDS)[a % 4], (None, None, "ann")[c % 3], author))

    def ask_rules(self, a: int, b: int, _c: int) -> None:
        found = [job.id for n in range(1 + b % 2) if (job := self.job(a + n, *((State.PENDING,) if b % 3 else ())))]
        self.perform(ByRule(sorted(set(found))))

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

    # --- orders of principals ----------------------------------------------------------------------------------------

    def enqueue_owned(self, a: int, b: int, c: int) -> None:
        """Of somebody, for a tenant or for none, some of them to be approved."""
        owner, approval = ("ann", "bob", "cat", None)[b % 4], (0, 0, 1, 5)[c // 3]
        self.perform(Enqueue(NewJob(KINDS[a % 3], approval=approval, submitted_by=owner, tenant=TENANTS[c % 3])))

    def ask(self, a: int, b: int, c: int) -> None:
        """An order of a principal about any job, or about one that is not there."""
        if self.held is not None:
            return
        job = self.job(a % 6)
        self.perform(Ask(ASKERS[b % 6], ORDERS[c % 8], job.id if job and a < 11 else 10**9, (c // 8 + b // 6) * 5))

    def ask_many(self, a: int, b: int, c: int) -> None:
        if self.held is not None:
            return
        found = {job.id for n in range(1 + c % 4) if (job := self.job(a + n))}
        self.perform(AskMany(ASKERS[b % 6], sorted(found | ({10**9} if c == 11 else set()))))

    # --- time and upkeep ---------------------------------------------------------------------------------------------

    def advance(self, a: int, b: int, _c: int) -> None:
        """Time passes, and some workers beat after it."""
        if self.held is not None:
            return
        before, span = self.snapshot, SPANS[a % len(SPANS)]
        self.db.steps += 1
        self.db.run(self.db.travel(span))
        for i, worker in enumerate(self.workers):
            if b >> i & 1:
                self._beat(worker)
        self.memory.travelled += span
        self.snapshot = self.db.run(look(self.db.observer))
        same = {i: (job.state, job.fence, job.seq) for i, job in before.jobs.items()}
        assert {i: (job.state, job.fence, job.seq) for i, job in self.snapshot.jobs.items()} == same

    def _beat(self, worker: int) -> None:
        claims = [claim for claim, owner in self.memory.claims if owner == worker]
        (said,) = self.db.run(self.db.main.fetch("beat", **beating(worker, *claims)))
        running = [
            job for job in self.snapshot.jobs.values() if job.state is State.RUNNING and job.claimed_by == worker
        ]
        assert set(said["cancelled"]) == {job.id for job in running if job.cancelling}
        lost = [claim.job_id for claim in claims if (claim.job_id, claim.fence) in self.memory.settled]
        assert sorted(said["lost"]) == sorted(lost), "a beat tells of every claim that is lost, and of no other"

    def upkeep(self, a: int, _b: int, _c: int) -> None:
        self.perform(UPKEEP[a % len(UPKEEP)])

    def lapse(self, a: int, b: int, _c: int) -> None:
        """A while, and then what is over by now."""
        self.advance(a % 3, 7, 0)
        self.perform(upkeep.Over(("expire", "expire", "too_old", "unanswered")[b % 4]))

    def rescue(self, a: int, b: int, c: int) -> None:
        """A minute of silence, but for some; then the reaper."""
        self.advance(1, b & c, 0)
        self.perform(upkeep.Rescue() if a % 3 else upkeep.RescueDead(self.worker(b)))

    def disown(self, a: int, b: int, _c: int) -> None:
        worker = self.worker(a)
        mine = [
            job.id for job in self.snapshot.jobs.values() if job.state is State.RUNNING and job.claimed_by == worker
        ]
        self.perform(upkeep.Disown(worker, mine[: b % 3]))

    def orphan(self, a: int, _b: int, _c: int) -> None:
        """Somebody deletes the row of a worker."""
        if self.held is not None:
            return
        worker = self.worker(a)
        self.db.run(self.db.observer.execute("DELETE FROM {s}.workers WHERE id = $1", worker))
        self.workers[a % len(self.workers)] = self.db.run(self.db.observer.worker())
        self.snapshot = self.db.run(look(self.db.observer))
        self.perform(upkeep.Orphans())

    def prune(self, a: int, _b: int, _c: int) -> None:
        if self.held is None:
            self.advance(1 if a % 3 == 0 else 4, 7, 0)
            self.perform(upkeep.Prune())

    def age(self, a: int, b: int, c: int) -> None:
        """A while, a sweep, and those that waited for long go up."""
        if self.held is None:
            self.advance(a % 3, 7, 0)
            self.perform(upkeep.Sweep() if b % 4 else None)
            self.perform(upkeep.Age(KINDS[: 1 + c % 3], (5.0, 60.0)[b % 2]))

    def pause_rate(self, a: int, b: int, c: int) -> None:
        found = self.claim(b, stale=c > 5)
        if a % 3 and found is not None:
            self.perform(Heed(found, (20.0, 400.0)[b % 2]))
        elif self.held is None:
            self.perform(PauseRate("rk"[b % 2], (30.0, None)[c % 2]))

    def set_limit(self, a: int, b: int, _c: int) -> None:
        if self.held is None:
            limit = (1, 2, 3, 0, None)[b % 5]
            self.perform(upkeep.SetGate("gh"[a % 2], limit or 0) if a % 3 else upkeep.SetCap(limit))
            self.repair()
