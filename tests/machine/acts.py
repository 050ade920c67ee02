"""Acts: a statement of the store, what its answer means for the oracle, and what it has to do when nobody disturbs it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tests.factories import ORDER
from tests.machine.oracle import CASCADE, CROWDED, FREED, NOBODY, REFUSED, STAYS, Meant, Memory, Path

from rowlock.flow.claim import BEGINNING, arguments
from rowlock.flow.enqueue import _statement, parameters
from rowlock.model.job import Claim, NewJob
from rowlock.model.state import State, Verb

if TYPE_CHECKING:
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

    async def run(self, store: Store) -> Any:  # noqa: ANN401 - what the statement says
        raise NotImplementedError

    def meant(self, before: World, answer: Any) -> Meant:  # noqa: ANN401, ARG002
        return Meant(dict.fromkeys(answer, self.paths), self.sides)

    def accepted(self, answer: Any) -> list[tuple[int, int]]:  # noqa: ANN401, ARG002
        """Claims whose outcome the store took."""
        return []

    def remember(self, before: World, after: World, answer: Any, memory: Memory) -> None:  # noqa: ANN401
        """Note what others will be judged by; it is committed."""

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:  # noqa: ANN401
        """What it must have done, all alone."""


def untouched(before: World, after: World, *job_ids: int) -> None:
    for job_id in job_ids:
        assert after.jobs.get(job_id) == before.jobs.get(job_id), (before.jobs.get(job_id), after.jobs.get(job_id))


# --- enqueue ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Enqueue(Act):
    job: NewJob
    args: int = 0

    async def run(self, store: Store) -> Any:
        rows = await store.fetch(_statement(self.job), args=json.dumps({"n": self.args}), **parameters(self.job))
        assert len(rows) <= 1
        return (rows[0]["what"], int(rows[0]["id"])) if rows else None

    def meant(self, before: World, answer: Any) -> Meant:
        if answer is None:
            return Meant()
        what, job_id = answer
        paths = (STAYS, (Verb.EDIT,), (Verb.RELEASE,)) if what == "replaced" else (STAYS,)
        return Meant({job_id: paths}, NOBODY, creates=what == "created")

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

    def meant(self, before: World, answer: Any) -> Meant:
        return Meant({row["id"]: TAKEN for row in answer}, self.sides)

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

    async def run(self, store: Store) -> Any:
        return await store.fetch("claim_ids", worker=self.worker, lane=self.lane, ids=sorted(self.ids))

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_taken(before, after, answer)
        taken = {row["id"] for row in answer}
        assert {job.id for job in before.due() if job.id in self.ids} <= taken <= set(self.ids)
        untouched(
            before,
            after,
            *(i for i in self.ids if before.jobs[i].state is not State.QUEUED and not before.jobs[i].parked),
        )


# --- the owner's writes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Owned(Act):
    claims: Sequence[Claim]

    def sorted(self) -> list[Claim]:
        return sorted(self.claims, key=lambda claim: claim.job_id)

    def accepted(self, answer: Any) -> list[tuple[int, int]]:
        return [(c.job_id, c.fence) for c in self.claims if (c.job_id, c.fence) in answer]

    def meant(self, before: World, answer: Any) -> Meant:
        return Meant({job_id: self.paths for job_id, _ in answer}, self.sides)

    def _answered(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        assert len(set(ids)) == len(ids)
        return [(c.job_id, c.fence) for c in self.claims if c.job_id in ids]

    def _check_stale(self, before: World, after: World, answer: Any) -> None:
        """Exactly the claims that count are accepted; a stale one changes nothing at all."""
        current = {(c.job_id, c.fence) for c in self.claims if before.current(c) is not None}
        assert set(answer) == current, f"{current} count, {answer} were accepted"


@dataclass(frozen=True)
class Finish(_Owned):
    state: str = "completed"
    paths: ClassVar[tuple[Path, ...]] = ((Verb.COMPLETE,), (Verb.FAIL,), (Verb.CANCEL,))

    async def run(self, store: Store) -> Any:
        return self._answered(await store.complete(*self.sorted(), state=self.state))

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_stale(before, after, answer)
        for job_id, _ in answer:
            now = after.jobs[job_id]
            assert (now.state, now.gate_place) == (State(self.state), 0)
            assert now.claimed_by == before.jobs[job_id].claimed_by


@dataclass(frozen=True)
class GiveBack(_Owned):
    """retry: counted; snooze and interrupt: refunded."""

    outcome: str = "failed"
    delay: float = 0.0
    refund: int = 0
    paths: ClassVar[tuple[Path, ...]] = ((Verb.FAIL,), (Verb.SNOOZE,), (Verb.CANCEL,))
    transient: ClassVar[bool] = True

    async def run(self, store: Store) -> Any:
        ids = await store.give_back(*self.sorted(), delay=self.delay, refund=self.refund, outcome=self.outcome)
        return self._answered(ids)

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_stale(before, after, answer)
        leaving = [before.jobs[job_id] for job_id, _ in answer]
        for was in leaving:
            now = after.jobs[was.id]
            check_left(was, now, State.QUEUED, superseded(was, leaving, before), refund=self.refund)
            assert now.claimed_by == was.claimed_by
            assert now.refunds == was.refunds + self.refund
            assert now.state.is_final or now.run_after >= before.now + self.delay
            assert after.attempts[was.id, was.fence] == (was.claimed_by, self.outcome)


@dataclass(frozen=True)
class Suspend(_Owned):
    signal: str = "s"
    seconds: float | None = None
    paths: ClassVar[tuple[Path, ...]] = ((Verb.WAIT,), (Verb.WAIT, Verb.RELEASE), (Verb.CANCEL,))
    transient: ClassVar[bool] = True

    async def run(self, store: Store) -> Any:
        (claim,) = self.claims
        return self._answered((await store.suspend(claim, self.signal, self.seconds))["ids"])

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_stale(before, after, answer)
        for job_id, _ in answer:
            was, now = before.jobs[job_id], after.jobs[job_id]
            there = any((job_id, self.signal, late) in before.signals for late in (False, True))
            wish = State.BLOCKED if not there else State.PENDING if was.approval & 3 == 1 else State.QUEUED
            check_left(was, now, wish, superseded(was, [was], before), refund=1)
            if now.state is State.BLOCKED:
                assert after.waits[job_id].signal == self.signal


def superseded(was: Job, leaving: Sequence[Job], before: World) -> bool:
    """Whether a twin of the same key waits already, or goes back to wait and is newer."""
    if was.unique_scope != "waiting":
        return False
    twins = [j for j in leaving if j.unique_key == was.unique_key and j.unique_scope == "waiting" and not j.cancelling]
    return before.holder(was.unique_key, "waiting") is not None or any(j.id > was.id for j in twins)


def check_left(was: Job, now: Job, wish: State, twin: bool, *, refund: int) -> None:
    """A running job left its worker: a cancel wins over another attempt, and so does a waiting twin."""
    end = wish is not State.FAILED and (was.cancelling or twin)
    assert now.state is (State.CANCELLED if end else wish), (was, now, wish)
    assert now.attempt == was.attempt - refund, f"the attempt was to be refunded by {refund}: {was} {now}"
    assert now.gate_place == 0 or now.state is State.RUNNING
    if twin and end:
        assert now.reason == "superseded"


@dataclass(frozen=True)
class Report(_Owned):
    """Progress and items of one claim."""

    items: Sequence[tuple[str, str]] = ()
    checkpoint: int | None = None
    sides: ClassVar[frozenset[Path]] = NOBODY

    async def run(self, store: Store) -> Any:
        (claim,) = self.claims
        told = await store.report(claim, None if self.checkpoint is None else str(self.checkpoint))
        n = len(self.items)
        wrote = await store.fetch(
            "write_items",
            ids=[claim.job_id],
            fences=[claim.fence],
            by_ids=[claim.job_id],
            by_fences=[claim.fence],
            targets=[1] * n,
            phases=["p"] * n,
            names=[name for name, _ in self.items],
            states=[state for _, state in self.items],
            started=[None] * n,
            ended=[None] * n,
            reasons=[None] * n,
            errors=[None] * n,
        )
        return told, bool(wrote)

    def accepted(self, answer: Any) -> list[tuple[int, int]]:
        return []

    def meant(self, before: World, answer: Any) -> Meant:
        return Meant()

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        (claim,) = self.claims
        current = before.current(claim) is not None
        assert answer == (current, current), f"{claim} counts: {current}; the store took its report: {answer}"
        if not current:
            assert after.progress.get(claim.job_id) == before.progress.get(claim.job_id)
            return
        fence, _, *counts, checkpoint, _ = after.progress[claim.job_id]
        was = before.progress.get(claim.job_id)
        kept = was[-2] if was and self.checkpoint is None else self.checkpoint
        assert (fence, checkpoint) == (claim.fence, kept)
        already = sum(was[2:6]) if was and was[0] == claim.fence else 0
        assert already <= sum(counts) <= already + len({name for name, _ in self.items})


@dataclass(frozen=True)
class Settled(_Owned):
    """Asked by a worker whose write hit no row: was it mine, or did I lose the claim?"""

    worker: int = 0
    sides: ClassVar[frozenset[Path]] = NOBODY

    async def run(self, store: Store) -> Any:
        (claim,) = self.claims
        return await store.settled(self.worker, claim)

    def accepted(self, answer: Any) -> list[tuple[int, int]]:
        return []

    def meant(self, before: World, answer: Any) -> Meant:
        return Meant()

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        (claim,) = self.claims
        own = memory.settled.get((claim.job_id, claim.fence))
        if own is not None and claim.job_id in before.jobs:
            assert answer is own, f"{claim} ended by its own write: {own}; settled says {answer}"


# --- orders ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ordered(Act):
    ids: Sequence[int]

    def _check_ids(self, answer: Any, meant: set[int]) -> None:
        assert set(answer) == meant, f"meant {meant}, the store says {answer}"

    def of(self, world: World, *states: State) -> set[int]:
        return {i for i in self.ids if i in world.jobs and world.jobs[i].state in states}


WAITING: Final = (State.PENDING, State.BLOCKED, State.QUEUED)


@dataclass(frozen=True)
class CancelWaiting(_Ordered):
    paths: ClassVar[tuple[Path, ...]] = ((Verb.CANCEL,),)

    async def run(self, store: Store) -> Any:
        return await store.cancel_waiting(*self.ids)

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, self.of(before, *WAITING))
        assert all(after.jobs[i].state is State.CANCELLED for i in answer)


@dataclass(frozen=True)
class CancelRunning(_Ordered):
    paths: ClassVar[tuple[Path, ...]] = ((Verb.CANCEL,),)
    sides: ClassVar[frozenset[Path]] = NOBODY

    async def run(self, store: Store) -> Any:
        return await store.cancel_running(*self.ids)

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, {i for i in self.of(before, State.RUNNING) if not before.jobs[i].cancelling})
        assert all(after.jobs[i].cancelling and after.jobs[i].state is State.RUNNING for i in answer)


@dataclass(frozen=True)
class Stop(_Ordered):
    paths: ClassVar[tuple[Path, ...]] = ((Verb.STOP,),)

    async def run(self, store: Store) -> Any:
        return await store.stop(*self.ids)

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, self.of(before, *WAITING, State.RUNNING))
        assert all((after.jobs[i].state, after.jobs[i].claimed_by) == (State.CANCELLED, None) for i in answer)


@dataclass(frozen=True)
class Reject(_Ordered):
    paths: ClassVar[tuple[Path, ...]] = ((Verb.REJECT,),)

    async def run(self, store: Store) -> Any:
        return await store.reject(*self.ids)

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, self.of(before, State.PENDING))


@dataclass(frozen=True)
class Approve(_Ordered):
    by: str = "bob"
    sides: ClassVar[frozenset[Path]] = NOBODY

    async def run(self, store: Store) -> Any:
        order = {**ORDER, "verb": "approve", "by_whom": self.by}
        rows = await store.fetch("approve", ids=list(self.ids), **order)
        return {row["id"]: row["refused"] for row in rows}

    def meant(self, before: World, answer: Any) -> Meant:
        return Meant({i: ((Verb.APPROVE,), STAYS) for i, refused in answer.items() if refused is None}, self.sides)

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, self.of(before, State.PENDING))
        for job_id, refused in answer.items():
            was, now = before.jobs[job_id], after.jobs[job_id]
            four = was.approval & 4
            assert refused == (
                "late" if was.answer_by is not None and was.answer_by <= before.now
                else "own" if four and was.submitted_by in (None, self.by)
                else "edited" if four and self.by in memory.edited.get(job_id, ())
                else "again" if self.by in (was.approvers or ())
                else None
            ), (refused, was)  # fmt: skip
            if refused is None:
                enough = len(was.approvers or ()) >= was.approval >> 3
                assert now.state is (State.QUEUED if enough else State.PENDING)
                assert not enough or (now.approval & 3 == 2 and now.run_after >= before.now)


@dataclass(frozen=True)
class Retry(_Ordered):
    sides: ClassVar[frozenset[Path]] = NOBODY
    paths: ClassVar[tuple[Path, ...]] = ((Verb.RETRY,),)
    transient: ClassVar[bool] = True

    async def run(self, store: Store) -> Any:
        return {row["id"]: row["blocked_by"] for row in await store.retry(*self.ids)}

    def meant(self, before: World, answer: Any) -> Meant:
        return Meant({i: self.paths for i, twin in answer.items() if twin is None}, self.sides)

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        final = {i for i in self.ids if before.jobs[i].state.is_final and before.jobs[i].workflow is None}
        self._check_ids(answer, final)
        for job_id, twin in answer.items():
            was, now = before.jobs[job_id], after.jobs[job_id]
            holder = before.holder(was.unique_key, was.unique_scope) if was.unique_key else None
            assert twin == (None if holder is None else holder.id)
            if twin is not None:
                untouched(before, after, job_id)
                continue
            assert now.state is (State.PENDING if was.approval & 3 == 1 else State.QUEUED)
            assert (now.attempt, now.losses, now.refunds, now.cancelling, now.gate_place) == (0, 0, 0, False, 0)
            assert now.claimed_by is None and now.expires_at is None and now.too_old_at is None


@dataclass(frozen=True)
class Reprioritise(_Ordered):
    priority: int = 0
    sides: ClassVar[frozenset[Path]] = NOBODY

    async def run(self, store: Store) -> Any:
        order = {**ORDER, "verb": "priority"}
        return [
            row["id"] for row in await store.fetch("reprioritise", ids=list(self.ids), priority=self.priority, **order)
        ]

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, self.of(before, *WAITING))
        for job_id in answer:
            was, now = before.jobs[job_id], after.jobs[job_id]
            assert now == replace(was, priority=self.priority, seq=now.seq, run_after=now.run_after)
            assert now.run_after >= max(was.run_after, before.now)


@dataclass(frozen=True)
class Edit(Act):
    """Other arguments for a waiting job."""

    job_id: int
    args: int
    by: str = "ann"
    sides: ClassVar[frozenset[Path]] = FREED

    async def run(self, store: Store) -> Any:
        row = await store.edit(self.job_id, args=json.dumps({"n": self.args}), by_whom=self.by)
        return row["state"] is not None

    def meant(self, before: World, answer: Any) -> Meant:
        return Meant({self.job_id: ((Verb.EDIT,), STAYS)} if answer else {}, self.sides)

    def remember(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        if answer:
            memory.edited.setdefault(self.job_id, set()).add(self.by)

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        was, now = before.jobs[self.job_id], after.jobs[self.job_id]
        assert answer == (was.waits and was.args != {"n": self.args})
        if not answer:
            untouched(before, after, self.job_id)
            return
        assert now.args == {"n": self.args}
        depends = was.state is State.BLOCKED and was.gate_place == 0
        assert now.state is (State.PENDING if was.approval and not depends else was.state)
        if was.approval:
            assert (now.approval & 3, now.approvers, now.gate_place) == (1, None, 0), (
                f"its approval was for other arguments: {now}"
            )


@dataclass(frozen=True)
class Signal(Act):
    job_id: int
    name: str = "s"
    sides: ClassVar[frozenset[Path]] = NOBODY

    async def run(self, store: Store) -> Any:
        return (await store.signal(self.job_id, self.name))["what"]

    def meant(self, before: World, answer: Any) -> Meant:
        return Meant({self.job_id: ((Verb.RELEASE,), STAYS)} if answer == "sent" else {}, self.sides)

    def check(self, before: World, after: World, answer: Any, memory: Memory) -> None:
        was, now = before.jobs[self.job_id], after.jobs[self.job_id]
        known = any((was.id, self.name, late) in before.signals for late in (False, True))
        assert answer == ("final" if was.state.is_final else "kept" if known else "sent")
        wait = before.waits.get(was.id)
        heard = answer == "sent" and was.state is State.BLOCKED and not was.parked and wait and wait.signal == self.name
        if heard:
            assert now.state in {State.QUEUED, State.PENDING}, f"its signal came: {now}"
        else:
            untouched(before, after, was.id)
