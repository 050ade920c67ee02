"""DutyRunner: runs the duties that are due. A compare-and-set row elects the one process that runs a duty now."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseError
from rowlock.flow.claim.refused_rows import RefusedRows
from rowlock.outage_log import OutageLog
from rowlock.set_aside import RowName, SetAside
from rowlock.store.database import TRANSIENT
from rowlock.telemetry import Events, UpkeepDone
from rowlock.upkeep.duties import DUTIES
from rowlock.upkeep.duty import DutyContext
from rowlock.upkeep.schedule_runner import ScheduleRunner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowlock.desk.submit import Submit
    from rowlock.flow.enqueue.wake import Waker
    from rowlock.flow.worker.heartbeat import CompletedBeat
    from rowlock.settings import Settings
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.upkeep")
SCHEDULES: Final = "schedules"
_WORTH_NOTING: Final = 5
"""Milliseconds; a shorter run of a duty is not worth writing down."""


class DutyRunner:
    """The upkeep of one worker. Duties are idempotent, so two processes that run one at once do no harm."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        waker: Waker,
        events: Events | None = None,
        submit: Submit | None = None,
        *,
        set_aside: SetAside | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        deliver: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        """submit: enqueues the jobs of schedules; None: none is fired. set_aside: notes jobs that make a duty fail.

        deliver: tells carriers of jobs that wait for a message; None: there are none.
        """
        self._deliver = deliver
        self._database, self._events = database, events or Events()
        self._schedule_runner = None if submit is None else ScheduleRunner(database, submit)
        noted = SetAside(logger) if set_aside is None else set_aside
        database.warnings.note_in(noted)
        refused = RefusedRows[RowName](noted, monotonic)
        self._context = DutyContext(database, settings, waker, self._events, refused, monotonic)
        self._busy = asyncio.Lock()
        self._outages: dict[str, OutageLog] = {}

    async def __call__(self, beat: CompletedBeat) -> None:
        """Run the due duties, one after the other; returns at once while an earlier call runs them.

        Schedules come first and wait for no other duty: they have a time.
        """
        if SCHEDULES in beat.due:
            await self._guarded(SCHEDULES, self.fire())
        if self._busy.locked():
            return
        async with self._busy:
            for name in beat.due:
                await self._guarded(name, self.run(name, beat))
            if self._deliver is not None:
                # Last, so that what the other duties put back into the queue is delivered at once.
                await self._guarded("deliver", self._deliver())

    async def _guarded(self, name: str, duty: Awaitable[object]) -> None:
        try:
            await duty
        except (DatabaseError, TimeoutError, *TRANSIENT) as error:
            self._outages.setdefault(name, _outage(name)).failed(error)
        except Exception as error:  # noqa: BLE001 - the other duties must be done
            self._outages.setdefault(name, _outage(name)).failed(error, unforeseen=True)
        else:
            if self._outages and (outage := self._outages.pop(name, None)) is not None:
                outage.recovered()

    async def fire(self) -> int:
        """Fire the schedules that are due; returns the number of jobs they enqueued."""
        return 0 if self._schedule_runner is None else await self._schedule_runner()

    async def run(self, name: str, beat: CompletedBeat) -> int | None:
        """Run one duty if this process is elected; returns how many rows it changed, None: not elected."""
        duty = DUTIES.get(name)
        if duty is None or not await self._database.fetch("elect", name=name):
            return None
        began = time.monotonic()
        changed = await duty(self._context, beat)
        took = round(1000 * (time.monotonic() - began))
        if took > _WORTH_NOTING:
            await self._database.fetch("duty_took", name=name, ms=took)
        if self._events.active:
            self._events.emit(UpkeepDone(name, changed, took / 1000))
        if changed:
            logger.info("%s: %d", name, changed)
        return changed


def _outage(duty: str) -> OutageLog:
    return OutageLog(logger, f"{duty} is put off", f"{duty} is done again")
