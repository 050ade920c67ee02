"""Cancelling: a producer that cancels one job while it waits, another while it runs."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, Final

from typing_extensions import override

from rowlock.errors import RowlockError
from torture import producer
from torture.jobs import app

LONG: Final = 30.0
"""Seconds of a job that is cancelled while it runs."""


class Cancelling(producer.Producer):
    """The usual mixture, and jobs that are not wanted any more."""

    dropped: ClassVar[Any]
    """The task of those jobs: takes a tag and how long it would run, in seconds."""
    _running: int | None = None

    @override
    def calls(self) -> list[producer.Call]:
        return [*super().calls(), self._cancel_waiting, self._cancel_running]

    @override
    async def run(self) -> None:
        await super().run()
        await self._cancel()

    async def _cancel_waiting(self, tag: str) -> None:
        async def call() -> producer.Answer:
            job = await self.dropped.options(run_in="1h").enqueue(tag, 0.0)
            await app.jobs.cancel(job.id)
            return "acknowledged", [job.id]

        await self.ask(tag, "dropped", call)

    async def _cancel_running(self, tag: str) -> None:
        """The job of the turn before, which runs by now."""
        await self._cancel()

        async def call() -> producer.Answer:
            self._running = (await self.dropped.enqueue(tag, LONG)).id
            return "acknowledged", [self._running]

        await self.ask(tag, "dropped", call)

    async def _cancel(self) -> None:
        job, self._running = self._running, None
        if job is not None:
            with contextlib.suppress(RowlockError):  # it would end by itself, which the checker will not overlook
                await app.jobs.cancel(job)
