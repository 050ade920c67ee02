"""SetAside: the rows of which the database does not take a write now; neighbours go on, and these are tried again.

A lock that another session holds, or a trigger that refuses a row, makes a statement fail for all its rows. The row
that is to blame is found, set aside and tried again later. One line is logged when that begins and one when it ends;
the beat reports the list, so that doctor, explain and metrics can show it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.model import ids
from rowlock.model.times.duration import humanise

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

_SHOWN: Final = 20
"""Jobs that a beat names, and rows of other tables; `count` says how many jobs there are."""
_LOGGED: Final = 10
"""Rows at once that get a line of their own; one more line says that there are others."""
_FORGOTTEN: Final = 120.0
"""Seconds without a further failure after which a row is forgotten: another process may see to it."""
_LONGEST: Final = 300
"""Characters of an error."""


RowName: TypeAlias = int | str
"""The id of a job, or a row of another table in words: worker 7, lane:reports."""


@dataclass(frozen=True, slots=True)
class SetAsideRow:
    """One row that is set aside. since: by the clock of the list; blocked_by: the session that holds the lock."""

    row: RowName
    step: str
    error: str
    since: float
    blocked_by: str | None
    logged: bool
    failed_at: float
    """When the step failed last."""

    @property
    def name(self) -> str:
        """The row as log lines name it."""
        return f"job {ids.encode(self.row)}" if isinstance(self.row, int) else self.row


class SetAside:
    """The list of one worker."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._clock = logger, clock
        self._rows: dict[tuple[RowName, str], SetAsideRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: tuple[RowName, str]) -> bool:
        """Whether the row is set aside for that step."""
        return key in self._rows

    def begin(self, row: RowName, step: str, error: BaseException | str, blocked_by: str | None = None) -> None:
        """Note that this step (finish, claim, rescue …) of the row fails; call it again each time it does."""
        known = self._rows.get((row, step))
        text = (str(error) or type(error).__name__)[:_LONGEST]
        since = self._clock() if known is None else known.since
        logged = len(self._rows) < _LOGGED if known is None else known.logged
        if blocked_by is None and known is not None:
            blocked_by = known.blocked_by
        one = self._rows[row, step] = SetAsideRow(row, step, text, since, blocked_by, logged, self._clock())
        if known is not None:
            return
        others = "jobs" if isinstance(row, int) else "rows"
        if logged:
            session = f"; it waits for {blocked_by}" if blocked_by else ""
            self._logger.warning(
                "%s is set aside, its %s fails: %s%s; other %s go on", one.name, step, text, session, others
            )
        elif len(self._rows) == _LOGGED + 1:
            self._logger.warning("more than %d %s are set aside; only their number is reported now", _LOGGED, others)

    def end(self, row: RowName, step: str) -> None:
        """Note that the step has succeeded, or is not needed any more."""
        known = self._rows.pop((row, step), None)
        if known is not None and known.logged:
            span = humanise(timedelta(seconds=round(self._clock() - known.since, 1)))
            self._logger.info("%s: its %s goes on after %s", known.name, step, span)

    def report(self) -> str | None:
        """The list as JSON {count, jobs: [{job, step, error, seconds, blocked_by}]}; None: it is empty.

        With rows of other tables it has rows: [{row, step, error, seconds}]. May be called in another thread.
        """
        now = self._clock()
        self._forget(now - _FORGOTTEN)
        found = list(self._rows.values())
        if not found:
            return None
        jobs = [one for one in found if isinstance(one.row, int)]
        rows = [one for one in found if isinstance(one.row, str)]
        said: dict[str, object] = {
            "count": len(jobs),
            "jobs": [{"job": one.row, **_shown(one, now), "blocked_by": one.blocked_by} for one in jobs[:_SHOWN]],
        }
        if rows:
            said["rows"] = [{"row": one.row, **_shown(one, now)} for one in rows[:_SHOWN]]
        return json.dumps(said)

    def _forget(self, before: float) -> None:
        """Forget rows that have not failed since then: not every step says that it has succeeded."""
        for key, one in list(self._rows.items()):
            if one.failed_at < before and self._rows.get(key) is one:
                del self._rows[key]
                if one.logged:
                    self._logger.info("%s: its %s has not failed again", one.name, one.step)


def _shown(one: SetAsideRow, now: float) -> dict[str, object]:
    return {"step": one.step, "error": one.error, "seconds": round(now - one.since, 1)}
