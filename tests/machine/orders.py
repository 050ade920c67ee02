"""Orders of people: cancel, stop, approve, reject, retry, reprioritise, edit, signal."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tests.factories import ORDER
from tests.machine.action import Action, untouched
from tests.machine.oracle import FREED, NOBODY, STAYS, WITHDRAWN, Meant, Memory, Path, by_rule
from typing_extensions import override

from rowlock.model.state import State, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.factories import Store
    from tests.machine.snapshot import Job, Snapshot


@dataclass(frozen=True)
class _Ordered(Action):
    ids: Sequence[int]

    def _check_ids(self, answer: Any, meant: set[int]) -> None:
        assert set(answer) == meant, f"meant {meant}, the store says {answer}"

    def of(self, snapshot: Snapshot, *states: State) -> set[int]:
        return {i for i in self.ids if i in snapshot.jobs and snapshot.jobs[i].state in states}


WAITING: Final = (State.PENDING, State.BLOCKED, State.QUEUED)


@dataclass(frozen=True)
class CancelWaiting(_Ordered):
    paths: ClassVar[tuple[Path, ...]] = ((WITHDRAWN,),)

    @override
    async def run(self, store: Store) -> Any:
        return await store.cancel_waiting(*self.ids)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, self.of(before, *WAITING))
        assert all(after.jobs[i].state is State.CANCELLED for i in answer)


@dataclass(frozen=True)
class CancelRunning(_Ordered):
    paths: ClassVar[tuple[Path, ...]] = ((Verb.CANCEL,),)
    sides: ClassVar[frozenset[Path]] = NOBODY

    @override
    async def run(self, store: Store) -> Any:
        return await store.cancel_running(*self.ids)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, {i for i in self.of(before, State.RUNNING) if not before.jobs[i].cancelling})
        assert all(after.jobs[i].cancelling and after.jobs[i].state is State.RUNNING for i in answer)


@dataclass(frozen=True)
class Stop(_Ordered):
    paths: ClassVar[tuple[Path, ...]] = ((Verb.STOP,),)

    @override
    async def run(self, store: Store) -> Any:
        return await store.stop(*self.ids)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, self.of(before, *WAITING, State.RUNNING))
        assert all((after.jobs[i].state, after.jobs[i].claimed_by) == (State.CANCELLED, None) for i in answer)


@dataclass(frozen=True)
class Reject(_Ordered):
    paths: ClassVar[tuple[Path, ...]] = ((Verb.REJECT,),)

    @override
    async def run(self, store: Store) -> Any:
        return await store.reject(*self.ids)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, self.of(before, State.PENDING))


@dataclass(frozen=True)
class Approve(_Ordered):
    by: str = "bob"
    sides: ClassVar[frozenset[Path]] = NOBODY

    @override
    async def run(self, store: Store) -> Any:
        order = {**ORDER, "verb": "approve", "by_whom": self.by}
        rows = await store.fetch("approve", ids=list(self.ids), principal=False, **order)
        return {row["id"]: row["refused"] for row in rows}

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant({i: ((Verb.APPROVE,), STAYS) for i, refused in answer.items() if refused is None}, self.sides)

    def refusal(self, was: Job, before: Snapshot, memory: Memory) -> str | None:
        """Why the approval does not count; None: it does."""
        four = was.approval & 4
        return (
            "late" if was.answer_by is not None and was.answer_by <= before.now
            else "own" if four and was.submitted_by in (None, self.by)
            else "edited" if four and self.by in memory.edited.get(was.id, ())
            else "again" if self.by in (was.approvers or ())
            else None
        )  # fmt: skip

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_ids(answer, self.of(before, State.PENDING))
        for job_id, refused in answer.items():
            was, now = before.jobs[job_id], after.jobs[job_id]
            assert refused == self.refusal(was, before, memory), (refused, was)
            if refused is None:
                enough = len(was.approvers or ()) >= was.approval >> 3
                assert now.state is (State.QUEUED if enough else State.PENDING)
                assert not enough or (now.approval & 3 == 2 and now.run_after >= before.now)


@dataclass(frozen=True)
class AddRule(Action):
    """An approval in advance; None: for every kind, for every submitter, by nobody in particular."""

    kind: str | None
    submitter: str | None
    author: str | None

    @override
    async def run(self, store: Store) -> Any:
        said = {"kind": self.kind, "submitted_by": self.submitter, "by_whom": self.author}
        await store.fetch("approval_rule_add", of_tenant=None, args=None, args_match="exact", note=None, **said)

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()


@dataclass(frozen=True)
class DropRules(Action):
    @override
    async def run(self, store: Store) -> Any:
        for row in await store.fetch("approval_rules"):
            await store.fetch("approval_rule_remove", id=row["id"])

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        assert not after.rules
        assert after.jobs == before.jobs, "what was approved stays so"


@dataclass(frozen=True)
class ByRule(_Ordered):
    """The rules are asked again, as after an edit."""

    sides: ClassVar[frozenset[Path]] = NOBODY
    paths: ClassVar[tuple[Path, ...]] = ((Verb.APPROVE,), STAYS)

    @override
    async def run(self, store: Store) -> Any:
        return [row["id"] for row in await store.fetch("auto_approve", ids=list(self.ids))]

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        pending = [before.jobs[i] for i in self.ids if i in self.of(before, State.PENDING)]
        ruled = {job.id: author for job in pending if (author := by_rule(before, job, memory)) is not None}
        self._check_ids(answer, set(ruled))
        untouched(before, after, *(i for i in self.ids if i not in ruled))
        for job_id, author in ruled.items():
            was, now = before.jobs[job_id], after.jobs[job_id]
            enough = len(was.approvers or ()) >= was.approval >> 3
            assert (now.state, now.approval & 3) == ((State.QUEUED, 2) if enough else (State.PENDING, 1)), (was, now)
            assert now.approvers == [*(was.approvers or ()), author]


@dataclass(frozen=True)
class Retry(_Ordered):
    sides: ClassVar[frozenset[Path]] = NOBODY
    paths: ClassVar[tuple[Path, ...]] = ((Verb.RETRY,),)
    transient: ClassVar[bool] = True

    @override
    async def run(self, store: Store) -> Any:
        return {row["id"]: row["blocked_by"] for row in await store.retry(*self.ids)}

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant({i: self.paths for i, twin in answer.items() if twin is None}, self.sides)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
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
            assert (now.claimed_by, now.expires_at, now.too_old_at) == (None, None, None)


@dataclass(frozen=True)
class Reprioritise(_Ordered):
    priority: int = 0
    sides: ClassVar[frozenset[Path]] = NOBODY

    @override
    async def run(self, store: Store) -> Any:
        order = {**ORDER, "verb": "priority"}
        return [
            row["id"] for row in await store.fetch("reprioritise", ids=list(self.ids), priority=self.priority, **order)
        ]

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        waiting = self.of(before, *WAITING)
        self._check_ids(answer, {job for job in waiting if before.jobs[job].priority != self.priority})
        for job_id in answer:
            was, now = before.jobs[job_id], after.jobs[job_id]
            assert now == replace(was, priority=self.priority, seq=now.seq, run_after=now.run_after)
            assert now.run_after >= max(was.run_after, before.now)


@dataclass(frozen=True)
class Edit(Action):
    """Other arguments for a waiting job."""

    job_id: int
    args: int
    by: str = "ann"
    sides: ClassVar[frozenset[Path]] = FREED

    @override
    async def run(self, store: Store) -> Any:
        row = await store.edit(self.job_id, args=json.dumps({"n": self.args}), by_whom=self.by)
        return row["state"] is not None

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant({self.job_id: ((Verb.EDIT,), STAYS)} if answer else {}, self.sides)

    @override
    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        if answer:
            memory.edited.setdefault(self.job_id, set()).add(self.by)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
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
class Signal(Action):
    job_id: int
    name: str = "s"
    sides: ClassVar[frozenset[Path]] = NOBODY

    @override
    async def run(self, store: Store) -> Any:
        return (await store.signal(self.job_id, self.name))["what"]

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant({self.job_id: ((Verb.RELEASE,), STAYS)} if answer == "sent" else {}, self.sides)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        was, now = before.jobs[self.job_id], after.jobs[self.job_id]
        known = any((was.id, self.name, late) in before.signals for late in (False, True))
        assert answer == ("final" if was.state.is_final else "kept" if known else "sent")
        wait = before.waits.get(was.id)
        heard = answer == "sent" and was.state is State.BLOCKED and not was.parked and wait and wait.signal == self.name
        if heard:
            assert now.state in {State.QUEUED, State.PENDING}, f"its signal came: {now}"
        else:
            untouched(before, after, was.id)
