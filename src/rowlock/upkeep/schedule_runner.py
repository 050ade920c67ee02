"""ScheduleRunner: enqueues the jobs of schedules that are due; each slot gets its job once over all processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from rowlock.errors import DatabaseError, UnknownKind, WriteRefused
from rowlock.flow.worker.registration import until_served
from rowlock.model import ids
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection
    from contextlib import AbstractAsyncContextManager

    from rowlock.desk.schedule_fire import Fired
    from rowlock.desk.schedules import Schedules
    from rowlock.desk.submit import Submit
    from rowlock.model.schedule import Schedule
    from rowlock.store.database import Database, Record

logger = logging.getLogger("rowlock.schedules")


class ScheduleRunner:
    """Fires the schedules for one worker."""

    def __init__(self, database: Database, submit: Submit) -> None:
        self._database, self._submit = database, submit
        self._busy = asyncio.Lock()

    async def __call__(self) -> int:
        """Fire the due schedules; returns the number of jobs, 0 at once while an earlier call runs."""
        if self._busy.locked():
            return 0
        async with self._busy:
            return await self._fire_due()

    async def _fire_due(self) -> int:
        rows = await self._database.fetch("schedules_due", kinds=list(self._submit.kinds))
        # Every worker beats at the moment of a slot; all but one are not elected.
        if not rows or not await self._database.fetch("elect", name="schedules"):
            return 0
        return sum([await self._fire(row) for row in rows])

    async def _fire(self, row: Record) -> int:
        """Fire one schedule; a failure is logged, holds up no other schedule, and is tried again with the next beat."""
        # Imports calendars and time zones, and most workers fire no schedule.
        from rowlock.desk.schedule_fire import fire  # noqa: PLC0415
        from rowlock.model.schedule import due_slots  # noqa: PLC0415
        from rowlock.store.rows.schedules import schedule_of  # noqa: PLC0415

        name = row["name"]
        try:
            schedule = schedule_of(row)
            fired = await fire(self._database, self._submit, schedule, due_slots(schedule, row["now"]))
        except UnknownKind as error:
            logger.warning("the schedule %s is due, and this worker does not know its kind: %s", name, error)
        except (WriteRefused, *TRANSIENT) as error:
            logger.warning("the schedule %s is put off: %s", name, error)
        except DatabaseError:
            raise
        except Exception:
            # From a middleware of the application, or a row that was written by hand: the other schedules are due.
            logger.exception("the schedule %s cannot be fired", name)
        else:
            _log(schedule, fired)
            return 0 if fired is None else len(fired.jobs)
        return 0


def _log(schedule: Schedule, fired: Fired | None) -> None:
    if fired is None:
        return
    if fired.jobs:
        logger.info("◷ %s: %s", schedule.name, ids.listed(fired.jobs, 5))
    if fired.left_out is not None:
        logger.warning("the schedule %s left out its run of %s: %s", schedule.name, fired.left_out, fired.why)


def declaring(
    schedules: Callable[[], Schedules | None],
    scope: Callable[[Collection[str] | None], AbstractAsyncContextManager[object]],
) -> Callable[[Collection[str] | None], AbstractAsyncContextManager[object]]:
    """The scope of a worker that first writes the schedules of its code. schedules: returns None if there are none."""

    async def declare() -> None:
        declared = schedules()
        for written in await declared.declare() if declared is not None else ():
            logger.info("the schedule %s is as the code says: %s %s", written.name, written.when, written.tz)

    @contextlib.asynccontextmanager
    async def entered(kinds: Collection[str] | None) -> AsyncIterator[object]:
        await until_served("(its schedules)", declare)
        async with scope(kinds) as state:
            yield state

    return entered
