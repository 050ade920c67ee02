"""A duty runner on a database, and a store to prepare and check with."""

from __future__ import annotations

import contextlib
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


class Desk:
    """A duty runner, and a store to prepare and look with."""

    def __init__(self, store: Store, runner: DutyRunner) -> None:
        self.store, self.runner = store, runner

    async def run(self, name: str, *, watched: timedelta = EVER) -> int | None:
        await self.store.execute("UPDATE {s}.duties SET last_run_at = '-infinity'")
        return await self.runner.run(name, await self.news(watched))

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
            yield Desk(store, DutyRunner(database, Settings(), waker))
        finally:
            await waker.flush()
            await database.close()
