"""The clock on the wall: which minutes a cron rule names in a zone, found by looking at every single one of them.

An oracle for schedules. It shares no code with Rowlock and knows no shortcut: it reads the rule's five fields, walks
through the instants, and asks what a clock of the zone shows. The rules for clock changes are those of the docs.
"""

from __future__ import annotations

import calendar
import functools
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

MINUTE: Final = timedelta(minutes=1)
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
Shown = tuple[datetime, datetime, datetime, bool]
"""An instant, what the clock shows then and a minute before, and whether it shows that for the second time."""


@functools.lru_cache(maxsize=64)
def walk(tz: str, start: datetime, end: datetime) -> Sequence[Shown]:
    """Every minute from start until before end."""
    zone, found = ZoneInfo(tz), []
    moment, before = start, (start - MINUTE).astimezone(zone).replace(tzinfo=None)
    while moment < end:
        shown = moment.astimezone(zone)
        wall = shown.replace(tzinfo=None, fold=0)
        found.append((moment, wall, before, bool(shown.fold)))
        moment, before = moment + MINUTE, wall
    return found


@dataclass(frozen=True)
class Wall:
    """A cron rule of five fields, read in a zone."""

    text: str
    tz: str = "UTC"

    def slots(self, start: datetime, end: datetime) -> list[datetime]:
        """The instants at which it is due, from start (included) to end (not); both whole minutes of UTC."""
        return [
            moment
            for moment, wall, before, again in walk(self.tz, start, end)
            if (self._names(wall) if self.often else self._once(wall, before, again=again))
        ]

    @functools.cached_property
    def often(self) -> bool:
        """A star in its minutes or hours: it follows the wall, and has no slot of its own for every day."""
        minute, hour, *_ = self.text.split()
        return minute.startswith("*") or hour.startswith("*")

    def _once(self, wall: datetime, before: datetime, *, again: bool) -> bool:
        """Due the first time a clock shows it, or at the first moment after a gap in which it would have shown it."""
        if again:
            return False
        left_out = [before + n * MINUTE for n in range(1, (wall - before) // MINUTE)]
        return self._names(wall) or any(map(self._names, left_out))

    def _names(self, wall: datetime) -> bool:
        return (
            wall.minute in self._minutes
            and wall.hour in self._hours
            and wall.month in self._months
            and self._is_day(wall.date())
        )

    @functools.cached_property
    def _fields(self) -> list[str]:
        return self.text.upper().split()

    @functools.cached_property
    def _minutes(self) -> frozenset[int]:
        return _numbers(self._fields[0], 0, 59)

    @functools.cached_property
    def _hours(self) -> frozenset[int]:
        return _numbers(self._fields[1], 0, 23)

    @functools.cached_property
    def _months(self) -> frozenset[int]:
        return _numbers(self._fields[3], 1, 12, _MONTHS, 1)

    def _is_day(self, day: date) -> bool:
        by_month, by_week = self._fields[2], self._fields[4]
        fits = _of_month(by_month, day), _of_week(by_week, day)
        # As Debian's cron: two fields without a star are alternatives.
        return all(fits) if by_month.startswith("*") or by_week.startswith("*") else any(fits)


def changes(tz: str, year: int) -> list[datetime]:
    """The first instants after each change of the zone's clocks in a year."""
    zone, found = ZoneInfo(tz), []
    moment, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    while moment < end:
        later = moment + timedelta(hours=6)
        if moment.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            found.append(
                next(
                    moment + n * MINUTE
                    for n in range(361)
                    if (moment + n * MINUTE).astimezone(zone).utcoffset() != moment.astimezone(zone).utcoffset()
                )
            )
        moment = later
    return found


def _numbers(text: str, low: int, high: int, words: Sequence[str] = (), first: int = 0) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        start, _, end = span.partition("-")
        if start == "*":
            begin, last = low, high
        else:
            begin = words.index(start) + first if start in words else int(start)
            last = high if step and not end else begin
            if end:
                last = words.index(end) + first if end in words else int(end)
        found.update(range(begin, last + 1, int(step or 1)))
    return frozenset(found)


def _of_month(text: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    return any(day.day == last if part == "L" else day.day in _numbers(part, 1, 31) for part in text.split(","))


def _of_week(text: str, day: date) -> bool:
    today, which = day.isoweekday() % 7, (day.day - 1) // 7 + 1
    for part in text.split(","):
        name, _, nth = part.partition("#")
        days = {number % 7 for number in _numbers(name, 0, 6, _DAYS)}
        if today in days and (not nth or int(nth) == which):
            return True
    return False
