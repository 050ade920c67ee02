"""RefusedJobs: jobs of which the database refuses a write, by group (a lane, a duty); each is tried again later."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rowlock.set_aside import SetAside

logger = logging.getLogger("rowlock.claim")
MOST: Final = 100
"""Refused jobs of one group; with more of them the whole group rests."""
_PAUSES: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a refused job is tried again."""
_TOLD: Final = (0, 2, 10)
"""Rests of a group, counted from its last success, that are logged."""
_FORGOTTEN: Final = 60.0
"""Seconds after its pause in which a job that was not refused again counts as gone."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    until: float
    failures: int


class RefusedJobs:
    """What one worker knows of refused jobs."""

    def __init__(self, set_aside: SetAside, clock: Callable[[], float], step: str | None = None) -> None:
        """step: the step of a job's life that log lines and reports name; None: each group is a step of its own."""
        self._set_aside, self._clock, self._step = set_aside, clock, step
        self._groups: dict[str, dict[int, _Refusal]] = {}
        self._resting: dict[str, _Refusal] = {}

    def __contains__(self, group: str) -> bool:
        """Whether jobs of the group were refused lately, so that its jobs are tried by id."""
        return group in self._groups

    def rests(self, group: str) -> bool:
        """Whether so many jobs of the group are refused that it is left alone for now."""
        resting = self._resting.get(group)
        return resting is not None and self._clock() < resting.until

    def passed_over(self, group: str) -> list[int]:
        """The jobs of the group that are not tried now."""
        now = self._clock()
        return [job_id for job_id, refusal in self._groups.get(group, {}).items() if now < refusal.until]

    def refused(self, group: str, job_id: int, error: BaseException) -> None:
        """Note that the write of this job failed by itself."""
        jobs = self._groups.setdefault(group, {})
        failures = jobs[job_id].failures + 1 if job_id in jobs else 0
        jobs[job_id] = _Refusal(self._clock() + _PAUSES[min(failures, len(_PAUSES) - 1)], failures)
        self._set_aside.begin(job_id, self._step or group, error)
        if len(jobs) > MOST:
            self.rest(group, error)

    def rest(self, group: str, error: BaseException) -> None:
        """Leave the whole group alone for a while, longer each time."""
        before = self._resting.get(group)
        failures = 0 if before is None else before.failures + 1
        self._resting[group] = _Refusal(self._clock() + _PAUSES[min(failures, len(_PAUSES) - 1)], failures)
        if failures in _TOLD:
            logger.warning("%s of %s is left alone for a while: %s", self._step or "upkeep", group, error)
        self._forget(group, list(self._groups.pop(group, {})))

    def written(self, group: str, job_ids: Iterable[int]) -> None:
        """Note that these jobs were written; and forget those that were not refused again for a while."""
        job_ids = list(job_ids)
        if job_ids:
            self._resting.pop(group, None)
        jobs = self._groups.get(group)
        if jobs is None:
            return
        now = self._clock()
        gone = {job_id for job_id, refusal in jobs.items() if now > refusal.until + _FORGOTTEN}
        self._forget(group, gone.union(job_ids))
        if not jobs:
            del self._groups[group]

    def _forget(self, group: str, job_ids: Iterable[int]) -> None:
        for job_id in job_ids:
            self._groups.get(group, {}).pop(job_id, None)
            self._set_aside.end(job_id, self._step or group)

    def keep(self, lanes: Iterable[str]) -> None:
        """Forget lanes that are not served any more."""
        for group in self._groups.keys() - set(lanes):
            self._forget(group, list(self._groups[group]))
            del self._groups[group]
