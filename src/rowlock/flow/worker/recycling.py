"""Wear: when a worker process has run enough jobs, taken enough memory or lost enough slots to be replaced."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from rowlock.flow.executors.os_process import resident
from rowlock.model.size import shown

if TYPE_CHECKING:
    from rowlock.flow.worker.successor import Successor
    from rowlock.settings import Settings

logger = logging.getLogger("rowlock.worker")


class Wear:
    """Counts for one worker and asks its successor once. Without a successor it says once what is wrong."""

    def __init__(self, settings: Settings, successor: Successor | None) -> None:
        self._settings, self._successor = settings, successor
        self._ran = 0
        self._asked = self._too_large = False

    def count(self, jobs: int) -> None:
        """So many more jobs were started."""
        self._ran += jobs
        limit = self._settings.max_jobs
        if limit and self._ran >= limit:
            self._ask(f"it ran {self._ran} jobs, max_jobs is {limit}")

    def check(self, stuck: int) -> None:
        """Look at what does not come with a job."""
        if self._asked:
            return
        most, memory = self._settings.max_stuck, self._settings.max_memory
        if most and stuck >= most:
            self._ask(f"{stuck} slots are held by handlers that were told to stop and do not, max_stuck is {most}")
        elif memory:
            self._weigh(memory, resident(os.getpid()) or 0)

    def _weigh(self, limit: int, taken: int) -> None:
        if taken <= limit:
            return
        if self._ran:
            self._ask(f"it takes {shown(taken)} of memory, max_memory is {shown(limit)}")
        elif not self._too_large:
            # A fresh process would be as large: replacing it would never end.
            self._too_large = True
            logger.error(
                "the worker takes %s before its first job; max_memory is %s. Give it more.", shown(taken), shown(limit)
            )

    def _ask(self, reason: str) -> None:
        if self._asked:
            return
        self._asked = True
        if self._successor is None:
            logger.error(
                "the worker should be replaced: %s. Inside another program it cannot be: restart the program, or run "
                "the jobs with `rowlock worker`.",
                reason,
            )
        else:
            logger.info("the worker is to be replaced: %s", reason)
            self._successor.ask(reason)
