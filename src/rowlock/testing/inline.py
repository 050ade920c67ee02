"""InlineRunner: runs a job as soon as it is enqueued; where possible before the enqueue returns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from rowlock.testing.drain import Drainer


class InlineRunner:
    """Called by the application with every job that is committed."""

    def __init__(self, drainer: Drainer, block: Callable[[Coroutine[object, object, None]], None]) -> None:
        self._drainer, self._block = drainer, block
        self.raise_errors = False
        self._under_way: set[asyncio.Task[None]] = set()

    async def enqueued(self, ids: Sequence[int]) -> None:
        """On the caller's loop, before enqueue() returns."""
        await self._drainer.run(ids, raise_errors=self.raise_errors)

    def enqueued_sync(self, ids: Sequence[int]) -> None:
        """In the caller's thread, before enqueue_sync() returns."""
        self._block(self._drainer.run(ids, raise_errors=self.raise_errors))

    def committed(self, ids: Sequence[int]) -> None:
        """Right after a commit: at once in blocking code, soon on an event loop, which must not be blocked."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.enqueued_sync(ids)
            return
        task = loop.create_task(self.enqueued(ids))
        self._under_way.add(task)

    async def settled(self) -> None:
        """Wait for the jobs that were started after commits on this loop."""
        loop = asyncio.get_running_loop()
        while mine := [task for task in self._under_way if task.get_loop() is loop]:
            self._under_way.difference_update(mine)
            await asyncio.gather(*mine)
