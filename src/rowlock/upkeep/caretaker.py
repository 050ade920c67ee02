"""Caretaker: does the duties that are due. Any process may; a compare-and-set row decides which one does this round."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseError
from rowlock.outage_log import Trouble
from rowlock.store.database import TRANSIENT
from rowlock.telemetry import Events, UpkeepDone
from rowlock.upkeep import duties
from rowlock.upkeep.cron import Cron

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rowlock.desk.submit import Submit
    from rowlock.flow.enqueue.wake import Waker
    from rowlock.flow.worker.heartbeat import News
    from rowlock.settings import Settings
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.upkeep")
SCHEDULES: Final = "schedules"
_WORTH_NOTING: Final = 5
"""Milliseconds; below it a round's duration is not worth a write."""


class Caretaker:
    """One per worker. Every statement is bounded and idempotent, so two winners of one round are harmless."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        waker: Waker,
        events: Events | None = None,
        submit: Submit | None = None,
    ) -> None:
        """submit: how the jobs of schedules are enqueued; without it none are."""
        self._database, self._events = database, events or Events()
        self._cron = None if submit is None else Cron(database, submit)
        self._round = duties.Round(database, settings, waker, self._events)
        self._busy = asyncio.Lock()
        self._troubles: dict[str, Trouble] = {}

    async def __call__(self, news: News) -> None:
        """Do what is due, one duty after the other; skipped while an earlier call is still at it.

        Schedules come first and wait for no other duty: their slots have a time.
        """
        if SCHEDULES in news.due:
            await self._guarded(SCHEDULES, self.fire())
        if self._busy.locked():
            return
        async with self._busy:
            for name in news.due:
                await self._guarded(name, self.run(name, news))

    async def _guarded(self, name: str, duty: Awaitable[object]) -> None:
        try:
            await duty
        except (DatabaseError, TimeoutError, *TRANSIENT) as error:
            self._troubles.setdefault(name, _trouble(name)).met(error)
        else:
            if self._troubles and (trouble := self._troubles.pop(name, None)) is not None:
                trouble.over()

    async def fire(self) -> int:
        """Fire the schedules that are due; returns the number of jobs."""
        return 0 if self._cron is None else await self._cron()

    async def run(self, name: str, news: News) -> int | None:
        """Run one duty if this process wins its round; returns how much it changed, None: another process won."""
        duty = duties.DUTIES.get(name)
        if duty is None or not await self._database.fetch("elect", name=name):
            return None
        began = time.monotonic()
        changed = await duty(self._round, news)
        took = round(1000 * (time.monotonic() - began))
        if took > _WORTH_NOTING:
            await self._database.fetch("duty_took", name=name, ms=took)
        if self._events.active:
            self._events.emit(UpkeepDone(name, changed, took / 1000))
        if changed:
            logger.info("%s: %d", name, changed)
        return changed


def _trouble(duty: str) -> Trouble:
    return Trouble(logger, f"{duty} is put off", f"{duty} is done again")
