"""Chancy: claims in batches, reports ends once a second."""

from __future__ import annotations

import logging
from typing import Any, Final

from chancy import Chancy, Job, Queue, Worker

from bench import probe
from bench.driver import Driver

_BATCH: Final = 1000
logger = logging.getLogger("chancy")
logger.setLevel(logging.WARNING)


async def noop(number: int) -> None:
    """The measured job; found by its import path."""
    probe.hit(number)


class Peer(Driver):
    """Chancy."""

    def _app(self) -> Any:  # noqa: ANN401 - a Chancy
        return Chancy(self.url, log=logger)

    async def install(self) -> None:
        """Make the tables and the queue."""
        executor = Chancy.Executor.Async
        queue = Queue("default", concurrency=self.slots, executor=executor, polling_interval=1, eager_polling=True)
        async with self._app() as app:
            await app.migrate()
            await app.declare(queue, upsert=True)

    async def open(self) -> None:
        """A pool."""
        self._opened = self._app()
        await self._opened.__aenter__()
        self._job = Job.from_func(noop)

    async def close(self) -> None:
        """Disconnect."""
        await self._opened.__aexit__(None, None, None)

    async def enqueue(self, number: int) -> None:
        """One job."""
        await self._opened.push(self._job.with_kwargs(number=number))

    async def enqueue_many(self, jobs: int) -> None:
        """push_many, which inserts one by one inside a transaction."""
        many = [self._job.with_kwargs(number=-1)] * jobs
        async for _ in self._opened.push_many(many, batch_size=_BATCH):
            pass

    async def work(self) -> None:
        """Default plugins and intervals."""
        async with self._app() as app, Worker(app) as worker:
            await worker.wait_for_shutdown()


def make() -> Driver:
    """The driver."""
    return Peer()
