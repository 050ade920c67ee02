"""SAQ on PostgreSQL."""

from __future__ import annotations

from typing import Any

from saq import Queue, Worker

from bench import probe
from bench.driver import Driver


async def noop(_ctx: Any, *, number: int) -> None:  # noqa: ANN401 - SAQ's context
    """The measured job."""
    probe.hit(number)


class Peer(Driver):
    """SAQ."""

    def _queue(self) -> Any:  # noqa: ANN401 - a PostgresQueue
        return Queue.from_url(self.url, min_size=4, max_size=20)

    async def install(self) -> None:
        """Connecting makes the tables."""
        await self.open()
        await self.close()

    async def open(self) -> None:
        """A pool."""
        self._opened = self._queue()
        await self._opened.connect()

    async def close(self) -> None:
        """Disconnect."""
        await self._opened.disconnect()

    async def enqueue(self, number: int) -> None:
        """One job."""
        await self._opened.enqueue("noop", number=number)

    async def work(self) -> None:
        """LISTEN, as by default."""
        queue = self._queue()
        await queue.connect()
        await Worker(queue, functions=[noop], concurrency=self.slots).start()


def make() -> Driver:
    """The driver."""
    return Peer()
