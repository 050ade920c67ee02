"""Procrastinate: one job per claim."""

from __future__ import annotations

from typing import Any, Final

import procrastinate

from bench import probe
from bench.driver import Driver

_BATCH: Final = 1000


class Peer(Driver):
    """Procrastinate."""

    def _app(self) -> Any:  # noqa: ANN401 - procrastinate.App
        connector = procrastinate.PsycopgConnector(conninfo=self.url, min_size=4, max_size=20)
        app = procrastinate.App(connector=connector)

        @app.task(name="noop", queue="noop")
        async def noop(number: int) -> None:
            probe.hit(number)

        self._noop = noop
        return app

    async def install(self) -> None:
        """Make the tables."""
        app = self._app()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        """A pool."""
        self._opened = self._app()
        await self._opened.open_async()

    async def close(self) -> None:
        """Disconnect."""
        await self._opened.close_async()

    async def enqueue(self, number: int) -> None:
        """One job."""
        await self._noop.defer_async(number=number)

    async def enqueue_many(self, jobs: int) -> None:
        """Batches."""
        item: dict[str, Any] = {"number": -1}
        for done in range(0, jobs, _BATCH):
            await self._noop.batch_defer_async(*[item] * min(_BATCH, jobs - done))

    async def work(self) -> None:
        """History is kept, as by default."""
        app = self._app()
        async with app.open_async():
            await app.run_worker_async(concurrency=self.slots, delete_jobs="never", listen_notify=True)


def make() -> Driver:
    """The driver."""
    return Peer()
