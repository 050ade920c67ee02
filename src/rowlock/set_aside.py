"""SetAside: the jobs of which the database does not take a write now; neighbours go on, and these are tried again.

A lock that another session holds, or a trigger that refuses a row, makes a statement fail for all its rows. The row
that is to blame is found, set aside and tried again later. One line is logged when that begins and one when it ends;
the beat reports the list, so that doctor, explain and metrics can show it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.model import ids
from rowlock.model.times.duration import humanise

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

_SHOWN: Final = 20
"""Jobs that a beat names; `count` says how many there are."""
_LOGGED: Final = 10
"""Jobs at once that get a line of their own; one more line says that there are others."""
_FORGOTTEN: Final = 120.0
"""Seconds without a further failure after which a job is not reported any more: another process may see to it."""
_LONGEST: Final = 300
"""Characters of an error."""


@dataclass(frozen=True, slots=True)
class SetAsideJob:
    """One job that is set aside. since: by the clock of the list; blocked_by: the session that holds the lock."""

    job_id: int
    step: str
    error: str
    since: float
    blocked_by: str | None
    logged: bool
    failed_at: float
    """When the step failed last."""


class SetAside:
    """The list of one worker."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._clock = logger, clock
        self._jobs: dict[tuple[int, str], SetAsideJob] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, key: tuple[int, str]) -> bool:
        """Whether the job is set aside for that step."""
        return key in self._jobs

    def begin(self, job_id: int, step: str, error: BaseException | str, blocked_by: str | None = None) -> None:
        """Note that this step (finish, claim, rescue …) of the job fails; call it again each time it does."""
        known = self._jobs.get((job_id, step))
        text = (str(error) or type(error).__name__)[:_LONGEST]
        since = self._clock() if known is None else known.since
        logged = len(self._jobs) < _LOGGED if known is None else known.logged
        if blocked_by is None and known is not None:
            blocked_by = known.blocked_by
        self._jobs[job_id, step] = SetAsideJob(job_id, step, text, since, blocked_by, logged, self._clock())
        if known is not None:
            return
        if logged:
            session = f"; it waits for {blocked_by}" if blocked_by else ""
            self._logger.warning(
                "job %s is set aside, its %s fails: %s%s; other jobs go on", ids.encode(job_id), step, text, session
            )
        elif len(self._jobs) == _LOGGED + 1:
            self._logger.warning("more than %d jobs are set aside; only their number is reported now", _LOGGED)

    def end(self, job_id: int, step: str) -> None:
        """Note that the step has succeeded, or is not needed any more."""
        known = self._jobs.pop((job_id, step), None)
        if known is not None and known.logged:
            span = humanise(timedelta(seconds=round(self._clock() - known.since, 1)))
            self._logger.info("job %s: its %s goes on after %s", ids.encode(job_id), step, span)

    def report(self) -> str | None:
        """The list as JSON {count, jobs: [{job, step, error, seconds, blocked_by}]}; None: it is empty.

        May be called in another thread.
        """
        now = self._clock()
        jobs = [one for one in list(self._jobs.values()) if now - one.failed_at < _FORGOTTEN]
        if not jobs:
            return None
        shown = [
            {
                "job": one.job_id,
                "step": one.step,
                "error": one.error,
                "seconds": round(now - one.since, 1),
                "blocked_by": one.blocked_by,
            }
            for one in jobs[:_SHOWN]
        ]
        return json.dumps({"count": len(jobs), "jobs": shown})
