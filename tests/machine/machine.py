"""Machine: runs one action after the other on the real store, and compares every change with the oracle."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from hypothesis.stateful import RuleBasedStateMachine
from tests.machine import upkeep
from tests.machine.action import Action, Enqueue
from tests.machine.bulk_enqueue import EnqueueMany
from tests.machine.claim_writes import Finish, GiveBack, Guard, Report, Save, Suspend
from tests.machine.claims import ClaimIds, ClaimSome
from tests.machine.counted_ends import CountedEnds
from tests.machine.oracle import Meant, Memory, check, hooked, in_turn, judge
from tests.machine.orders import Approve, CancelRunning, CancelWaiting, Edit, Reject, Reprioritise, Retry, Signal, Stop
from tests.machine.rates import BUCKETS, WINDOWS
from tests.machine.snapshot import Snapshot, look
from tests.machine.workflows import CancelFlow
from typing_extensions import override

from rowlock.model.job import Claim, NewJob
from rowlock.model.state import State

if TYPE_CHECKING:
    from tests.machine.connections import MachineDatabase
    from tests.machine.snapshot import Job


class Machine(RuleBasedStateMachine):
    """Rules are in the classes built on it."""

    def __init__(self, db: MachineDatabase) -> None:
        super().__init__()
        self.db = db
        self.memory = Memory()
        self.held: tuple[Action, Any, asyncpg.transaction.Transaction] | None = None
        self.contended = 0
        """The job that the open transaction is about."""
        self.snapshot, self.workers = db.run(db.fresh())
        self.ends = CountedEnds()

    # --- choosing ----------------------------------------------------------------------------------------------------

    def worker(self, n: int) -> int:
        return self.workers[n % len(self.workers)]

    def job(self, n: int, *states: State) -> Job | None:
        """One of the jobs, the newest first."""
        found = [job for job in self.snapshot.jobs.values() if not states or job.state in states]
        return found[-1 - n % len(found)] if found else None

    def claim(self, n: int, *, stale: bool) -> Claim | None:
        """One of the claims that count, or of all there ever were, the newest first."""
        claims = [claim for claim, _ in self.memory.claims if stale or self.snapshot.current(claim) is not None]
        return claims[-1 - n % len(claims)] if claims else None

    def act_on(self, job: Job, n: int) -> Action:
        """Something that is done to a job: mostly what fits its state, sometimes anything."""
        mine = [claim for claim, _ in self.memory.claims if claim.job_id == job.id]
        claim = mine[-1] if mine else Claim(job.id, job.fence - 1)
        owner = self.memory.owners.get((claim.job_id, claim.fence), self.workers[0])
        names = _APT.get(job.state, ("retry", "keep", "finish")) if n < 20 else tuple(_ON)
        return _ON[names[n % len(names)]](job, claim, owner)

    # --- acting ------------------------------------------------------------------------------------------------------

    def perform(self, act: Action | None) -> Any:
        """Do it now, on a connection of its own."""
        if act is None:
            return None
        self.db.steps += 1
        self.db.done[type(act).__name__] += 1
        return self.db.run(self._perform(act))

    async def _perform(self, act: Action) -> Any:
        store, before = self.db.main, self.snapshot
        try:
            async with store.connection.transaction() if self.held else contextlib.nullcontext():
                answer = await act.run(store)
        except (asyncpg.LockNotAvailableError, asyncpg.UniqueViolationError) as error:
            if self.held is None or (isinstance(error, asyncpg.UniqueViolationError) and not act.transient):
                raise
            self.db.done["waits"] += 1
            await self._committed(before)
            return None
        await self._committed(before, (act, answer))
        return answer

    async def _committed(self, before: Snapshot, *done: tuple[Action, Any]) -> None:
        """Look at what there is now, and judge it."""
        self.snapshot = await look(self.db.observer)
        self.ends.see(before, self.snapshot)
        judge(before, self.snapshot, *(act.meant(before, answer) for act, answer in done))
        accepted: list[tuple[int, int]] = []
        if not (self.held or self.memory.loose):
            in_turn(before, self.snapshot)
        for act, answer in done:
            if self.held is None:
                act.check(before, self.snapshot, answer, self.memory)
                told = act.hooks(before, self.snapshot, answer)
                assert hooked(before, self.snapshot) == told, f"{told} are to be told by a hook"
            act.remember(before, self.snapshot, answer, self.memory)
            accepted += act.accepted(answer)
        self.memory.settle(self.snapshot, accepted)
        self._check()

    def _check(self) -> None:
        check(self.snapshot, self.memory, quiet=self.held is None)
        for rates in (WINDOWS, BUCKETS):
            for key, rate in rates.items():
                rate.check(self.memory.starts.get(key, ()))

    # --- two at once -------------------------------------------------------------------------------------------------

    def hold(self, act: Action) -> None:
        """Do it in a transaction that stays open: nobody sees it yet."""
        assert self.held is None
        self.db.steps += 1
        self.db.done["held"] += 1
        transaction = self.db.other.connection.transaction()
        self.db.run(transaction.start())
        answer = self.db.run(act.run(self.db.other))
        self.held = (act, answer, transaction)

    def let_go(self, *, commit: bool) -> None:
        assert self.held is not None
        act, answer, transaction = self.held
        self.db.steps += 1
        self.db.run(transaction.commit() if commit else transaction.rollback())
        self.held = None
        self.memory.loose = True
        self.db.run(self._together([(act, answer)] if commit else []))

    def collide(self, first: Action, second: Action, *, commit: bool) -> list[tuple[Action, Any]]:
        """The second begins while the first is not committed, waits for it if it must, and goes on when it is over.

        Returns what came of those that committed.
        """
        assert self.held is None
        self.db.steps += 2
        self.db.done["at once"] += 1
        return self.db.run(self._collide(first, second, commit=commit))

    async def _collide(self, first: Action, second: Action, *, commit: bool) -> list[tuple[Action, Any]]:
        transaction = self.db.other.connection.transaction()
        await transaction.start()
        done = [(first, await first.run(self.db.other))] if commit else []
        if not commit:
            await first.run(self.db.other)
        work = asyncio.ensure_future(second.run(self.db.patient))
        self.db.done["waits for the other"] += await self.db.blocked(work)
        await (transaction.commit() if commit else transaction.rollback())
        self.memory.loose = True
        try:
            done.append((second, await work))
        except asyncpg.UniqueViolationError:
            assert second.transient, second
        await self._together(done)
        return done

    async def _together(self, done: list[tuple[Action, Any]]) -> None:
        """Judge what came of several; a place that a replaced job left to the duty is found by counting."""
        before, self.snapshot = self.snapshot, await look(self.db.observer)
        self.ends.see(before, self.snapshot, at_once=True)
        replaced = any(isinstance(act, Enqueue) and answer and answer[0] == "replaced" for act, answer in done)
        owed = self.memory.owed.copy()
        meant = [act.meant(before, answer) for act, answer in done]
        judge(before, self.snapshot, *meant or [Meant()])
        for act, answer in done:
            act.remember(before, self.snapshot, answer, self.memory)
        if replaced:
            for key, gate in self.snapshot.gates.items():
                self.memory.owed[key] = gate.held - self.snapshot.places(key)
                assert self.memory.owed[key] >= owed[key], f"{key} counts too few: {gate}"
        self.memory.settle(self.snapshot, [pair for act, answer in done for pair in act.accepted(answer)])
        self._check()

    # --- the end -----------------------------------------------------------------------------------------------------

    def repair(self) -> None:
        """Both duties; whoever waits after them has a reason to."""
        self.perform(upkeep.RepairGates())
        self.perform(upkeep.RepairFlows())
        if self.held is None:
            self.memory.loose = False
            self._check()

    @override
    def teardown(self) -> None:
        if self.held is not None:
            self.let_go(commit=True)
        self.repair()
        self.db.run(self.ends.check(self.db.observer))


_Making = Callable[["Job", Claim, int], Action]
_ON: Final[dict[str, _Making]] = {
    "finish": lambda _job, claim, _owner: Finish([claim]),
    "give back": lambda _job, claim, _owner: GiveBack([claim]),
    "rescue": lambda _job, _claim, owner: upkeep.RescueDead(owner),
    "stop": lambda job, _claim, _owner: Stop([job.id]),
    "ask to stop": lambda job, _claim, _owner: CancelRunning([job.id]),
    "fail": lambda _job, claim, _owner: Finish([claim], "failed"),
    "suspend": lambda _job, claim, _owner: Suspend([claim]),
    "disown": lambda _job, _claim, owner: upkeep.Disown(owner, []),
    "hook": lambda _job, claim, _owner: Finish([claim], "failed", hook=True),
    "guard": lambda _job, claim, _owner: Guard([claim]),
    "save": lambda _job, claim, _owner: Save([claim], 9),
    "report": lambda _job, claim, _owner: Report([claim], [("x", "completed")]),
    "cancel": lambda job, _claim, _owner: CancelWaiting([job.id]),
    "claim": lambda job, _claim, owner: ClaimIds(owner, [job.id]),
    "claim two": lambda _job, _claim, owner: ClaimSome(owner, 2, "free"),
    "claim capped": lambda _job, _claim, owner: ClaimSome(owner, 2, "capped"),
    "edit": lambda job, _claim, _owner: Edit(job.id, job.args.get("n", 0) + 1),
    "priority": lambda job, _claim, _owner: Reprioritise([job.id], 5 - job.priority),
    "replace": lambda job, _claim, _owner: Enqueue(_twin(job, "replace"), 7),
    "keep": lambda job, _claim, _owner: Enqueue(_twin(job, "keep"), 8),
    "many": lambda job, _claim, _owner: EnqueueMany((_twin(job, "keep"), _twin(job, "keep"))),
    "approve": lambda job, _claim, _owner: Approve([job.id]),
    "reject": lambda job, _claim, _owner: Reject([job.id]),
    "signal": lambda job, _claim, _owner: Signal(job.id),
    "gates": lambda _job, _claim, _owner: upkeep.RepairGates(),
    "flows": lambda _job, _claim, _owner: upkeep.RepairFlows(),
    "halt": lambda job, _claim, _owner: CancelFlow(job.workflow or 0, halt=True),
    "retry": lambda job, _claim, _owner: Retry([job.id]),
    "expire": lambda _job, _claim, _owner: upkeep.Over("expire"),
    "sweep": lambda _job, _claim, _owner: upkeep.Sweep(),
}
_APT: Final[dict[State, tuple[str, ...]]] = {
    State.RUNNING: (
        *("finish", "give back", "rescue", "stop", "ask to stop", "replace", "disown", "fail", "suspend", "gates"),
        *("halt", "keep", "report", "guard", "save", "hook", "many"),
    ),
    State.QUEUED: (
        *("claim", "claim two", "cancel", "replace", "edit", "claim capped", "stop", "priority", "gates", "halt"),
        *("keep", "expire", "many"),
    ),
    State.PENDING: ("approve", "edit", "reject", "cancel", "replace", "stop", "keep", "expire", "halt"),
    State.BLOCKED: ("signal", "cancel", "gates", "edit", "replace", "stop", "flows", "halt", "priority", "keep"),
}


def _twin(job: Job, policy: str) -> NewJob:
    """A job with the same key, if that one has any."""
    return NewJob("a", unique_key=job.unique_key, unique_scope=job.unique_scope, on_conflict=policy)
