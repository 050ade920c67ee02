"""The producer of a deploy: python -m torture.deploy.producer NAME RATE. Older code asks for what it knows."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Final

from typing_extensions import override

from rowlock.errors import RowlockError
from torture import producer
from torture.deploy import app as deployed
from torture.jobs import app

LONG: Final = 30.0
"""Seconds of a job that is cancelled while it runs."""
RATED: Final = 5
"""Jobs of one call: more than the rate lets start at once."""


class Producer(producer.Producer):
    """The usual mixture, snoozes and cancels; with newer code also what older code does not know."""

    _running: int | None = None

    @override
    def calls(self) -> list[producer.Call]:
        usual = [*super().calls(), self._snoozes, self._cancel_waiting, self._cancel_running]
        if deployed.NEWER:
            return [*usual, self._rated, self._fresh, self._relay, self._diamond]
        newer = {"_chain", "_items"}
        return [call for call in usual if call.__name__ not in newer]

    @override
    async def run(self) -> None:
        await super().run()
        await self._cancel()

    async def _snoozes(self, tag: str) -> None:
        async def call() -> producer.Answer:
            return "acknowledged", [(await deployed.snoozes.enqueue(tag)).id]

        await self.ask(tag, "snoozes", call)

    async def _cancel_waiting(self, tag: str) -> None:
        async def call() -> producer.Answer:
            job = await deployed.dropped.options(run_in="1h").enqueue(tag, 0.0)
            await app.jobs.cancel(job.id)
            return "acknowledged", [job.id]

        await self.ask(tag, "dropped", call)

    async def _cancel_running(self, tag: str) -> None:
        """The job of the turn before, which runs by now."""
        await self._cancel()

        async def call() -> producer.Answer:
            self._running = (await deployed.dropped.enqueue(tag, LONG)).id
            return "acknowledged", [self._running]

        await self.ask(tag, "dropped", call)

    async def _cancel(self) -> None:
        job, self._running = self._running, None
        if job is not None:
            with contextlib.suppress(RowlockError):  # it would end by itself, which the checker will not overlook
                await app.jobs.cancel(job)

    async def _rated(self, tag: str) -> None:
        async def call() -> producer.Answer:
            return "acknowledged", [(await deployed.rated.enqueue(f"{tag}-{n}")).id for n in range(RATED)]

        await self.ask(tag, "rated", call)

    async def _fresh(self, tag: str) -> None:
        async def call() -> producer.Answer:
            return "acknowledged", [(await deployed.fresh.enqueue(tag)).id]

        await self.ask(tag, "fresh", call)

    async def _relay(self, tag: str) -> None:
        async def call() -> producer.Answer:
            return "acknowledged", list((await deployed.relay.enqueue(tag)).jobs.values())

        await self.ask(tag, "passed", call)

    async def _diamond(self, tag: str) -> None:
        async def call() -> producer.Answer:
            return "acknowledged", list((await deployed.diamond(tag).enqueue()).jobs.values())

        await self.ask(tag, "step", call)


if __name__ == "__main__":
    asyncio.run(producer.main(*sys.argv[1:], make=Producer))
