"""Oban for Python, the free edition."""

from __future__ import annotations

from typing import Any, Final

from oban import Oban, worker
from oban.schema import install

from bench import probe
from bench.driver import Driver, terminated

_BATCH: Final = 1000


@worker(queue="default")
class Noop:
    """The measured job."""

    async def process(self, job: Any) -> None:  # noqa: ANN401 - Oban's Job
        """Run it."""
        probe.hit(job.args["number"])


def _new(number: int) -> Any:  # noqa: ANN401 - Oban's Job
    made: Any = Noop  # the decorator has added new() to it
    return made.new({"number": number})


class Peer(Driver):
    """Oban."""

    async def _pool(self) -> Any:  # noqa: ANN401 - a pool of psycopg's
        return await Oban.create_pool(self.url, min_size=1, max_size=10)

    async def install(self) -> None:
        """Make the tables."""
        pool = await self._pool()
        await install(pool)
        await pool.close()

    async def open(self) -> None:
        """A producer that takes part in no election."""
        self._producer_pool = await self._pool()
        self._oban = Oban(pool=self._producer_pool, leadership=False)
        await self._oban.start()

    async def close(self) -> None:
        """Disconnect."""
        await self._oban.stop()
        await self._producer_pool.close()

    async def enqueue(self, number: int) -> None:
        """One job."""
        await self._oban.enqueue(_new(number))

    async def enqueue_many(self, jobs: int) -> None:
        """enqueue_many, which inserts one by one."""
        for done in range(0, jobs, _BATCH):
            await self._oban.enqueue_many([_new(-1) for _ in range(min(_BATCH, jobs - done))])

    async def work(self) -> None:
        """One queue; everything else as it comes."""
        stop = terminated()
        async with Oban(pool=await self._pool(), queues={"default": self.slots}):
            await stop.wait()


def make() -> Driver:
    """The driver."""
    return Peer()
