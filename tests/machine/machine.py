"""Machine: does one act after the other to the real store, and holds every change against the oracle."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import asyncpg
from hypothesis.stateful import RuleBasedStateMachine
from tests.machine import duties
from tests.machine.acts import (
    Act,
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
    Signal,
    Stop,
    Suspend,
)
from tests.machine.oracle import Meant, Memory, check, in_turn, judge
from tests.machine.world import World, look

from rowlock.model.job import Claim, NewJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machine.bench import Bench
    from tests.machine.world import Job

    from rowlock.model.state import State


class Machine(RuleBasedStateMachine):
    """Rules are in the classes built on it."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.memory = Memory()
        self.held: tuple[Act, Any, asyncpg.transaction.Transaction] | None = None
        self.world, self.workers = bench.run(bench.fresh())

    # --- choosing ----------------------------------------------------------------------------------------------------

    def worker(self, n: int) -> int:
        return self.workers[n % len(self.workers)]

    def job(self, n: int, *states: State) -> Job | None:
        """One of the jobs, the newest first."""
        found = [job for job in self.world.jobs.values() if not states or job.state in states]
        return found[-1 - n % len(found)] if found else None

    def claim(self, n: int) -> tuple[Claim, int] | None:
        """One of all claims there ever were, the newest first: many are stale."""
        claims = self.memory.claims
        return claims[-1 - n % len(claims)] if claims else None

    def act_on(self, job: Job, n: int) -> Act:
        """Something that may be done to a job, wanted or not."""
        mine = [claim for claim, _ in self.memory.claims if claim.job_id == job.id]
        claim = mine[-1] if mine else Claim(job.id, max(0, job.fence - 1))
        owner = self.memory.owners.get((claim.job_id, claim.fence), self.workers[0])
        return _ON_JOB[n % len(_ON_JOB)](job, claim, owner)

    # --- acting ------------------------------------------------------------------------------------------------------

    def perform(self, act: Act | None) -> Any:  # noqa: ANN401 - what the statement says
        """Do it now, on a connection of its own."""
        if act is None:
            return None
        self.bench.steps += 1
        return self.bench.run(self._perform(act))

    async def _perform(self, act: Act) -> Any:  # noqa: ANN401
        store, before = self.bench.main, self.world
        try:
            async with store.connection.transaction() if self.held else contextlib.nullcontext():
                answer = await act.run(store)
        except (asyncpg.LockNotAvailableError, asyncpg.UniqueViolationError) as error:
            assert self.held, f"{act} met {error!r}, and nobody else was there"
            assert isinstance(error, asyncpg.LockNotAvailableError) or act.transient, (act, error)
            self.bench.waits += 1
            await self._committed(before)
            return None
        await self._committed(before, (act, answer))
        if self.held is None:
            act.check(before, self.world, answer, self.memory)
            if not self.memory.loose:
                in_turn(before, self.world)
        return answer

    async def _committed(self, before: World, *done: tuple[Act, Any]) -> None:
        """Look at what there is now, and judge it."""
        self.world = await look(self.bench.eye)
        judge(before, self.world, *(act.meant(before, answer) for act, answer in done))
        accepted: list[tuple[int, int]] = []
        for act, answer in done:
            act.remember(before, self.world, answer, self.memory)
            accepted += act.accepted(answer)
        self.memory.settle(self.world, accepted)
        self._check()

    def _check(self) -> None:
        check(self.world, self.memory, quiet=self.held is None)
        for starts in self.memory.starts.values():
            assert all(last - first >= 60 for (first, _), (_, last) in zip(starts, starts[2:], strict=False)), starts

    # --- two at once -------------------------------------------------------------------------------------------------

    def hold(self, act: Act) -> None:
        """Do it in a transaction that stays open: nobody sees it yet."""
        assert self.held is None
        self.bench.steps += 1
        transaction = self.bench.other.connection.transaction()
        self.bench.run(transaction.start())
        answer = self.bench.run(act.run(self.bench.other))
        self.held = (act, answer, transaction)

    def let_go(self, *, commit: bool) -> None:
        assert self.held is not None
        act, answer, transaction = self.held
        self.bench.steps += 1
        self.bench.run(transaction.commit() if commit else transaction.rollback())
        self.held = None
        self.memory.loose = True
        self.bench.run(self._together([(act, answer)] if commit else []))

    def collide(self, first: Act, second: Act, *, commit: bool) -> None:
        """The second begins while the first is not committed, waits for it if it must, and goes on when it is over."""
        assert self.held is None
        self.bench.steps += 2
        self.bench.run(self._collide(first, second, commit=commit))

    async def _collide(self, first: Act, second: Act, *, commit: bool) -> None:
        transaction = self.bench.other.connection.transaction()
        await transaction.start()
        done = [(first, await first.run(self.bench.other))] if commit else []
        if not commit:
            await first.run(self.bench.other)
        work = asyncio.ensure_future(second.run(self.bench.patient))
        self.bench.collisions += await self.bench.blocked(work)
        await (transaction.commit() if commit else transaction.rollback())
        self.memory.loose = True
        try:
            done.append((second, await work))
        except asyncpg.UniqueViolationError:
            assert second.transient, second
        await self._together(done)

    async def _together(self, done: list[tuple[Act, Any]]) -> None:
        """Judge what came of several; a place that a replaced job left to the duty is found by counting."""
        before, self.world = self.world, await look(self.bench.eye)
        replaced = any(isinstance(act, Enqueue) and answer and answer[0] == "replaced" for act, answer in done)
        owed = self.memory.owed.copy()
        meant = [act.meant(before, answer) for act, answer in done]
        judge(before, self.world, *meant or [Meant()])
        for act, answer in done:
            act.remember(before, self.world, answer, self.memory)
        if replaced:
            for key, gate in self.world.gates.items():
                self.memory.owed[key] = gate.held - self.world.places(key)
                assert self.memory.owed[key] >= owed[key], f"{key} counts too few: {gate}"
        self.memory.settle(self.world, [pair for act, answer in done for pair in act.accepted(answer)])
        self._check()

    # --- the end -----------------------------------------------------------------------------------------------------

    def repair(self) -> None:
        """Both duties; whoever waits after them has a reason to."""
        self.perform(duties.RepairGates())
        self.perform(duties.RepairFlows())
        if self.held is None:
            self.memory.loose = False
            self._check()

    def teardown(self) -> None:
        if self.held is not None:
            self.let_go(commit=True)
        self.repair()


_ON_JOB: list[Callable[[Job, Claim, int], Act]] = [
    lambda job, _claim, _owner: CancelWaiting([job.id]),
    lambda _job, claim, _owner: Finish([claim]),
    lambda _job, claim, _owner: GiveBack([claim]),
    lambda job, _claim, owner: ClaimIds(owner, [job.id]),
    lambda _job, _claim, owner: duties.RescueDead(owner),
    lambda job, _claim, _owner: Stop([job.id]),
    lambda job, _claim, _owner: CancelRunning([job.id]),
    lambda job, _claim, _owner: Retry([job.id]),
    lambda job, _claim, _owner: Edit(job.id, job.args.get("n", 0) + 1),
    lambda job, _claim, _owner: Approve([job.id]),
    lambda job, _claim, _owner: Reject([job.id]),
    lambda job, _claim, _owner: Reprioritise([job.id], 5 - job.priority),
    lambda _job, claim, _owner: Suspend([claim]),
    lambda job, _claim, _owner: Signal(job.id),
    lambda _job, claim, _owner: Report([claim], [("x", "completed")]),
    lambda _job, _claim, owner: duties.Disown(owner, []),
    lambda _job, claim, _owner: Finish([claim], "failed"),
    lambda _job, _claim, owner: ClaimSome(owner, 2, "capped"),
    lambda _job, _claim, owner: ClaimSome(owner, 2, "free"),
    lambda _job, _claim, _owner: duties.RepairGates(),
    lambda _job, _claim, _owner: duties.RepairFlows(),
    lambda job, _claim, _owner: duties.CancelFlow(job.workflow or 0, halt=True),
    lambda job, _claim, _owner: Enqueue(NewJob("a", **_same_key(job), on_conflict="replace")),
    lambda job, _claim, _owner: Enqueue(NewJob("a", **_same_key(job))),
    lambda _job, _claim, _owner: duties.Over("expire"),
    lambda _job, _claim, _owner: duties.Sweep(),
]


def _same_key(job: Job) -> dict[str, Any]:
    return {"unique_key": job.unique_key, "unique_scope": job.unique_scope}
