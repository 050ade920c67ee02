"""Drainer: runs due jobs at once, in the test, through the real claim, run and finish."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.desk.guard import TRUSTED
from rowlock.errors import ClaimLost, EndlessDrain, JobFailed, UnknownKind, WrongState
from rowlock.flow.worker.job_runner import JobRunner
from rowlock.model.state import State
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowlock.app import Rowlock
    from rowlock.model.job import Job
    from rowlock.testing.faults import Faults

LIMIT: Final = 1000
"""Runs after which drain() raises EndlessDrain."""
_LOOK_EVERY: Final = 0.01
"""Seconds between two looks for jobs that running ones have enqueued, while fewer than at_once run."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The runs of one drain: one Job per run, in the order of their ends, each as it was after that run."""

    runs: Sequence[Job] = ()

    @property
    def states(self) -> Counter[str]:
        """Runs by the state they ended in; queued: the job will run again later."""
        return Counter(str(job.state) for job in self.runs)

    @property
    def kinds(self) -> Counter[str]:
        """Runs by kind."""
        return Counter(job.kind for job in self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __bool__(self) -> bool:
        return bool(self.runs)


class Drainer:
    """Runs jobs of one application for a test. One quiet worker per event loop is kept for the next drain."""

    def __init__(self, app: Rowlock, faults: Faults) -> None:
        self._app, self._faults = app, faults
        self._runner = JobRunner(lambda: app.make_worker(name="test", claims=False, handlers=faults))

    async def drain(
        self, *, limit: int = LIMIT, at_once: int = 1, raise_errors: bool = False, before: Sequence[Job] = ()
    ) -> Drained:
        """Run until nothing is due. before: runs that count towards the limit and the answer."""
        runs, refused, running = list(before), set[int](), dict[asyncio.Task["Job | None"], int]()
        try:
            while True:
                while len(running) < at_once and (job_id := await self._due(refused.union(running.values()))):
                    self._check(runs, limit)
                    running[asyncio.ensure_future(self._run(job_id, raise_errors=raise_errors))] = job_id
                if not running:
                    return Drained(tuple(runs))
                timeout = None if len(running) == at_once else _LOOK_EVERY
                ended, _ = await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    job_id = running.pop(task)
                    if (job := task.result()) is None:
                        refused.add(job_id)
                    else:
                        # A gate or a cap that held the others back may be free now.
                        refused.clear()
                        runs.append(job)
        finally:
            await _given_up(running)

    async def run(self, ids: Iterable[int], *, raise_errors: bool) -> None:
        """Run these jobs now, one after the other, then what their workflows release; those that are not due stay."""
        given, refused = list(ids), list[int]()
        for job_id in given:
            await self._run(job_id, raise_errors=raise_errors)
        kinds = list(self._app.handlers)
        while found := await self._app.database().fetch("due_steps", ids=given, kinds=kinds, without=refused):
            number = int(found[0]["id"])
            if await self._run(number, raise_errors=raise_errors) is None:
                refused.append(number)

    async def _due(self, without: Iterable[int]) -> int | None:
        found = await self._app.database().fetch("next_due", kinds=list(self._app.handlers), without=list(without))
        return int(found[0]["id"]) if found and found[0]["due"] else None

    async def _run(self, job_id: int, *, raise_errors: bool) -> Job | None:
        """Run one job; None: it cannot be claimed now."""
        self._faults.raised.pop(job_id, None)
        try:
            if not await self._runner.run(job_id):
                return None
        except (WrongState, UnknownKind):
            return None  # its lane is drained, or its code is not imported
        database = self._app.database()
        if raise_errors:
            await self._raise(job_id)
        (row,) = await database.fetch("jobs_by_id", ids=[job_id], **TRUSTED.visibility)
        return rows.job_of(row)

    async def _raise(self, job_id: int) -> None:
        error = self._faults.raised.pop(job_id, None)
        if isinstance(error, Exception) and not isinstance(error, ClaimLost):
            raise error
        job = await self._app.jobs.get(job_id)
        if job.errors is not None and job.state in (State.FAILED, State.QUEUED):
            why = job.errors.get("message") or job.errors.get("reason")
            message = f"Job {job.public_id} ({job.kind}) is {job.state} after its run: {why}"
            raise JobFailed(message)

    def _check(self, runs: Sequence[Job], limit: int) -> None:
        if len(runs) >= limit:
            often = ", ".join(f"{kind} {n}" for kind, n in Drained(runs).kinds.most_common(3))
            raise EndlessDrain(
                f"drain() ran {limit:,} jobs and more are due (most often: {often}). Does a handler enqueue itself? "
                "Pass limit=… if that many are meant."
            )

    @property
    def loops(self) -> list[asyncio.AbstractEventLoop]:
        """Event loops that have a worker here and are not closed."""
        return self._runner.loops

    async def close(self) -> None:
        """Stop this loop's worker."""
        await self._runner.close()


async def _given_up(running: Iterable[asyncio.Task[Job | None]]) -> None:
    """Cancel and await jobs that still run when drain() raises: half-done jobs would disturb the test's end."""
    left = list(running)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
