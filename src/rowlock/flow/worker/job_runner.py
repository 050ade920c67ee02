"""JobRunner: the worker of a process that runs single jobs by their ids; one per event loop, started at first use."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.flow.worker.worker import Worker


class JobRunner:
    """Keeps one worker per event loop, so that a job run by id costs neither connections nor a worker row of its own.

    A forked child has another event loop than its parent, and therefore a worker of its own.
    """

    def __init__(self, make: Callable[[], Worker]) -> None:
        """make: a worker that is not started and claims nothing by itself."""
        self._make = make
        self._workers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Worker]]
        self._workers = weakref.WeakKeyDictionary()
        self._keepers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]]
        self._keepers = weakref.WeakKeyDictionary()

    async def run(self, job_id: int) -> bool:
        """Claim one job and run it to its end; False: it is not claimable now."""
        return await (await self.worker()).run_by_id(job_id)

    async def worker(self) -> Worker:
        """The worker of the running event loop, started."""
        loop = asyncio.get_running_loop()
        starting = self._workers.get(loop)
        if starting is None or (starting.done() and (starting.cancelled() or starting.exception() is not None)):
            starting = self._workers[loop] = loop.create_task(self._start())
        return await asyncio.shield(starting)

    async def _start(self) -> Worker:
        worker = self._make()
        await worker.start()
        loop = asyncio.get_running_loop()
        self._keepers[loop] = loop.create_task(_keep(worker), name="rowlock-runner")
        return worker

    @property
    def loops(self) -> list[asyncio.AbstractEventLoop]:
        """Event loops that have a worker here and are not closed."""
        return [loop for loop in self._workers if not loop.is_closed()]

    async def close(self, *, after: float | None = 0) -> None:
        """Stop this loop's worker. after: seconds for running jobs to end; None: as the settings say."""
        loop = asyncio.get_running_loop()
        starting, keeper = self._workers.pop(loop, None), self._keepers.pop(loop, None)
        if starting is not None and not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        elif starting is not None and not starting.cancelled() and starting.exception() is None:
            await starting.result().stop(after=after)
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)


async def _keep(worker: Worker) -> None:
    """Stop the worker when this task is cancelled: by the runner, or by a loop that ends, which cancels its tasks."""
    try:
        await worker.stopped.wait()
    finally:
        await worker.stop(after=0)
