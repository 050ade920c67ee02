"""Clock: lets time pass at once. The database's clock cannot be moved, so every stored moment moves back instead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from rowlock.errors import InvalidOption
from rowlock.flow.enqueue.wake import Waker
from rowlock.flow.worker.heartbeat import CompletedBeat
from rowlock.model.queue_pair import pair_of
from rowlock.model.times.duration import humanise
from rowlock.store.database import TRANSIENT
from rowlock.testing import scratch_databases
from rowlock.upkeep.duties import DUTIES
from rowlock.upkeep.duty_runner import DutyRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.app import Rowlock

_FOREVER: Final = timedelta(days=36_500)
_LAST: Final = timedelta(seconds=30)
"""A long journey stops this long before its end, so that upkeep runs there and what it writes can age."""
_NOTHING: Final = timedelta(0)
_TRIES: Final = 5


class Clock:
    """The time of one test's database."""

    def __init__(self, app: Rowlock) -> None:
        self._app = app
        self.travelled = _NOTHING
        """All journeys together."""

    @property
    def now(self) -> datetime:
        """The real time plus all journeys."""
        return datetime.now(UTC) + self.travelled

    async def travel(self, span: timedelta, ghosts: Sequence[int]) -> None:
        """Let span pass. ghosts: workers that sent no heartbeat meanwhile."""
        if span < _NOTHING:
            message = f"Time only goes forward here; {humanise(-span)} into the past were asked for."
            raise InvalidOption(message)
        await self._app.schedules.declare()
        database = self._app.database()
        rest = span
        if (await database.fetch("any_running"))[0]["found"]:
            rest = min(span / 2, _LAST)
            await self._pass(span - rest, ghosts)
        await self._pass(rest, ghosts)

    async def _pass(self, span: timedelta, ghosts: Sequence[int]) -> None:
        database = self._app.database()
        for left in range(_TRIES, 0, -1):
            try:
                await scratch_databases.shift(database, span, ghosts)
                break
            except TRANSIENT:
                # A worker of the test's own may be writing to the same rows.
                if left == 1:
                    raise
        self.travelled += span
        await self._upkeep()

    async def _upkeep(self) -> None:
        """Run every duty once, then wake the workers of this test."""
        database = self._app.database()
        waker = Waker(database)
        duties = DutyRunner(database, self._app.settings, waker, submit=self._app.submit)
        beat = CompletedBeat(self.now, True, 0, 0, (), (), tuple(DUTIES), _FOREVER)  # noqa: FBT003 - a row's columns in order
        while await database.fetch(
            "rescue_travelled", max_losses=self._app.settings.max_losses, channel=database.channel
        ):
            pass
        for duty in DUTIES:
            await duties.run(duty, beat)
        await duties.fire()
        heads = await database.fetch("heads")
        waker.wake((pair_of(row), row["low_water"]) for row in heads)
        await waker.flush()

    async def until_next(self) -> timedelta | None:
        """The time until the next job or schedule is due, 0 if one is due now; None: none of a known kind waits."""
        await self._app.schedules.declare()
        database, kinds = self._app.database(), list(self._app.handlers)
        found = await database.fetch("next_due", kinds=kinds, without=[])
        found += await database.fetch("next_schedule", kinds=kinds)
        return min((max(_NOTHING, row["wait"]) for row in found), default=None)
