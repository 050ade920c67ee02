"""BackgroundTasks: the asyncio tasks of a worker beside its jobs, kept, watched and cancelled together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class BackgroundTasks:
    """The background tasks of one worker."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        """on_failure: called with the exception of a task that failed."""
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run the coroutine in a task."""
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # A task that close() cancels may end in any error its driver makes of that; nothing is lost with it.
        if not task.cancelled() and not self._closing and (error := task.exception()) is not None:
            self._on_failure(error)

    async def close(self) -> None:
        """Cancel the tasks that still run, and wait for their end."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
