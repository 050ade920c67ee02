"""Trouble: tells of something that keeps failing, at once and then ever more rarely, and once when it works again."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.model.duration import humanise

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

_DISTANCES: Final = (10.0, 30.0, 60.0)
"""Seconds from one line to the next."""
_CAUSES: Final = 4
"""Different causes of one trouble that are told at once."""
_QUIET: Final = 60.0
"""Seconds without a failure after which the next one is new trouble, where nobody can say that it works again."""


class Trouble:
    """One thing that may fail: again and again during an outage, a line for each of it would bury everything else."""

    def __init__(
        self, logger: logging.Logger, fails: str, works: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """fails, works: what is told, such as "worker w cannot claim" and "worker w claims again"."""
        self._logger, self._fails, self._works, self._clock = logger, fails, works, clock
        self.lasts = False
        """Whether the last try failed. Whoever succeeds looks here first: it costs nothing."""
        self._causes: set[type[BaseException]] = set()
        self._times = self._lines = 0
        self._since = self._last = self._told = 0.0

    def met(self, error: BaseException, *, unforeseen: bool = False) -> None:
        """It failed. unforeseen: each cause comes with its trace, once."""
        now = self._clock()
        if not self.lasts or now - self._last > _QUIET:
            self.lasts, self._since, self._times, self._lines = True, now, 0, 0
            self._causes = set()
        self._times, self._last = self._times + 1, now
        cause = type(error.__cause__ or error)
        new = cause not in self._causes and len(self._causes) < _CAUSES
        if not new and now - self._told < _DISTANCES[min(self._lines - 1, len(_DISTANCES) - 1)]:
            self._logger.debug("%s: %s", self._fails, error)
            return
        self._causes.add(cause)
        self._told, self._lines = now, self._lines + 1
        lasting = "" if self._times == 1 else f" for {self._span()} ({self._times} times)"
        if unforeseen:
            trace = error if new else None
            self._logger.error("%s%s: %s", self._fails, lasting, str(error) or cause.__name__, exc_info=trace)
        else:
            self._logger.warning("%s%s: %s", self._fails, lasting, str(error) or cause.__name__)

    def over(self) -> None:
        """It works again."""
        if self.lasts:
            self.lasts = False
            self._logger.info("%s after %s (%d failures)", self._works, self._span(), self._times)

    def _span(self) -> str:
        return humanise(timedelta(seconds=round(self._clock() - self._since, 1)))
