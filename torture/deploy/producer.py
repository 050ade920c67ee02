"""The producer of a deploy: python -m torture.deploy.producer NAME RATE. Older code asks for what it knows."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from typing_extensions import override

from torture import producer
from torture.cancelling import Cancelling
from torture.deploy import app as deployed

RATED: Final = 5
"""Jobs of one call: more than the rate lets start at once."""


class Producer(Cancelling):
    """The usual mixture, snoozes and cancels; with newer code also what older code does not know."""

    dropped = deployed.dropped

    @override
    def calls(self) -> list[producer.Call]:
        usual = [*super().calls(), self._snoozes]
        if deployed.NEWER:
            return [*usual, self._rated, self._fresh, self._relay, self._diamond]
        newer = {"_chain", "_items"}
        return [call for call in usual if call.__name__ not in newer]

    async def _snoozes(self, tag: str) -> None:
        async def call() -> producer.Answer:
            return "acknowledged", [(await deployed.snoozes.enqueue(tag)).id]

        await self.ask(tag, "snoozes", call)

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
