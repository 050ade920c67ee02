"""OutageLog: logs a step that keeps failing at once, then ever more rarely, and once more when it works again."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.model.times.duration import humanise

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

_DISTANCES: Final = (10.0, 30.0, 60.0)
"""Seconds from one line to the next."""
_CAUSES: Final = 4
"""A new cause is logged at once, up to that many in one outage."""
_QUIET: Final = 60.0
"""Seconds without a failure after which the next one starts a new outage, where recovered() is never called."""


class OutageLog:
    """The log lines of one step that may fail for as long as an outage lasts."""

    def __init__(
        self, logger: logging.Logger, fails: str, works: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """fails, works: the texts to log, such as "worker w cannot claim" and "worker w claims again"."""
        self._logger, self._fails, self._works, self._clock = logger, fails, works, clock
        self.ongoing = False
        """Whether the last try failed. On a hot path check it before calling recovered()."""
        self._causes: set[type[BaseException]] = set()
        self._failures = self._lines = 0
        self._since = self._last = self._logged = 0.0

    def failed(self, error: BaseException, *, unforeseen: bool = False) -> None:
        """Log a failure, unless a line was logged shortly before. unforeseen: as an error, with one trace per cause."""
        now = self._clock()
        if not self.ongoing or now - self._last > _QUIET:
            self.ongoing, self._since, self._failures, self._lines = True, now, 0, 0
            self._causes = set()
        self._failures, self._last = self._failures + 1, now
        cause = type(error.__cause__ or error)
        new = cause not in self._causes and len(self._causes) < _CAUSES
        if not new and now - self._logged < _DISTANCES[min(self._lines - 1, len(_DISTANCES) - 1)]:
            self._logger.debug("%s: %s", self._fails, error)
            return
        self._causes.add(cause)
        self._logged, self._lines = now, self._lines + 1
        lasting = "" if self._failures == 1 else f" for {self._span()} ({self._failures} times)"
        if unforeseen:
            trace = error if new else None
            self._logger.error("%s%s: %s", self._fails, lasting, str(error) or cause.__name__, exc_info=trace)
        else:
            self._logger.warning("%s%s: %s", self._fails, lasting, str(error) or cause.__name__)

    def recovered(self) -> None:
        """Log the end of the outage, if there was one."""
        if self.ongoing:
            self.ongoing = False
            self._logger.info("%s after %s (%d failures)", self._works, self._span(), self._failures)

    def _span(self) -> str:
        return humanise(timedelta(seconds=round(self._clock() - self._since, 1)))
