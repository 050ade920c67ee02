"""RefusedRows: rows of which the database refuses a write, by group (a lane, a statement); tried again later."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rowlock.set_aside import SetAside

logger = logging.getLogger("rowlock.claim")
R = TypeVar("R", bound=int | str)
"""The id of a job, or the name of a row of another table."""
MOST: Final = 100
"""Refused rows of one group; with more of them the whole group rests."""
_PAUSES: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a refused row is tried again."""
_TOLD: Final = (0, 2, 10)
"""Rests of a group, counted from its last success, that are logged."""
_FORGOTTEN: Final = 60.0
"""Seconds after its pause in which a row that was not refused again counts as gone."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    until: float
    failures: int


class RefusedRows(Generic[R]):
    """What one worker knows of refused rows: jobs by their ids, rows of other tables by their names."""

    def __init__(self, set_aside: SetAside, clock: Callable[[], float], step: str | None = None) -> None:
        """step: the step of a job's life that log lines and reports name; None: each group is a step of its own."""
        self._set_aside, self._clock, self._step = set_aside, clock, step
        self._groups: dict[str, dict[R, _Refusal]] = {}
        self._resting: dict[str, _Refusal] = {}

    def __contains__(self, group: str) -> bool:
        """Whether rows of the group were refused lately, so that its rows are tried by name."""
        return group in self._groups

    def rests(self, group: str) -> bool:
        """Whether so many rows of the group are refused that it is left alone for now."""
        resting = self._resting.get(group)
        return resting is not None and self._clock() < resting.until

    def passed_over(self, group: str) -> list[R]:
        """The rows of the group that are not tried now."""
        now = self._clock()
        return [row for row, refusal in self._groups.get(group, {}).items() if now < refusal.until]

    def refused(self, group: str, row: R, error: BaseException) -> None:
        """Note that the write of this row failed by itself."""
        rows = self._groups.setdefault(group, {})
        failures = rows[row].failures + 1 if row in rows else 0
        rows[row] = _Refusal(self._clock() + _PAUSES[min(failures, len(_PAUSES) - 1)], failures)
        self._set_aside.begin(row, self._step or group, error)
        if len(rows) > MOST:
            self.rest(group, error)

    def rest(self, group: str, error: BaseException) -> None:
        """Leave the whole group alone for a while, longer each time."""
        before = self._resting.get(group)
        failures = 0 if before is None else before.failures + 1
        self._resting[group] = _Refusal(self._clock() + _PAUSES[min(failures, len(_PAUSES) - 1)], failures)
        if failures in _TOLD:
            logger.warning("%s of %s is left alone for a while: %s", self._step or "upkeep", group, error)
        self._forget(group, list(self._groups.pop(group, {})))

    def written(self, group: str, rows: Iterable[R]) -> None:
        """Note that these rows were written; and forget those that were not refused again for a while."""
        written = list(rows)
        if written:
            self._resting.pop(group, None)
        known = self._groups.get(group)
        if known is None:
            return
        now = self._clock()
        gone = {row for row, refusal in known.items() if now > refusal.until + _FORGOTTEN}
        self._forget(group, gone.union(written))
        if not known:
            del self._groups[group]

    def _forget(self, group: str, rows: Iterable[R]) -> None:
        for row in rows:
            self._groups.get(group, {}).pop(row, None)
            self._set_aside.end(row, self._step or group)

    def keep(self, lanes: Iterable[str]) -> None:
        """Forget lanes that are not served any more."""
        for group in self._groups.keys() - set(lanes):
            self._forget(group, list(self._groups[group]))
            del self._groups[group]
