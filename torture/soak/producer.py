"""The producer of a soak: python -m torture.soak.producer NAME RATE. The usual mixture, cancels, failures, reports."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import Final

from typing_extensions import override

from rowlock.errors import RowlockError
from torture import producer
from torture.jobs import app
from torture.soak import app as soaked

LONG: Final = 30.0
"""Seconds of a job that is cancelled while it runs."""


class Producer(producer.Producer):
    """Cancels one job while it waits, another while it runs."""

    _running: int | None = None
    _due = 0.0
    """When the next call is to be made, on the monotonic clock."""

    @override
    def calls(self) -> list[producer.Call]:
        return [*super().calls(), self._doomed, self._cancel_waiting, self._reports, self._cancel_running]

    @override
    async def run(self) -> None:
        await super().run()
        await self._cancel()

    @override
    async def rest(self, pause: float) -> None:
        """A call that took long shortens it: what is asked for must not depend on how soon answers come."""
        now = time.monotonic()
        self._due = max(self._due + pause, now)
        await asyncio.sleep(self._due - now)

    async def _doomed(self, tag: str) -> None:
        async def call() -> producer.Answer:
            return "acknowledged", [(await soaked.doomed.enqueue(tag)).id]

        await self.ask(tag, "doomed", call)

    async def _reports(self, tag: str) -> None:
        async def call() -> producer.Answer:
            return "acknowledged", [(await soaked.reports.enqueue(tag)).id]

        await self.ask(tag, "reports", call)

    async def _cancel_waiting(self, tag: str) -> None:
        async def call() -> producer.Answer:
            job = await soaked.dropped.options(run_in="1h").enqueue(tag, 0.0)
            await app.jobs.cancel(job.id)
            return "acknowledged", [job.id]

        await self.ask(tag, "dropped", call)

    async def _cancel_running(self, tag: str) -> None:
        """The job of the turn before, which runs by now."""
        await self._cancel()

        async def call() -> producer.Answer:
            self._running = (await soaked.dropped.enqueue(tag, LONG)).id
            return "acknowledged", [self._running]

        await self.ask(tag, "dropped", call)

    async def _cancel(self) -> None:
        job, self._running = self._running, None
        if job is not None:
            with contextlib.suppress(RowlockError):  # it would end by itself, which the checker will not overlook
                await app.jobs.cancel(job)


if __name__ == "__main__":
    asyncio.run(producer.main(*sys.argv[1:], make=Producer))
