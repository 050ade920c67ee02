"""Action: a statement of the store, what its answer must say, and what it must have changed. Here: enqueue."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tests.machine.oracle import CASCADE, NOBODY, STAYS, Meant, Memory, Path, by_rule
from typing_extensions import override

from rowlock.errors import UniqueConflict
from rowlock.flow.enqueue.insert import SingleInsert
from rowlock.flow.enqueue.prepare import prepared
from rowlock.model.state import State, Verb

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from tests.factories import Store
    from tests.machine.snapshot import Job, Snapshot

    from rowlock.model.job import NewJob
    from rowlock.store.caller_transaction import Ask

KINDS: Final = ("a", "b", "c")
LOST: Final = {"a": "retry", "b": "hold", "c": "fail"}
TELLING: Final = "c"
"""The kind whose end by upkeep is told by a hook."""
HOOK: Final = "a"
PRIORITIES: Final = (0, 5)
MAX_LOSSES: Final = 3
STALE: Final = 60.0
SILENT: Final = 90.0
"""stall_after of the capped lane."""


@dataclass(frozen=True)
class Action:
    """One statement. The defaults are those of a statement that ends jobs."""

    sides: ClassVar[frozenset[Path]] = CASCADE
    paths: ClassVar[tuple[Path, ...]] = (STAYS,)
    transient: ClassVar[bool] = False
    """Whether a twin that commits at the same moment may make it fail: then it is run again."""

    async def run(self, store: Store) -> Any:
        raise NotImplementedError

    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant(dict.fromkeys(answer, self.paths), self.sides)

    def accepted(self, answer: Any) -> list[tuple[int, int]]:
        """Claims whose outcome the store took."""
        return []

    def hooks(self, before: Snapshot, after: Snapshot, answer: Any) -> set[tuple[int, int]]:
        """Runs, as (job, fence), whose end has a hook that is inserted with it."""
        return set()

    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        """Note what others will be judged by; it is committed."""

    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        """What it must have done, all alone."""


def untouched(before: Snapshot, after: Snapshot, *job_ids: int) -> None:
    for job_id in job_ids:
        assert after.jobs.get(job_id) == before.jobs.get(job_id), (before.jobs.get(job_id), after.jobs.get(job_id))


async def follow(store: Store, plan: Generator[Ask, list[Sequence[object]], Any]) -> Any:
    """Run a plan of statements as the library does: each answer decides what comes next."""
    with contextlib.closing(plan):
        try:
            name, values = next(plan)
            while True:
                name, values = plan.send([tuple(row) for row in await store.fetch(name, **values)])
        except StopIteration as end:
            return end.value


# --- enqueue ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Enqueue(Action):
    """What comes of it: created, kept, replaced, or rejected, with the job it is about."""

    job: NewJob
    args: int = 0

    @override
    async def run(self, store: Store) -> Any:
        # As in a user's transaction that goes on after a rejected key.
        async with store.connection.transaction():
            try:
                receipt = await follow(store, SingleInsert(prepared(self.job), json.dumps({"n": self.args})).plan())
            except UniqueConflict as taken:
                return "rejected", taken.job_id
        return receipt.what, receipt.id

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        what, job_id = answer
        paths: tuple[Path, ...] = (STAYS, (Verb.EDIT,), (Verb.RELEASE,)) if what == "replaced" else (STAYS,)
        if self.job.approval and what in {"created", "replaced"}:
            paths += tuple((*path, Verb.APPROVE) for path in paths)
        return Meant({job_id: paths}, NOBODY, creates=what == "created")

    @override
    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        what, job_id = answer
        key = self.job.idempotency_key
        if key is not None and what != "rejected" and memory.known(key, after) is None:
            assert self.job.keep_key is not None
            memory.keys[key] = (job_id, after.now + memory.travelled + self.job.keep_key.total_seconds())
        was, now = before.jobs.get(job_id), after.jobs.get(job_id)
        if what == "replaced" and was is not None and now is not None and was.gate_place > 0 and now.gate_place == 0:
            assert was.gate_key is not None
            memory.owed[was.gate_key] += 1

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        what, job_id = answer
        key = self.job.idempotency_key
        known = None if key is None else memory.known(key, after)
        if known is not None:
            assert (what, job_id) == ("kept", known), f"the key {key} stands for job {known}"
            untouched(before, after, job_id)
            return
        if key is not None:
            meant = before.keys.get(key) if what == "rejected" else job_id
            assert after.keys.get(key) == meant, f"what the unique key led to is {meant}: {after.keys}"
        holder = before.holder(self.job.unique_key, self.job.unique_scope) if self.job.unique_key else None
        if holder is None:
            assert what == "created"
            self._check_created(before, after, after.jobs[job_id], memory)
            return
        assert job_id == holder.id
        fixed = holder.state is State.RUNNING or (self.job.unique_scope == "live" and holder.gate_place > 0)
        if fixed or self.job.on_conflict in {"keep", "reject"}:
            assert what == ("rejected" if self.job.on_conflict == "reject" else "kept")
            untouched(before, after, job_id)
            return
        assert what == "replaced"
        self._check_replaced(holder, after.jobs[job_id], before, memory)

    def _check_created(self, before: Snapshot, after: Snapshot, now: Job, memory: Memory) -> None:
        self._check_asked(now, before, memory, otherwise=State.QUEUED, asked=bool(self.job.approval))
        delay = self.job.run_in.total_seconds() if self.job.run_in else 0.0
        assert before.now + delay <= now.run_after <= after.now + delay
        assert now.referred == _referred(self.job), now

    def _check_replaced(self, was: Job, now: Job, before: Snapshot, memory: Memory) -> None:
        asked = bool(was.approval or self.job.approval)
        unparked = was.parked and was.gate_key != self.job.gate_key
        assert now.args == {"n": self.args}
        assert now.gate_key == self.job.gate_key
        assert now.referred == _referred(self.job), now
        self._check_asked(now, before, memory, otherwise=State.QUEUED if unparked else was.state, asked=asked)
        assert not asked or now.gate_place == 0
        assert (now.attempt, now.losses) == (was.attempt, was.losses)

    def _check_asked(self, now: Job, before: Snapshot, memory: Memory, *, otherwise: State, asked: bool) -> None:
        """Pending, unless a rule gives the last approval it needs in advance."""
        if not asked:
            assert now.state is otherwise, now
            return
        author = by_rule(before, replace(now, approvers=None), memory) if self.job.approval else None
        enough = author is not None and now.approval >> 3 == 0
        assert now.state is (State.QUEUED if enough else State.PENDING), (author, now)
        assert (now.approval & 3, now.approvers) == (2 if enough else 1, None if author is None else [author]), now


def _referred(job: NewJob) -> set[tuple[str, str]]:
    refs = json.loads(job.refs) if job.refs else {}
    return {(name, str(value)) for name, value in refs.items()} | {("tag", tag) for tag in job.tags or ()}
