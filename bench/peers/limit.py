"""Not a peer: what PostgreSQL and the driver can do at all. Batches are claimed and finished; nothing is run."""

from __future__ import annotations

import json
from typing import Final

import asyncpg

from bench import probe
from bench.driver import Driver, terminated
from bench.peers.minimal import CLAIM, FINISH, TABLE, worker_id

_COPIED: Final = 10_000


class Limit(Driver):
    """The raw loop on one connection."""

    async def install(self) -> None:
        """Make the table."""
        connection = await asyncpg.connect(self.url)
        await connection.execute(TABLE)
        await connection.close()

    async def open(self) -> None:
        """One connection."""
        self._connection = await asyncpg.connect(self.url)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def enqueue(self, number: int) -> None:
        """A bare INSERT, nobody is told."""
        await self._connection.fetch(
            "INSERT INTO jobs (args) VALUES ($1::jsonb) RETURNING id", json.dumps({"number": number})
        )

    async def enqueue_many(self, jobs: int) -> None:
        """COPY, which returns no ids."""
        records = [(json.dumps({"number": probe.UNNUMBERED}),)]
        for done in range(0, jobs, _COPIED):
            await self._connection.copy_records_to_table(
                "jobs", columns=["args"], records=records * min(_COPIED, jobs - done)
            )

    async def work(self) -> None:
        """Claim a batch, finish a batch."""
        connection = await asyncpg.connect(self.url)
        claim, finish = await connection.prepare(CLAIM), await connection.prepare(FINISH)
        stop = terminated()
        while not stop.is_set():
            rows = await claim.fetch(worker_id(), self.slots)
            if not rows:
                await stop.wait()
                break
            probe.hit(hits=len(rows))
            await finish.fetch([row["id"] for row in rows], [row["attempt"] for row in rows])
        await connection.close()


def make() -> Driver:
    """The driver."""
    return Limit()
