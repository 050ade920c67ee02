"""A producer: python -m torture.producer NAME RATE. Enqueues a mixture until SIGTERM and writes down every answer."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random
from typing import Final

import asyncpg

from rowlock.errors import RowlockError
from torture import jobs
from torture.ledger import SEED, Asked

Answer = tuple[str, Sequence[int]]
Call = Callable[[str], Awaitable[None]]
# What asyncpg says of a connection whose server has just sent its last word is InternalClientError.
TROUBLE: Final = (
    RowlockError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
GATES: Final = ("red", "green")
KEYS: Final = ("north", "south")
LONG: Final = 1.0
"""Seconds of a job that is likely to be under way when something happens."""
KEEP_KEY: Final = os.environ.get("TORTURE_KEEP_KEY", "30 days")
"""How long an idempotency key is remembered."""
_PATIENCE: Final = 8.0
"""Seconds for one call."""


class Producer:
    """Asks for one job after the other."""

    def __init__(self, name: str, pause: float, seed: str = "0") -> None:
        self._name, self._pause = name, pause
        self._random = Random(f"{seed}:{name}")  # noqa: S311 - a mixture, no secret
        self._numbers = itertools.count(1)
        self._leaving = asyncio.Event()
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    def leave(self) -> None:
        """Ask for nothing more, once what is under way has an answer."""
        self._leaving.set()

    async def run(self) -> None:
        """One of everything, again and again, in an order that the seed decides."""
        for number, call in zip(self._numbers, self.mixture(), strict=False):
            if self._leaving.is_set():
                return
            await call(f"{self._name}-{number}")
            await self.rest(self._pause)

    async def rest(self, pause: float) -> None:
        """Between two calls."""
        await asyncio.sleep(pause)

    def mixture(self) -> Iterator[Call]:
        """One of everything, shuffled anew each time."""
        calls = self.calls()
        while True:
            self._random.shuffle(calls)
            yield from calls

    def calls(self) -> list[Call]:
        """What is asked for."""
        return [
            self._plain, self._gated, self._chain, self._unique, self._once, self._plain, self._commit, self._rollback,
            self._items, self._gated, self._flaky, self._thread, self._later, self._long,
        ]  # fmt: skip

    async def ask(self, tag: str, kind: str, call: Callable[[], Awaitable[Answer]], key: str = "") -> str:
        """Call, and write down the answer; returns it."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(_PATIENCE):
                answer, made = await call()
        except TROUBLE as error:
            why = f"{type(error).__name__}: {error}"[:300]
            now = time.monotonic()
            jobs.ledger.note(Asked(tag, kind, "unknown", now, None, key, why, now - began, jobs.CODE))
            await asyncio.sleep(0.2)
            return "unknown"
        now = time.monotonic()
        for job in made or (None,):
            jobs.ledger.note(Asked(tag, kind, answer, now, job, key, "", now - began, jobs.CODE))
        return answer

    async def _plain(self, tag: str) -> None:
        async def call() -> Answer:
            return "acknowledged", [(await jobs.plain.enqueue(tag)).id]

        await self.ask(tag, "plain", call)

    async def _long(self, tag: str) -> None:
        async def call() -> Answer:
            return "acknowledged", [(await jobs.plain.enqueue(tag, seconds=LONG)).id]

        await self.ask(tag, "plain", call)

    async def _gated(self, tag: str) -> None:
        gate = self._random.choice(GATES)

        async def call() -> Answer:
            return "acknowledged", [(await jobs.gated.enqueue(tag, gate)).id]

        await self.ask(tag, "gated", call)

    async def _unique(self, tag: str) -> None:
        key = self._random.choice(KEYS)

        async def call() -> Answer:
            asked = jobs.unique.options(unique_key=key, on_conflict="keep")
            return "acknowledged", [(await asked.enqueue(tag)).id]

        await self.ask(tag, "unique", call)

    async def _once(self, tag: str) -> None:
        async def call() -> Answer:
            asked = jobs.once.options(idempotency_key=tag, keep_key=KEEP_KEY)
            return "acknowledged", [(await asked.enqueue(tag)).id]

        await self.ask(tag, "once", call, key=tag)
        # Again, as a client does that has no answer: until there is one.
        while await self.ask(tag, "once", call, key=tag) == "unknown" and not self._leaving.is_set():
            pass

    async def _later(self, tag: str) -> None:
        async def call() -> Answer:
            return "acknowledged", [(await jobs.later.options(run_in=jobs.LATER).enqueue(tag)).id]

        await self.ask(tag, "later", call)

    async def _flaky(self, tag: str) -> None:
        async def call() -> Answer:
            return "acknowledged", [(await jobs.flaky.enqueue(tag)).id]

        await self.ask(tag, "flaky", call)

    async def _items(self, tag: str) -> None:
        async def call() -> Answer:
            return "acknowledged", [(await jobs.items.enqueue(tag)).id]

        await self.ask(tag, "items", call)

    async def _thread(self, tag: str) -> None:
        async def call() -> Answer:
            return "acknowledged", [(await jobs.thread.enqueue(tag)).id]

        await self.ask(tag, "thread", call)

    async def _chain(self, tag: str) -> None:
        async def call() -> Answer:
            started = await jobs.pipeline.enqueue(tag)
            return "acknowledged", list(started.jobs.values())

        await self.ask(tag, "step", call)

    async def _commit(self, tag: str) -> None:
        async def call() -> Answer:
            connection = await self._own()
            async with connection.transaction():
                job = (await jobs.joined.options(connection=connection).enqueue(tag)).id
            return "acknowledged", [job]

        await self.ask(tag, "joined", call)

    async def _rollback(self, tag: str) -> None:
        async def call() -> Answer:
            connection = await self._own()
            transaction = connection.transaction()
            await transaction.start()
            try:
                await jobs.joined.options(connection=connection).enqueue(tag)
            finally:
                await transaction.rollback()
            return "rolled back", []

        if await self.ask(tag, "joined", call) == "unknown":
            # No commit was sent, so whatever went wrong, it is rolled back.
            jobs.ledger.note(Asked(tag, "joined", "rolled back", time.monotonic()))

    async def _own(self) -> asyncpg.Connection[asyncpg.Record]:
        connection = self._connection
        if connection is None or connection.is_closed() or connection.is_in_transaction():
            if connection is not None:
                connection.terminate()
            cached = 0 if jobs.app.settings.pooled else 100
            url = os.environ["ROWLOCK_DATABASE_URL"]
            connection = self._connection = await asyncpg.connect(url, timeout=5, statement_cache_size=cached)
        return connection


async def main(name: str, rate: str, *, make: Callable[[str, float, str], Producer] = Producer) -> None:
    """Until SIGTERM."""
    producer = make(name, 1 / float(rate), os.environ.get(SEED, "0"))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, producer.leave)
    await producer.run()
    await jobs.app.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
