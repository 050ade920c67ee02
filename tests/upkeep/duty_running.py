"""A duty runner on a database, and a store to prepare and check with."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.factories import Store, opened

from rowlock.flow.enqueue.wake import Waker
from rowlock.flow.worker.heartbeat import CompletedBeat
from rowlock.settings import Settings
from rowlock.store.database import Database
from rowlock.upkeep.duty_runner import DutyRunner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


EVER = timedelta(days=365)


class AheadClock:
    """A monotonic clock that a test can put forward."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class Desk:
    """A duty runner, and a store to prepare and look with."""

    def __init__(self, store: Store, runner: DutyRunner, clock: AheadClock) -> None:
        self.store, self.runner, self._clock = store, runner, clock

    async def run(self, name: str, *, watched: timedelta = EVER) -> int | None:
        await self.store.execute("UPDATE {s}.duties SET last_run_at = '-infinity'")
        return await self.runner.run(name, await self.news(watched))

    def hurry(self) -> None:
        """Let the pauses of jobs that a duty has set aside be over."""
        self._clock.ahead += 100

    async def news(self, watched: timedelta = EVER, due: tuple[str, ...] = ()) -> CompletedBeat:
        return CompletedBeat(
            now=await self.store.clock(),
            known=True,
            lanes_version=0,
            sweep_epoch=0,
            cancelled=(),
            lost=(),
            due=due,
            watched=watched,
        )


@contextlib.asynccontextmanager
async def duty_runner(url: str) -> AsyncIterator[Desk]:
    database = Database(url)
    waker = Waker(database)
    async with opened(database) as store:
        try:
            clock = AheadClock()
            yield Desk(store, DutyRunner(database, Settings(), waker, monotonic=clock), clock)
        finally:
            await waker.flush()
            await database.close()
