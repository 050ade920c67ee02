"""The producer of a soak: python -m torture.soak.producer NAME RATE. The usual mixture, cancels, failures, reports."""

from __future__ import annotations

import asyncio
import sys
import time

from typing_extensions import override

from torture import producer
from torture.cancelling import Cancelling
from torture.soak import app as soaked


class Producer(Cancelling):
    """With jobs that fail for good, and such that report."""

    dropped = soaked.dropped
    _due = 0.0
    """When the next call is to be made, on the monotonic clock."""

    @override
    def calls(self) -> list[producer.Call]:
        return [*super().calls(), self._doomed, self._reports]

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


if __name__ == "__main__":
    asyncio.run(producer.main(*sys.argv[1:], make=Producer))
