"""Duties: the acts nobody orders (rescue, expiry, repairs, retention), and those of workflows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tests.machine.acts import LOST, MAX_LOSSES, SILENT, STALE, Act
from tests.machine.oracle import CASCADE, CROWDED, NOBODY, STAYS, Meant, Memory, Path
from tests.machine.owned import check_left, superseded
from typing_extensions import override

from rowlock.model.state import State, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.factories import Store
    from tests.machine.world import Job, World

KEEP: Final = 3600.0
"""How long finished jobs stay."""


# --- claims that are taken away --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Revoking(Act):
    """Every lost claim goes by the policy of its kind, and is paid for by losses, not by attempts."""

    paths: ClassVar[tuple[Path, ...]] = ((Verb.LOSE,), (Verb.CANCEL,))
    transient: ClassVar[bool] = True

    def lost(self, job: Job, world: World) -> bool:
        raise NotImplementedError

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        running = [job for job in before.jobs.values() if job.state is State.RUNNING]
        leaving = [job for job in running if job.id in answer]
        sure = {job.id for job in running if self.lost(job, before)}
        assert sure <= set(answer) <= {job.id for job in running if self.lost(job, after)}, (sure, answer)
        for was in leaving:
            policy, now = LOST[was.kind], after.jobs[was.id]
            dead = policy == "fail" or (policy == "retry" and was.losses + 1 >= MAX_LOSSES)
            wish = State.FAILED if dead else State.PENDING if policy == "hold" else State.QUEUED
            check_left(was, now, wish, superseded(was, [j for j in leaving if self._waits(j)], before), refund=1)
            assert (now.losses, now.refunds, now.claimed_by) == (was.losses + 1, was.refunds, None)
            assert now.fence > was.fence, "a rescue that does not move the fence leaves two owners"

    def _waits(self, job: Job) -> bool:
        return LOST[job.kind] != "fail" and not (LOST[job.kind] == "retry" and job.losses + 1 >= MAX_LOSSES)


@dataclass(frozen=True)
class Rescue(_Revoking):
    @override
    async def run(self, store: Store) -> Any:
        return await store.rescue(max_losses=MAX_LOSSES)

    @override
    def lost(self, job: Job, world: World) -> bool:
        assert job.claimed_by is not None
        seen = world.workers.get(job.claimed_by)
        return seen is not None and seen < world.now - STALE


@dataclass(frozen=True)
class RescueDead(_Revoking):
    worker: int

    @override
    async def run(self, store: Store) -> Any:
        values = {"workers": [self.worker], "max_losses": MAX_LOSSES, "channel": store.database.channel}
        return [row["id"] for row in await store.fetch("rescue_dead", **values)]

    @override
    def lost(self, job: Job, world: World) -> bool:
        return job.claimed_by == self.worker


@dataclass(frozen=True)
class Orphans(_Revoking):
    @override
    async def run(self, store: Store) -> Any:
        rows = await store.fetch("orphans", max_losses=MAX_LOSSES, channel=store.database.channel)
        return [row["id"] for row in rows]

    @override
    def lost(self, job: Job, world: World) -> bool:
        return job.claimed_by not in world.workers


@dataclass(frozen=True)
class Stalled(_Revoking):
    @override
    async def run(self, store: Store) -> Any:
        statement = store.database.statements["stalled"]
        text = statement.dollar.replace("pg_postmaster_start_time()", "'-infinity'::timestamptz")
        span = await store.value("SELECT interval '1 year'")
        values = {"watched": span, "max_losses": MAX_LOSSES, "channel": store.database.channel}
        return [row["id"] for row in await store.connection.fetch(text, *statement.bind(values))]

    @override
    def lost(self, job: Job, world: World) -> bool:
        assert job.claimed_at is not None
        told = world.progress.get(job.id)
        last = max(job.claimed_at, told[-1] if told and told[0] == job.fence else 0.0)
        return job.lane == "capped" and last < world.now - SILENT


@dataclass(frozen=True)
class Disown(Act):
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
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        mine = [j for j in before.jobs.values() if j.state is State.RUNNING and j.claimed_by == self.worker]
        leaving = [job for job in mine if job.id not in self.held]
        assert set(answer) == {job.id for job in leaving}
        for was in leaving:
            now = after.jobs[was.id]
            check_left(was, now, State.QUEUED, superseded(was, leaving, before), refund=1)
            assert (now.losses, now.refunds, now.claimed_by) == (was.losses, was.refunds + 1, None)


# --- time that is over -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Over(Act):
    """expire, too_old, unanswered: jobs whose time is over, and no others."""

    name: str
    paths: ClassVar[tuple[Path, ...]] = ((Verb.EXPIRE,), (Verb.AGE,))

    @override
    async def run(self, store: Store) -> Any:
        state = "failed" if self.name == "too_old" else "expired"
        return list((await store.one(self.name, state=state, error=None, channel=store.database.channel))["ids"])

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        sure = {job.id for job in before.jobs.values() if self._over(job, before.now)}
        assert sure <= set(answer) <= {job.id for job in before.jobs.values() if self._over(job, after.now)}

    def _over(self, job: Job, now: float) -> bool:
        if self.name == "too_old":
            return not job.state.is_final and job.too_old_at is not None and job.too_old_at < now
        if self.name == "expire":
            return job.waits and job.expires_at is not None and job.expires_at < now
        return job.state is State.PENDING and job.answer_by is not None and job.answer_by < now


@dataclass(frozen=True)
class Overdue(Act):
    """Waits for a signal whose time is over."""

    sides: ClassVar[frozenset[Path]] = NOBODY
    paths: ClassVar[tuple[Path, ...]] = ((Verb.RELEASE,), STAYS)

    @override
    async def run(self, store: Store) -> Any:
        return list((await store.one("signals_overdue", batch=100))["ids"] or ())

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
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
class RepairGates(Act):
    sides: ClassVar[frozenset[Path]] = CROWDED

    @override
    async def run(self, store: Store) -> Any:
        await store.fetch("repair_caps")
        return await store.fetch("repair_gates")

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant({}, self.sides)

    @override
    def remember(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        memory.owed.clear()


@dataclass(frozen=True)
class RepairFlows(Act):
    @override
    async def run(self, store: Store) -> Any:
        return await store.one("workflow_repair", flows=100, steps=500, channel=store.database.channel)

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant({}, CASCADE, creates=True)


@dataclass(frozen=True)
class Sweep(Act):
    """low_water is the head of every pair, no more and no less."""

    @override
    async def run(self, store: Store) -> Any:
        return await store.fetch("sweep")

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        heads: dict[tuple[str, int], float] = {}
        for job in after.jobs.values():
            if job.state is State.QUEUED:
                pair = (job.kind, job.priority)
                heads[pair] = min(job.run_after, heads.get(pair, job.run_after))
        assert {pair: low for pair, low in after.pairs.items() if low is not None} == heads


@dataclass(frozen=True)
class Prune(Act):
    @override
    async def run(self, store: Store) -> Any:
        rows = await store.fetch("prune", kind="*", state="*", batch=500)
        rows += await store.fetch("prune_workflows", batch=500)
        await store.fetch("prune_keys", batch=500)
        return sum(row["pruned"] for row in rows)

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant(prunes=True)

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
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
class SetCap(Act):
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
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant()


@dataclass(frozen=True)
class SetGate(Act):
    """Another limit. Those that wait for a raised one are let in by the next end, or the duty."""

    key: str
    limit: int

    @override
    async def run(self, store: Store) -> Any:
        await store.execute("UPDATE {s}.gates SET max_running = $2 WHERE key = $1", self.key, self.limit)

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant()

    @override
    def remember(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        memory.loose = True


# --- workflows -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start(Act):
    plan: str

    @override
    async def run(self, store: Store) -> Any:
        values = {"name": "f", "tenant": None, "submitted_by": "ann", "unique_key": None, "meta": None}
        return {row["name"]: row["job_id"] for row in await store.fetch("workflow_start", **values, plan=self.plan)}

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant(creates=True)

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        plan = json.loads(self.plan)
        behind = {edge["downstream"] for edge in plan["edges"]}
        for step in plan["steps"]:
            first = State.PENDING if step["approval"] else State.QUEUED
            assert after.jobs[answer[step["name"]]].state is (State.BLOCKED if step["name"] in behind else first)


@dataclass(frozen=True)
class Grow(Act):
    """A running job adds a step behind itself, under its claim."""

    job_id: int
    fence: int
    name: str
    joins: bool

    @override
    async def run(self, store: Store) -> Any:
        plan = {"steps": [{"name": self.name, "kind": "a"}], "edges": [], "joins": self.joins}
        values = {"job": self.job_id, "fence": self.fence, "workflow": None, "plan": json.dumps(plan)}
        return [
            (r["what"], r["job_id"])
            for r in await store.fetch("workflow_add", **values, channel=store.database.channel)
        ]

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant(creates=any(what == "created" for what, _ in answer))

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        ((what, _),) = answer
        was = before.jobs.get(self.job_id)
        current = was is not None and was.fence == self.fence and not was.state.is_final
        assert (what == "lost") == (not current), f"{what}: {was}, fence {self.fence}"
        assert what == "created" or before.jobs.keys() == after.jobs.keys()


@dataclass(frozen=True)
class CancelFlow(Act):
    workflow: int
    halt: bool
    paths: ClassVar[tuple[Path, ...]] = ((Verb.CANCEL,),)

    @override
    async def run(self, store: Store) -> Any:
        if not self.halt:
            await store.fetch("workflow_cancel", workflow=self.workflow)
            return []
        values = {"workflow": self.workflow, "state": "cancelled", "error": None, "channel": store.database.channel}
        return list((await store.one("workflow_halt", **values))["ids"])

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant(dict.fromkeys(answer, self.paths), CASCADE, creates=True)


@dataclass(frozen=True)
class RetryStep(Act):
    workflow: int
    step: str
    paths: ClassVar[tuple[Path, ...]] = ((Verb.RETRY,), STAYS)

    @override
    async def run(self, store: Store) -> Any:
        values = {"workflow": self.workflow, "step": self.step, "by_whom": "ann", "note": None}
        return [(row["what"], row["job_id"]) for row in await store.fetch("workflow_retry", **values)]

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant({job_id: self.paths for what, job_id in answer if what == "retried"}, NOBODY)

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        what, first = answer[0]
        if what == "retried":
            assert before.jobs[first].state.is_final
            assert after.jobs[first].state in {State.QUEUED, State.PENDING}
            assert after.flows[self.workflow]["state"] == "running"
