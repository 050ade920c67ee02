"""Alarm: look again when jobs become due that no message will tell of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable
    from datetime import datetime

    from rowlock.flow.claim.db_clock import Clock

_HORIZON: Final = 60.0
"""Seconds; what is due later is told of by the sweep."""
_APART: Final = 0.01
"""Seconds: one look serves all that is due within them."""


class Alarm:
    """Sets `look` at the given moments of the database's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, look: asyncio.Event) -> None:
        self._loop, self._clock, self._look = loop, clock, look
        self._set: set[int] = set()

    def at(self, moments: Iterable[datetime]) -> None:
        """For jobs due within a minute look again at that moment; what is due already is worth a look now."""
        for ahead in map(self._clock.ahead, moments):
            if ahead <= 0:
                self._look.set()
            elif ahead < _HORIZON:
                when = int((self._loop.time() + ahead + 0.002) / _APART) + 1
                if when not in self._set:
                    self._set.add(when)
                    self._loop.call_at(when * _APART, self._ring, when)

    def _ring(self, when: int) -> None:
        self._set.discard(when)
        self._look.set()
