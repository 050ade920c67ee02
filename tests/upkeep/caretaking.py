"""A caretaker on a database, and a store to prepare and check with."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.factories import Store, opened

from rowlock.flow.enqueue.wake import Waker
from rowlock.flow.worker.heartbeat import News
from rowlock.settings import Settings
from rowlock.store.database import Database
from rowlock.upkeep.caretaker import Caretaker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


EVER = timedelta(days=365)


class Desk:
    """A caretaker, and a store to prepare and look with."""

    def __init__(self, store: Store, caretaker: Caretaker) -> None:
        self.store, self.caretaker = store, caretaker

    async def run(self, name: str, *, watched: timedelta = EVER) -> int | None:
        await self.store.execute("UPDATE {s}.duties SET last_run_at = '-infinity'")
        return await self.caretaker.run(name, await self.news(watched))

    async def news(self, watched: timedelta = EVER, due: tuple[str, ...] = ()) -> News:
        return News(
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
async def caretaking(url: str) -> AsyncIterator[Desk]:
    database = Database(url)
    waker = Waker(database)
    async with opened(database) as store:
        try:
            yield Desk(store, Caretaker(database, Settings(), waker))
        finally:
            await waker.flush()
            await database.close()
