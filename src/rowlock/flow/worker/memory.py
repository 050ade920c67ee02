"""Memory: how much this worker process takes, as its heartbeat reports it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from rowlock.flow.executors.os_process import resident

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY: Final = 10.0
"""Seconds between two looks: outside Linux a look starts a process."""
_STEP: Final = 1 << 20
"""Bytes by which it must have changed: a beat with the same value writes less to the log of the database."""


class MemoryGauge:
    """Reads the resident memory of this process now and then; called in the heartbeat's thread."""

    def __init__(
        self,
        read: Callable[[], int | None] = lambda: resident(os.getpid()),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._monotonic = read, monotonic
        self._bytes: int | None = None
        self._again_at = float("-inf")

    def bytes(self) -> int | None:
        """Bytes, without child processes; None: the system does not say."""
        if self._monotonic() >= self._again_at:
            self._again_at = self._monotonic() + _EVERY
            found = self._read()
            if found is None or self._bytes is None or abs(found - self._bytes) >= _STEP:
                self._bytes = found
        return self._bytes
