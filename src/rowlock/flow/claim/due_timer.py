"""DueTimer: has a worker claim at the moment when scheduled jobs become due, as no message comes for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable
    from datetime import datetime

    from rowlock.flow.claim.db_clock import DatabaseClock

_HORIZON: Final = 60.0
"""Seconds. Jobs that are due later are announced by a sweep before their time."""
_RESOLUTION: Final = 0.01
"""Seconds. One claim serves all jobs that become due within them."""


class DueTimer:
    """Sets `claim_now` at the given moments of the database's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: DatabaseClock, claim_now: asyncio.Event) -> None:
        self._loop, self._clock, self._claim_now = loop, clock, claim_now
        self._ticks: set[int] = set()
        """Loop times that have a timer, in units of the resolution."""

    def at(self, moments: Iterable[datetime]) -> None:
        """Have a claim made at each moment within the next minute, and now for a moment that is past."""
        for ahead in map(self._clock.seconds_until, moments):
            if ahead <= 0:
                self._claim_now.set()
            elif ahead < _HORIZON:
                tick = int((self._loop.time() + ahead + 0.002) / _RESOLUTION) + 1
                if tick not in self._ticks:
                    self._ticks.add(tick)
                    self._loop.call_at(tick * _RESOLUTION, self._fire, tick)

    def _fire(self, tick: int) -> None:
        self._ticks.discard(tick)
        self._claim_now.set()
