"""Clock: the database's time as far as a worker knows it; only that clock decides anything."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


class Clock:
    """The database's clock at the last answer, carried on by the loop's."""

    def __init__(self, loop_time: Callable[[], float]) -> None:
        self._loop_time = loop_time
        self._heard: tuple[datetime, float] | None = None

    def hear(self, now: datetime) -> None:
        """The database has just said what time it is."""
        self._heard = (now, self._loop_time())

    def now(self) -> datetime | None:
        """Its time now, never ahead of it; None: it has not said yet."""
        if self._heard is None:
            return None
        now, at = self._heard
        return now + timedelta(seconds=self._loop_time() - at)

    def ahead(self, moment: datetime) -> float:
        """Seconds until that moment; 0: past, or nobody knows."""
        now = self.now()
        return max(0.0, (moment - now).total_seconds()) if now is not None else 0.0
