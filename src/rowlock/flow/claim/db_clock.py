"""DatabaseClock: the database's time as a worker knows it. Only that clock decides what is due."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


class DatabaseClock:
    """The time in the last answer of the database, carried on by the clock of the event loop."""

    def __init__(self, loop_time: Callable[[], float]) -> None:
        self._loop_time = loop_time
        self._read_at: tuple[datetime, float] | None = None

    def set(self, now: datetime) -> None:
        """Take over the time that an answer of the database has just brought."""
        self._read_at = (now, self._loop_time())

    def now(self) -> datetime | None:
        """The database's time, late by the way of the answer and never ahead; None before the first answer."""
        if self._read_at is None:
            return None
        now, at = self._read_at
        return now + timedelta(seconds=self._loop_time() - at)

    def seconds_until(self, moment: datetime) -> float:
        """Seconds until that moment; 0: it is past, or the time is not known yet."""
        now = self.now()
        return max(0.0, (moment - now).total_seconds()) if now is not None else 0.0
