"""Many jobs in one call, some with keys that other jobs have, or that the call itself has twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.machine.action import Action, follow, untouched
from tests.machine.oracle import NOBODY, STAYS, Meant, Memory
from typing_extensions import override

from rowlock.errors import UniqueConflict
from rowlock.flow.enqueue.insert import BulkInsert
from rowlock.flow.enqueue.prepare import prepared
from rowlock.model.state import State

if TYPE_CHECKING:
    from tests.factories import Store
    from tests.machine.snapshot import Snapshot

    from rowlock.model.job import NewJob


@dataclass(frozen=True)
class EnqueueMany(Action):
    """Jobs that differ in their keys and gates. Answers (what, job) in their order; None: rejected as a whole."""

    jobs: tuple[NewJob, ...]

    @override
    async def run(self, store: Store) -> Any:
        texts = [json.dumps({"n": n}) for n in range(len(self.jobs))]
        async with store.connection.transaction():
            try:
                receipt = await follow(store, BulkInsert(texts, [prepared(job) for job in self.jobs]).plan())
            except UniqueConflict:
                return None
        return list(zip(receipt.whats, receipt.ids, strict=True))

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        made = [job_id for what, job_id in answer or () if what == "created"]
        return Meant(dict.fromkeys(made, (STAYS,)), NOBODY, creates=bool(made))

    @override
    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        for job, (_, job_id) in zip(self.jobs, answer or (), strict=False):
            key = job.idempotency_key
            if key is not None and memory.known(key, after) is None:
                assert job.keep_key is not None
                memory.keys[key] = (job_id, after.now + memory.travelled + job.keep_key.total_seconds())

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        held = [self._holder(job, before, after, memory) for job in self.jobs]
        names = [job.unique_key or job.idempotency_key for job in self.jobs]
        first = [name is None or name not in names[:n] for n, name in enumerate(names)]
        rejects = self.jobs[0].unique_key is not None and self.jobs[0].on_conflict == "reject"
        if rejects and not (all(first) and held == [None] * len(held)):
            assert answer is None, f"a key is taken, and nobody was told: {answer}"
            assert after.jobs == before.jobs, "a bulk that was rejected left something behind"
            return
        assert answer is not None, "rejected, though every key was free"
        for n, (what, job_id) in enumerate(answer):
            if held[n] is not None:
                assert (what, job_id) == ("kept", held[n])
                untouched(before, after, job_id)
            elif first[n]:
                assert what == "created", f"{names[n]} was free: {what}"
                now = after.jobs[job_id]
                assert (now.args, now.state) == ({"n": n}, State.QUEUED), f"created out of order: {now}"
                assert (now.unique_key, now.gate_key) == (self.jobs[n].unique_key, self.jobs[n].gate_key)
            else:
                assert (what, job_id) == ("kept", answer[names.index(names[n])][1]), f"{names[n]} twice: {answer}"

    def _holder(self, job: NewJob, before: Snapshot, after: Snapshot, memory: Memory) -> int | None:
        """Who had the key before."""
        if job.idempotency_key is not None:
            return memory.known(job.idempotency_key, after)
        holder = before.holder(job.unique_key, job.unique_scope) if job.unique_key else None
        return None if holder is None else holder.id
