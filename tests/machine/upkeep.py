"""Actions of upkeep (rescue, expiry, repairs, ageing, retention), and changed limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tests.machine.action import LOST, MAX_LOSSES, SILENT, STALE, TELLING, Action
from tests.machine.claim_writes import check_left, superseded
from tests.machine.oracle import CASCADE, CROWDED, NOBODY, STAYS, Meant, Memory, Path
from typing_extensions import override

from rowlock.model.state import State, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.factories import Store
    from tests.machine.snapshot import Job, Pair, Snapshot

KEEP: Final = 3600.0
"""How long finished jobs stay."""


# --- claims that are taken away --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Revoking(Action):
    """Every lost claim goes by the policy of its kind, and is paid for by losses, not by attempts."""

    paths: ClassVar[tuple[Path, ...]] = ((Verb.LOSE,), (Verb.CANCEL,))
    transient: ClassVar[bool] = True

    def lost(self, job: Job, snapshot: Snapshot) -> bool:
        raise NotImplementedError

    @override
    def hooks(self, before: Snapshot, after: Snapshot, answer: Any) -> set[tuple[int, int]]:
        return {(i, before.jobs[i].fence) for i in answer if before.jobs[i].kind == TELLING}

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        running = [job for job in before.jobs.values() if job.state is State.RUNNING]
        leaving = [job for job in running if job.id in answer]
        sure = {job.id for job in running if self.lost(job, before)}
        assert sure <= set(answer) <= {job.id for job in running if self.lost(job, after)}, (sure, answer)
        for was in leaving:
            policy, now = LOST[was.kind], after.jobs[was.id]
            dead = policy == "fail" or (policy == "retry" and _lost_too_often(was))
            wish = State.FAILED if dead else State.PENDING if policy == "hold" else State.QUEUED
            check_left(was, now, wish, superseded(was, [j for j in leaving if self._waits(j)], before), refund=1)
            assert (now.losses, now.refunds, now.claimed_by) == (was.losses + 1, was.refunds, None)
            assert now.fence > was.fence, "a rescue that does not move the fence leaves two owners"

    def _waits(self, job: Job) -> bool:
        return LOST[job.kind] != "fail" and not (LOST[job.kind] == "retry" and _lost_too_often(job))


def _lost_too_often(job: Job) -> bool:
    """Whether its next loss is its last one: it may be lost as often as it may be attempted, but at least twice."""
    return job.losses + 1 >= max(2, job.max_attempts)


@dataclass(frozen=True)
class Rescue(_Revoking):
    @override
    async def run(self, store: Store) -> Any:
        return await store.rescue(max_losses=MAX_LOSSES)

    @override
    def lost(self, job: Job, snapshot: Snapshot) -> bool:
        assert job.claimed_by is not None
        seen = snapshot.workers.get(job.claimed_by)
        return seen is not None and seen < snapshot.now - STALE


@dataclass(frozen=True)
class RescueDead(_Revoking):
    worker: int

    @override
    async def run(self, store: Store) -> Any:
        values = {"workers": [self.worker], "max_losses": MAX_LOSSES, "channel": store.database.channel}
        return [row["id"] for row in await store.fetch("rescue_dead", **values)]

    @override
    def lost(self, job: Job, snapshot: Snapshot) -> bool:
        return job.claimed_by == self.worker


@dataclass(frozen=True)
class Orphans(_Revoking):
    @override
    async def run(self, store: Store) -> Any:
        rows = await store.fetch("orphans", max_losses=MAX_LOSSES, channel=store.database.channel)
        return [row["id"] for row in rows]

    @override
    def lost(self, job: Job, snapshot: Snapshot) -> bool:
        return job.claimed_by not in snapshot.workers


@dataclass(frozen=True)
class Stalled(_Revoking):
    @override
    async def run(self, store: Store) -> Any:
        statement = store.database.statements["stalled"]
        text = statement.dollar.replace("pg_postmaster_start_time()", "'-infinity'::timestamptz")
        span = await store.value("SELECT interval '1 year'")
        values = {"watched": span, "max_losses": MAX_LOSSES, "channel": store.database.channel, "only": None}
        return [row["id"] for row in await store.connection.fetch(text, *statement.bind(values))]

    @override
    def lost(self, job: Job, snapshot: Snapshot) -> bool:
        assert job.claimed_at is not None
        told = snapshot.progress.get(job.id)
        last = max(job.claimed_at, told[-1] if told and told[0] == job.fence else 0.0)
        return job.lane == "capped" and last < snapshot.now - SILENT


@dataclass(frozen=True)
class Disown(Action):
    """The worker names what it holds; what it does not know of goes back."""

    worker: int
    held: Sequence[int]
    paths: ClassVar[tuple[Path, ...]] = ((Verb.INTERRUPT,), (Verb.CANCEL,))
    transient: ClassVar[bool] = True

    @override
    async def run(self, store: Store) -> Any:
        values = {"worker": self.worker, "held": list(self.held), "before": await store.clock()}
        return list((await store.one("disown", channel=store.database.channel, **values))["ids"])

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        mine = [j for j in before.jobs.values() if j.state is State.RUNNING and j.claimed_by == self.worker]
        leaving = [job for job in mine if job.id not in self.held]
        assert set(answer) == {job.id for job in leaving}
        for was in leaving:
            now = after.jobs[was.id]
            check_left(was, now, State.QUEUED, superseded(was, leaving, before), refund=1)
            assert (now.losses, now.refunds, now.claimed_by) == (was.losses, was.refunds + 1, None)


# --- time that is over -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Over(Action):
    """expire, too_old, unanswered: jobs whose time is over, and no others."""

    name: str
    paths: ClassVar[tuple[Path, ...]] = ((Verb.EXPIRE,), (Verb.AGE,))

    @override
    async def run(self, store: Store) -> Any:
        state = "failed" if self.name == "too_old" else "expired"
        return list((await store.one(self.name, state=state, error=None, channel=store.database.channel))["ids"])

    @override
    def hooks(self, before: Snapshot, after: Snapshot, answer: Any) -> set[tuple[int, int]]:
        return {(i, before.jobs[i].fence) for i in answer if before.jobs[i].kind == TELLING}

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        sure = {job.id for job in before.jobs.values() if self._over(job, before.now)}
        assert sure <= set(answer) <= {job.id for job in before.jobs.values() if self._over(job, after.now)}

    def _over(self, job: Job, now: float) -> bool:
        if self.name == "too_old":
            return not job.state.is_final and job.too_old_at is not None and job.too_old_at < now
        if self.name == "expire":
            return job.waits and job.expires_at is not None and job.expires_at < now
        return job.state is State.PENDING and job.answer_by is not None and job.answer_by < now


@dataclass(frozen=True)
class Overdue(Action):
    """Waits for a signal whose time is over."""

    sides: ClassVar[frozenset[Path]] = NOBODY
    paths: ClassVar[tuple[Path, ...]] = ((Verb.RELEASE,), STAYS)

    @override
    async def run(self, store: Store) -> Any:
        return list((await store.one("signals_overdue", batch=100))["ids"] or ())

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        for job_id, _, _ in after.signals - before.signals:
            was = before.jobs[job_id]
            assert (was.state, was.parked) == (State.BLOCKED, False), f"it did not wait for a signal: {was}"
            assert after.jobs[job_id].state in {State.QUEUED, State.PENDING}
        for job_id, wait in before.waits.items():
            was = before.jobs[job_id]
            if was.state is State.BLOCKED and not was.parked and wait.until is not None and wait.until < before.now:
                assert after.jobs[job_id].state is not State.BLOCKED, f"its time was over: {was}"


# --- repairs and retention -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RepairGates(Action):
    sides: ClassVar[frozenset[Path]] = CROWDED

    @override
    async def run(self, store: Store) -> Any:
        await store.fetch("repair_caps")
        return await store.fetch("repair_gates")

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant({}, self.sides)

    @override
    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        memory.owed.clear()


@dataclass(frozen=True)
class RepairFlows(Action):
    @override
    async def run(self, store: Store) -> Any:
        return await store.one("workflow_repair", flows=100, steps=500, channel=store.database.channel)

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant({}, CASCADE, creates=True)


@dataclass(frozen=True)
class Sweep(Action):
    """low_water is the head of every pair, no more and no less."""

    @override
    async def run(self, store: Store) -> Any:
        return await store.fetch("sweep")

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        heads: dict[Pair, float] = {}
        for job in after.jobs.values():
            if job.state is State.QUEUED:
                heads[job.pair] = min(job.run_after, heads.get(job.pair, job.run_after))
        assert {pair: low for pair, low in after.pairs.items() if low is not None} == heads


@dataclass(frozen=True)
class Age(Action):
    """Who waited in its level for `every` seconds, as far as the last sweep tells, goes one up, to its end."""

    kinds: tuple[str, ...]
    every: float

    @override
    async def run(self, store: Store) -> Any:
        every = timedelta(seconds=self.every)
        return await store.fetch("age", kinds=list(self.kinds), every=every, batch=100)

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        moved = {job.id for job in before.jobs.values() if after.jobs[job.id] != job}
        sure, may = (
            {job.id for job in before.jobs.values() if self._old(job, before, now)} for now in (before.now, after.now)
        )
        assert sure <= moved <= may, (sure, moved, may)
        for job_id in moved:
            was, now = before.jobs[job_id], after.jobs[job_id]
            assert now == replace(was, priority=was.priority + 1, seq=was.seq + 1, run_after=now.run_after), (was, now)
            assert now.run_after >= before.now, f"behind the cursors of its new level: {now}"
            assert now.pair in after.pairs, f"nobody looks for it: {now}"

    def _old(self, job: Job, snapshot: Snapshot, now: float) -> bool:
        low = snapshot.pairs.get(job.pair)
        waits = job.state is State.QUEUED and job.kind in self.kinds and job.priority < 100
        return waits and low is not None and low <= job.run_after < now - self.every


@dataclass(frozen=True)
class Prune(Action):
    @override
    async def run(self, store: Store) -> Any:
        rows = await store.fetch("prune", kind="*", state="*", batch=500)
        rows += await store.fetch("prune_workflows", batch=500, careful=False)
        await store.fetch("prune_keys", batch=500)
        return sum(row["pruned"] for row in rows)

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant(prunes=True)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        for job in before.jobs.values():
            if job.id not in after.jobs:
                assert (job.finished_at or after.now) < after.now - KEEP, f"too young to go: {job}"
                continue
            flow = job.workflow is not None
            assert flow or job.finished_at is None or job.finished_at >= before.now - KEEP - 600, f"forgotten: {job}"
        for key, (job_id, until) in memory.keys.items():
            if until > after.now + memory.travelled:
                assert after.keys.get(key) == job_id, f"{key} was to be known for longer"


# --- lanes and gates -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetCap(Action):
    """Another max_total for the capped lane; None: no cap."""

    cap: int | None

    @override
    async def run(self, store: Store) -> Any:
        async with store.connection.transaction():
            await store.execute(
                "UPDATE {s}.lanes SET max_total = $1, version = version + 1 WHERE name = 'capped'", self.cap
            )
            await store.fetch("lane_cap", name="capped")

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()


@dataclass(frozen=True)
class SetGate(Action):
    """Another limit. Those that wait for a raised one are let in by the next end, or the duty."""

    key: str
    limit: int

    @override
    async def run(self, store: Store) -> Any:
        await store.execute("UPDATE {s}.gates SET max_running = $2 WHERE key = $1", self.key, self.limit)

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        memory.loose = True
