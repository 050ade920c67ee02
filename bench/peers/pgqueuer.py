"""PgQueuer: batched claims, buffered batched completions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import asyncpg
from pgqueuer import PgQueuer, Queries
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver, AsyncpgPoolDriver

from bench import probe
from bench.driver import Driver, terminated

_BATCH: Final = 1000


class Peer(Driver):
    """PgQueuer."""

    async def install(self) -> None:
        """Make the tables."""
        connection = await asyncpg.connect(self.url)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        """A pool."""
        self._pool = await asyncpg.create_pool(self.url, min_size=1, max_size=10)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))

    async def close(self) -> None:
        """Disconnect."""
        await self._pool.close()

    async def enqueue(self, number: int) -> None:
        """One job."""
        await self._queries.enqueue("noop", str(number).encode(), 0)

    async def enqueue_many(self, jobs: int) -> None:
        """Arrays."""
        for done in range(0, jobs, _BATCH):
            size = min(_BATCH, jobs - done)
            await self._queries.enqueue(["noop"] * size, [b"-1"] * size, [0] * size)

    async def work(self) -> None:
        """batch_size is the number of slots."""
        pool = await asyncpg.create_pool(self.url, min_size=2, max_size=10)
        queuer = PgQueuer.from_asyncpg_pool(pool)

        @queuer.entrypoint("noop")
        async def noop(job: Any) -> None:  # noqa: ANN401 - PgQueuer's Job
            probe.hit(int(job.payload))

        queuer.shutdown = terminated()
        await queuer.run(batch_size=self.slots, dequeue_timeout=timedelta(seconds=30))


def make() -> Driver:
    """The driver."""
    return Peer()
