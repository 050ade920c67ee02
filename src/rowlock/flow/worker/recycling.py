"""Recycling: asks for a fresh process once a worker has run enough jobs, taken enough memory or has stuck slots."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from rowlock.flow.executors.os_process import resident
from rowlock.model.size import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.flow.worker.process_replacement import ProcessReplacement
    from rowlock.settings import Settings

logger = logging.getLogger("rowlock.worker")


class Recycling:
    """The limits of one worker process. A process that cannot be replaced logs once which limit it exceeds."""

    def __init__(self, settings: Settings, replacement: ProcessReplacement | None) -> None:
        self._settings, self._replacement = settings, replacement
        self._jobs_run = 0
        self._requested = self._too_large = False

    def count(self, jobs: int) -> None:
        """Add jobs that were started, and check max_jobs."""
        self._jobs_run += jobs
        limit = self._settings.max_jobs
        if limit and self._jobs_run >= limit:
            self._request(f"it ran {self._jobs_run} jobs, max_jobs is {limit}")

    def check(self, stuck: int, stuck_lanes: Sequence[str] = ()) -> None:
        """Check max_stuck and max_memory. stuck: slots whose handlers do not end; stuck_lanes: with no other slot."""
        if self._requested:
            return
        most, memory = self._settings.max_stuck, self._settings.max_memory
        if most and stuck >= most:
            self._request(f"{stuck} slots are held by handlers that were told to stop and do not, max_stuck is {most}")
        elif most and stuck_lanes:
            lanes = ", ".join(stuck_lanes)
            self._request(f"every slot of lane {lanes} is held by handlers that were told to stop and do not")
        elif memory:
            self._check_memory(memory, resident(os.getpid()) or 0)

    def _check_memory(self, limit: int, used: int) -> None:
        if used <= limit:
            return
        if self._jobs_run:
            self._request(f"it takes {shown(used)} of memory, max_memory is {shown(limit)}")
        elif not self._too_large:
            # A fresh process would be as large: replacing it would never end.
            self._too_large = True
            logger.error(
                "the worker takes %s before its first job; max_memory is %s. Give it more.", shown(used), shown(limit)
            )

    def _request(self, reason: str) -> None:
        if self._requested:
            return
        self._requested = True
        if self._replacement is None:
            logger.error(
                "the worker should be replaced: %s. Inside another program it cannot be: restart the program, or run "
                "the jobs with `rowlock worker`.",
                reason,
            )
        else:
            logger.info("the worker is to be replaced: %s", reason)
            self._replacement.request(reason)
