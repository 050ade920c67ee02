"""Steps: what a worker does beside its jobs, each in a task that is kept, watched and ended with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Steps:
    """The background tasks of one worker. failed: told the exception of a step that failed."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = False

    def spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Do it in a task."""
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # Steps that end() cancels may end in whatever their driver makes of it; nothing is lost with them.
        if not task.cancelled() and not self._ending and (error := task.exception()) is not None:
            self._failed(error)

    async def end(self) -> None:
        """Cancel what is still under way."""
        self._ending = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
