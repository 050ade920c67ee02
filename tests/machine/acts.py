"""Acts: a statement of the store, what its answer means, and what it has to do alone. Here: enqueue and claim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tests.machine.oracle import CASCADE, CROWDED, NOBODY, REFUSED, STAYS, Meant, Memory, Path
from typing_extensions import override

from rowlock.flow.claim import arguments
from rowlock.flow.cursors import BEGINNING
from rowlock.flow.enqueue import _statement, parameters
from rowlock.model.job import Claim, NewJob
from rowlock.model.state import State, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.factories import Store
    from tests.machine.world import Job, World

KINDS: Final = ("a", "b", "c")
LOST: Final = {"a": "retry", "b": "hold", "c": "fail"}
PRIORITIES: Final = (0, 5)
MAX_LOSSES: Final = 3
STALE: Final = 60.0
SILENT: Final = 90.0
"""stall_after of the capped lane."""
TAKEN: Final[tuple[Path, ...]] = ((Verb.CLAIM,), (REFUSED,))


@dataclass(frozen=True)
class Act:
    """One statement. The defaults are those of a statement that ends jobs."""

    sides: ClassVar[frozenset[Path]] = CASCADE
    paths: ClassVar[tuple[Path, ...]] = (STAYS,)
    transient: ClassVar[bool] = False
    """Whether a twin that commits at the same moment may make it fail: then it is run again."""

    async def run(self, store: Store) -> Any:
        raise NotImplementedError

    def meant(self, before: World, answer: Any) -> Meant:
        return Meant(dict.fromkeys(answer, self.paths), self.sides)

    def accepted(self, answer: Any) -> list[tuple[int, int]]:
        """Claims whose outcome the store took."""
        return []

    def remember(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        """Note what others will be judged by; it is committed."""

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        """What it must have done, all alone."""


def untouched(before: World, after: World, *job_ids: int) -> None:
    for job_id in job_ids:
        assert after.jobs.get(job_id) == before.jobs.get(job_id), (before.jobs.get(job_id), after.jobs.get(job_id))


# --- enqueue ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Enqueue(Act):
    job: NewJob
    args: int = 0

    @override
    async def run(self, store: Store) -> Any:
        rows = await store.fetch(_statement(self.job), args=json.dumps({"n": self.args}), **parameters(self.job))
        assert len(rows) <= 1
        return (rows[0]["what"], int(rows[0]["id"])) if rows else None

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        if answer is None:
            return Meant()
        what, job_id = answer
        paths = (STAYS, (Verb.EDIT,), (Verb.RELEASE,)) if what == "replaced" else (STAYS,)
        return Meant({job_id: paths}, NOBODY, creates=what == "created")

    @override
    def remember(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        if answer is None:
            return
        what, job_id = answer
        key = self.job.idempotency_key
        if key is not None and what == "created":
            assert self.job.keep_key is not None
            memory.keys[key] = (job_id, after.now + memory.travelled + self.job.keep_key.total_seconds())
        was, now = before.jobs.get(job_id), after.jobs[job_id]
        if what == "replaced" and was is not None and was.gate_place > 0 and now.gate_place == 0:
            assert was.gate_key is not None
            memory.owed[was.gate_key] += 1

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        assert answer is not None, "an enqueue was dropped in silence"
        what, job_id = answer
        known = memory.keys.get(self.job.idempotency_key or "")
        if known is not None and known[1] > after.now + memory.travelled:
            assert (what, job_id) == ("kept", known[0])
            untouched(before, after, job_id)
            return
        holder = before.holder(self.job.unique_key, self.job.unique_scope) if self.job.unique_key else None
        if holder is None:
            assert what == "created"
            now = after.jobs[job_id]
            assert now.state is (State.PENDING if self.job.approval else State.QUEUED)
            delay = self.job.run_in.total_seconds() if self.job.run_in else 0.0
            assert before.now + delay <= now.run_after <= after.now + delay
            return
        assert job_id == holder.id
        fixed = holder.state is State.RUNNING or (self.job.unique_scope == "live" and holder.gate_place > 0)
        if fixed or self.job.on_conflict in {"keep", "reject"}:
            assert what == "kept"
            untouched(before, after, job_id)
            return
        assert what == "replaced"
        self._check_replaced(holder, after.jobs[job_id])

    def _check_replaced(self, was: Job, now: Job) -> None:
        asked = bool(was.approval or self.job.approval)
        unparked = was.parked and was.gate_key != self.job.gate_key
        assert now.args == {"n": self.args}
        assert now.gate_key == self.job.gate_key
        assert now.state is (State.PENDING if asked else State.QUEUED if unparked else was.state)
        assert not asked or (now.approval & 3, now.approvers, now.gate_place) == (1, None, 0)
        assert (now.attempt, now.losses) == (was.attempt, was.losses)


# --- claim -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Claiming(Act):
    sides: ClassVar[frozenset[Path]] = CROWDED

    @override
    def meant(self, before: World, answer: Any) -> Meant:
        return Meant({row["id"]: TAKEN for row in answer}, self.sides)

    @override
    def remember(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        for row in answer:
            if row["parked"]:
                continue
            claim = Claim(row["id"], row["fence"])
            memory.took(claim, row["claimed_by"])
            for rate in row["rate_keys"] or ():
                span = (before.now + memory.travelled, after.now + memory.travelled)
                memory.starts.setdefault(rate, []).append(span)

    def _check_taken(self, before: World, after: World, answer: Any) -> None:
        for row in answer:
            was, now = before.jobs[row["id"]], after.jobs[row["id"]]
            assert was.run_after <= after.now, f"it was not due: {was}"
            if row["parked"]:
                assert now.state in {State.BLOCKED, State.QUEUED}
                assert (now.attempt, now.claimed_by, now.lane) == (was.attempt, None, None), now
                continue
            assert (now.state, now.fence, now.attempt) == (State.RUNNING, was.fence + 1, was.attempt + 1)
            assert not now.cancelling
            gate = before.gates.get(was.gate_key or "")
            if gate is not None and gate.fifo and was.gate_place == 0:
                waiting = [job for job in before.jobs.values() if job.parked and job.gate_key == was.gate_key]
                assert not waiting, f"{was} overtook {waiting}"


@dataclass(frozen=True)
class ClaimSome(_Claiming):
    worker: int
    n: int
    lane: str

    @override
    async def run(self, store: Store) -> Any:
        async with store.connection.transaction():
            (room,) = await store.fetch("cap_enter", lanes=[self.lane], free=[self.n])
            if room["free"] == 0:
                return []
            probes = [((kind, priority, 0), BEGINNING) for kind in KINDS for priority in PRIORITIES]
            values = arguments(self.worker, {self.lane: room["free"]}, {self.lane: probes})
            rows = await store.fetch("claim", **values | {"takes": [self.n] * len(probes)})
            await store.fetch("cap_taken", lanes=[row["lane"] for row in rows if not row["parked"]])
        return rows

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_taken(before, after, answer)
        cap = before.gates.get(f"lane:{self.lane}")
        free = self.n if cap is None else max(0, min(self.n, cap.limit - cap.held))
        just = [job for job in before.jobs.values() if before.now < job.run_after <= after.now]
        first = {job.id for job in before.due()[:free]}
        assert just or {row["id"] for row in answer} == first, f"{first} are first in the queue, {answer} were taken"


@dataclass(frozen=True)
class ClaimIds(_Claiming):
    worker: int
    ids: Sequence[int]
    lane: str = "free"

    @override
    async def run(self, store: Store) -> Any:
        return await store.fetch("claim_ids", worker=self.worker, lane=self.lane, ids=sorted(self.ids))

    @override
    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_taken(before, after, answer)
        taken = {row["id"] for row in answer}
        assert {job.id for job in before.due() if job.id in self.ids} <= taken <= set(self.ids)
        untouched(
            before,
            after,
            *(i for i in self.ids if before.jobs[i].state is not State.QUEUED and not before.jobs[i].parked),
        )
