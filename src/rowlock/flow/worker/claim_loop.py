"""Rounds: claim, run, sleep until there is reason to look again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseError
from rowlock.flow.worker.registration import BACKOFF
from rowlock.outage_log import Trouble
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from rowlock.flow.claim.claimer import Claimer
    from rowlock.flow.worker.recycling import Wear
    from rowlock.flow.worker.slots import Crew
    from rowlock.model.lane import Lane
    from rowlock.store.database import Record

logger = logging.getLogger("rowlock.worker")
_IDLE_FROM: Final = 0.05
_IN_A_STREAM: Final = 0.002
"""Seconds to the next look while jobs come in a stream: faster than producers send wake-ups."""
_SOON: Final = 0.015
"""Seconds between jobs of a stream at most, and so how long one is waited for after the last."""
_POLL_ONLY: Final = 1.0
"""Seconds between polls at most when nothing can wake the worker."""


class Rounds:
    """The claiming half of a worker. `look` is set by whoever knows of a reason to claim."""

    def __init__(
        self,
        claimer: Claimer,
        crew: Crew,
        wear: Wear,
        *,
        name: str,
        lanes: Callable[[], Mapping[str, Lane]],
        wakeable: Callable[[], bool],
        look: asyncio.Event,
        random: Random,
    ) -> None:
        """lanes: those served now; wakeable: whether a message would come for every job."""
        self._claimer, self._crew, self._wear = claimer, crew, wear
        self.lanes, self._wakeable, self._random = lanes, wakeable, random
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._trouble = Trouble(logger, f"worker {name} cannot claim", f"worker {name} claims again")
        self._came = self._stream_until = 0.0
        self.draining = False
        """Claims nothing more."""
        self.doubts = 0
        """Rounds of disowning still to come because the answer to a claim was lost."""

    async def run(self) -> None:
        """Claim until draining."""
        idle = _IDLE_FROM
        while not self.draining:
            self._look.clear()
            try:
                rows = await self._claim_and_run()
            except (DatabaseError, *TRANSIENT) as error:
                self._trouble.met(error)
                await self._pause(BACKOFF[2] * (0.5 + self._random.random()))
                continue
            except Exception as error:  # noqa: BLE001 - whatever it was, a worker that stopped claiming would be worse
                self._trouble.met(error, unforeseen=True)
                await self._pause(BACKOFF[-1])
                continue
            if self._trouble.lasts:
                self._trouble.over()
            if self._is_worth_more():
                idle = _IDLE_FROM
                continue
            if not self._wanted():
                idle = _IDLE_FROM
                await self._look.wait()
                continue
            idle = self._rest(idle, len(rows))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(idle):
                    await self._look.wait()

    def _rest(self, before: float, rows: int) -> float:
        """Seconds until the next look, unless something asks for it."""
        now = self._loop.time()
        if rows > 1 or (rows and now - self._came < _SOON):
            self._stream_until = now + _SOON
        if rows:
            self._came = now
        if now < self._stream_until:
            return _IN_A_STREAM
        return _IDLE_FROM if rows else min(max(before, _IDLE_FROM / 2) * 2, self._poll_seconds())

    async def _claim_and_run(self) -> list[Record]:
        wanted = self._wanted()
        if not wanted:
            return []
        try:
            rows = await self._claimer.claim(wanted)
            if self._claimer.doubtful:
                self.doubts = 2
            if self.draining:
                for row in rows:
                    self._crew.give_back(row)
            elif taken := self._crew.take(rows):
                if self._is_worth_more():
                    # Begun in the loop's next turn: the next claim is under way by then.
                    self._loop.call_soon(self._crew.begin, taken)
                else:
                    self._crew.begin(taken)
            self._wear.count(len(rows))
        except BaseException:
            self.doubts = 2
            raise
        finally:
            self._claimer.in_flight = False
        return rows

    def _wanted(self) -> dict[str, int]:
        """How many jobs each lane could start now; lanes without a free slot are left out."""
        free = ((name, self._crew.free(name, lane.slots)) for name, lane in self.lanes().items() if lane.enabled)
        return {name: n for name, n in free if n > 0}

    def _is_worth_more(self) -> bool:
        """Whether a lane that is known to have more jobs has a free slot."""
        rich = self._claimer.rich
        return bool(rich) and not rich.isdisjoint(self._wanted())

    async def _pause(self, seconds: float) -> None:
        """Sleep, unless the worker is to stop."""
        until = self._loop.time() + seconds
        while not self.draining and (left := until - self._loop.time()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._look.wait()
            self._look.clear()

    def _poll_seconds(self) -> float:
        """How long to sleep at most: the shortest lane's interval, or a second while late commits may come."""
        lanes = self.lanes().values()
        shortest = min((lane.poll_interval.total_seconds() for lane in lanes if lane.enabled), default=5.0)
        return shortest if self._wakeable() else min(shortest, _POLL_ONLY)
