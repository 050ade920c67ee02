"""ClaimLoop: claims jobs, has them run, and sleeps until there is a reason to claim again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseError
from rowlock.flow.worker.registration import BACKOFF
from rowlock.outage_log import OutageLog
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from rowlock.flow.claim.claimer import Claimer
    from rowlock.flow.worker.recycling import Recycling
    from rowlock.flow.worker.slots import Slots
    from rowlock.model.lane import Lane
    from rowlock.store.database import Record

logger = logging.getLogger("rowlock.worker")
_IDLE_FROM: Final = 0.05
_IN_A_STREAM: Final = 0.002
"""Seconds to the next claim while jobs come in a stream: less than between two wake-ups of a producer."""
_SOON: Final = 0.015
"""Seconds between two jobs of a stream at most; so long the next one is waited for."""
_POLL_ONLY: Final = 1.0
"""Seconds between two claims at most while no message can wake the worker."""


class ClaimLoop:
    """The claiming half of a worker."""

    def __init__(
        self,
        claimer: Claimer,
        slots: Slots,
        recycling: Recycling,
        *,
        name: str,
        lanes: Callable[[], Mapping[str, Lane]],
        wakeable: Callable[[], bool],
        claim_now: asyncio.Event,
        random: Random,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        """lanes: those served now; wakeable: whether a message comes for every job; claim_now: ends a sleep.

        on_idle: called before each sleep with free slots.
        """
        self._claimer, self._slots, self._recycling = claimer, slots, recycling
        self.lanes, self._wakeable, self._random = lanes, wakeable, random
        self._claim_now, self._on_idle = claim_now, on_idle
        self._loop = asyncio.get_running_loop()
        self._outage = OutageLog(logger, f"worker {name} cannot claim", f"worker {name} claims again")
        self._came = self._stream_until = 0.0
        self.draining = False
        """Set to end run() and to give back the jobs of a claim under way."""

    async def run(self) -> None:
        """Claim until the worker drains."""
        idle = _IDLE_FROM
        while not self.draining:
            self._claim_now.clear()
            try:
                rows = await self._claim_and_run()
            except (DatabaseError, *TRANSIENT) as error:
                self._outage.failed(error)
                await self._pause(BACKOFF[2] * (0.5 + self._random.random()))
                continue
            except Exception as error:  # noqa: BLE001 - a worker that stopped claiming would be worse
                self._outage.failed(error, unforeseen=True)
                await self._pause(BACKOFF[-1])
                continue
            if self._outage.ongoing:
                self._outage.recovered()
            if self._has_more():
                idle = _IDLE_FROM
                continue
            if not self._wanted():
                idle = _IDLE_FROM
                await self._claim_now.wait()
                continue
            idle = self._rest(idle, len(rows))
            self._on_idle()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(idle):
                    await self._claim_now.wait()

    def _rest(self, before: float, rows: int) -> float:
        """Seconds to sleep unless claim_now ends the sleep. before: the last sleep; rows: jobs of the last claim."""
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
        began = self._loop.time()
        with self._claimer.in_flight.sending():
            rows = await self._claimer.claim(wanted)
            if self.draining:
                for row in rows:
                    self._slots.give_back(row)
            elif attempts := self._slots.occupy(rows, began):
                if self._has_more():
                    # Started in the loop's next turn: the next claim is under way by then.
                    self._loop.call_soon(self._slots.start_attempts, attempts)
                else:
                    self._slots.start_attempts(attempts)
            self._recycling.count(len(rows))
        return rows

    def _wanted(self) -> dict[str, int]:
        """Free slots by lane; lanes without one are left out."""
        free = ((name, self._slots.free(name, lane.slots)) for name, lane in self.lanes().items() if lane.enabled)
        return {name: n for name, n in free if n > 0}

    def _has_more(self) -> bool:
        """Whether a lane with a backlog has a free slot."""
        backlogged = self._claimer.backlogged
        return bool(backlogged) and not backlogged.isdisjoint(self._wanted())

    async def _pause(self, seconds: float) -> None:
        """Sleep for so long, or until the worker drains."""
        until = self._loop.time() + seconds
        while not self.draining and (left := until - self._loop.time()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._claim_now.wait()
            self._claim_now.clear()

    def _poll_seconds(self) -> float:
        """The longest sleep: the shortest poll interval of the lanes, or a second while no message can end it."""
        lanes = self.lanes().values()
        shortest = min((lane.poll_interval.total_seconds() for lane in lanes if lane.enabled), default=5.0)
        return shortest if self._wakeable() else min(shortest, _POLL_ONLY)
