"""Cron expressions in a time zone, and intervals. A slot is an instant at which something is due, always in UTC.

When clocks change, slots fall as in Debian's cron. An expression that names hours and minutes means a time of day: in a
gap it is due once, at the first moment after the gap; in a repeated hour once, the first time. An expression with a
star for hours or minutes follows the clock on the wall: a gap has no slots, and a repeated hour has them twice.
"""

from __future__ import annotations

import bisect
import functools
import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from cronsim import CronSim, CronSimError

from rowlock.errors import InvalidOption
from rowlock.model.keys import shown
from rowlock.model.spelling.similar_names import closest
from rowlock.model.times.duration import duration, humanise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rowlock.model.times.duration import Duration

_FIELDS: Final = ("minute", "hour", "day of the month", "month", "day of the week")
_RANGES: Final = ("0-59", "0-23", "1-31", "1-12 or JAN-DEC", "0-7 or SUN-SAT")
_EXAMPLE: Final = '"0 2 * * *" is every day at two, "*/15 9-17 * * MON-FRI" every quarter of the working hours'
_NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_ALONE: Final = re.compile(r"(?<!\w)(\w+)-\1/[0-9]+(?!\w)")
_LONGEST_TEXT: Final = 200
_MOST_YEARS: Final = 41
"""A 29 February on a given weekday is 40 years away at most."""
_DAY: Final = timedelta(days=1)
_MINUTE: Final = timedelta(minutes=1)
_LEAST: Final = timedelta(seconds=1)
_ANCHOR: Final = datetime(2000, 1, 3, tzinfo=UTC)
"""A Monday: intervals are counted from here, so that "15m" is every quarter of an hour and "7d" every Monday."""


class Timing(Protocol):
    """A sequence of slots without beginning or end."""

    def after(self, moment: datetime) -> datetime | None:
        """The first slot later than the moment; None: there is none."""

    def until(self, moment: datetime) -> datetime | None:
        """The last slot not later than the moment; None: there is none."""


@dataclass(frozen=True, slots=True)
class Every:
    """An interval counted from a fixed instant, so that it never drifts and no clock change moves it."""

    span: timedelta

    def after(self, moment: datetime) -> datetime:
        """The first slot later than the moment."""
        return self.until(moment) + self.span

    def until(self, moment: datetime) -> datetime:
        """The last slot not later than the moment."""
        return moment - (moment - _ANCHOR) % self.span


class Cron:
    """A cron expression of five fields in a time zone."""

    def __init__(self, text: str, tz: str = "UTC") -> None:
        self.text, self.tz = cron_text(text), tz
        self._zone = zone(tz)
        # CronSim reads 5-5/2 as 5-59/2; every cron reads it as 5.
        written = _ALONE.sub(r"\1", _NAMED.get(self.text.lower(), self.text))
        try:
            self._sim = CronSim(written, datetime(2000, 1, 1, tzinfo=UTC))
        except CronSimError:
            raise _never(text) from None
        minute, hour, *_ = written.split()
        self._daily = not minute.startswith("*") and not hour.startswith("*")
        minutes, hours = sorted(self._sim.minutes), sorted(self._sim.hours)
        self._times = [time(hour, minute) for hour in hours for minute in minutes]
        self._slots = functools.lru_cache(maxsize=4)(self._slots_of)
        if self.after(datetime(2000, 1, 1, tzinfo=UTC)) is None:
            raise _never(text)

    def after(self, moment: datetime) -> datetime | None:
        """The first slot later than the moment; None: none within forty years."""
        for day in self._days(moment, _DAY):
            slots = self._slots(day)
            if slots and slots[-1] > moment:
                return slots[bisect.bisect_right(slots, moment)]
        return None

    def until(self, moment: datetime) -> datetime | None:
        """The last slot not later than the moment; None: none within forty years."""
        for day in self._days(moment, -_DAY):
            slots = self._slots(day)
            if slots and slots[0] <= moment:
                return slots[bisect.bisect_right(slots, moment) - 1]
        return None

    def _days(self, moment: datetime, step: timedelta) -> Iterator[date]:
        """Matching days from the moment on, and one before: the slot of a gap may fall into the next day."""
        day = moment.astimezone(self._zone).date() - step
        for _ in range(366 * _MOST_YEARS):
            if day.month not in self._sim.months:
                day = _other_month(day, step)
                continue
            if self._sim.match_day(day):
                yield day
            day += step

    def _slots_of(self, day: date) -> Sequence[datetime]:
        """The slots of one local day, earliest first.

        Made from the times on the wall, not by stepping through hours: steps of an hour miss slots where clocks move by
        half an hour.
        """
        walls = [datetime.combine(day, at, UTC) for at in self._times]
        offset = _offset(self._zone, datetime.combine(day, time()))
        if offset == _offset(self._zone, datetime.combine(day + _DAY, time())):
            return [wall - offset for wall in walls]
        return sorted({instant for wall in walls for instant in self._instants(wall.replace(tzinfo=None))})

    def _instants(self, wall: datetime) -> Sequence[datetime]:
        """The instants at which the zone's clock shows this: one, two or, in a gap, none."""
        first = wall.replace(tzinfo=self._zone).astimezone(UTC)
        second = wall.replace(tzinfo=self._zone, fold=1).astimezone(UTC)
        if first < second:
            return [first] if self._daily else [first, second]
        if first > second:
            return [_end_of_gap(self._zone, second, first)] if self._daily else []
        return [first]


def timing(cron: str | None, every: Duration | None, tz: str) -> Timing:
    """The timing of cron= or every=; InvalidOption for both, neither or an unreadable one."""
    if (cron is None) == (every is None):
        got = "neither" if cron is None else "both"
        message = f'A schedule has a cron expression or an interval; got {got}. Pass "0 2 * * *", or every="15m".'
        raise InvalidOption(message)
    zone(tz)
    return _cron(cron, tz) if cron is not None else Every(interval(every or 0))


@functools.lru_cache(maxsize=1000)
def _cron(text: str, tz: str) -> Cron:
    return Cron(text, tz)


def _never(text: str) -> InvalidOption:
    return InvalidOption(f"{text!r} is never due: no year has such a day. {_EXAMPLE}.")


def interval(value: Duration) -> timedelta:
    """An interval as it is written."""
    span = duration(value, "every")
    if span < _LEAST:
        message = f"every must be {humanise(_LEAST)} or more; got {value!r}."
        raise InvalidOption(message)
    return span


def cron_text(text: str) -> str:
    """The expression with single spaces; InvalidOption names the field that cannot be read and its position."""
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
        message = f"A cron expression is a text of five fields; got {text!r:.60}. {_EXAMPLE}."
        raise InvalidOption(message)
    if text.strip().lower() in _NAMED:
        return text.strip().lower()
    found = list(re.finditer(r"\S+", text))
    if len(found) != len(_FIELDS):
        message = (
            f"A cron expression has five fields ({', '.join(_FIELDS)}); {text!r} has {len(found)}. {_EXAMPLE}. "
            'For less than a minute pass every="10s".'
        )
        raise InvalidOption(message)
    for n, part in enumerate(found):
        alone = ["*"] * len(_FIELDS)
        alone[n] = part.group()
        if not _readable(" ".join(alone)):
            message = (
                f"{text!r} cannot be read at character {part.start() + 1}: {part.group()!r} is no {_FIELDS[n]} "
                f"({_RANGES[n]}, with , - / and *). {_EXAMPLE}."
            )
            raise InvalidOption(message)
    return " ".join(part.group().upper() for part in found)


def _readable(text: str) -> bool:
    try:
        CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except (CronSimError, AssertionError, ValueError):
        return False
    return True


@functools.cache
def _zone_names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def zone(name: str) -> zoneinfo.ZoneInfo:
    """The time zone of that name; InvalidOption suggests similar names."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        pass
    names = _zone_names()
    if not names:
        message = f"There is no time zone {name!r}, nor any other: this system has no tz database. pip install tzdata"
        raise InvalidOption(message)
    hint = _near(str(name)[:_LONGEST_TEXT], sorted(names))
    message = f'There is no time zone {shown(name)}. Write it like "Europe/London" or "UTC".{hint}'
    raise InvalidOption(message)


def _near(name: str, names: Sequence[str]) -> str:
    wanted = name.strip().lower().replace(" ", "_")
    same = [known for known in names if wanted and known.lower().rpartition("/")[2] == wanted.rpartition("/")[2]]
    by_lower = {known.lower(): known for known in names}
    near = same or [by_lower[found] for found in closest(wanted, by_lower, n=3)]
    return f" Did you mean {' or '.join(map(repr, near[:3]))}?" if near else ""


def _offset(tz: zoneinfo.ZoneInfo, wall: datetime) -> timedelta:
    return tz.utcoffset(wall) or timedelta(0)


def _other_month(day: date, step: timedelta) -> date:
    """The first day of the next month, or the last one of the month before."""
    if step < timedelta(0):
        return day.replace(day=1) - _DAY
    return (day.replace(day=28) + 4 * _DAY).replace(day=1)


def _end_of_gap(tz: zoneinfo.ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first moment after the gap between the two; both are whole minutes, and so are gaps."""

    def offset(moment: datetime) -> timedelta:
        return moment.astimezone(tz).utcoffset() or timedelta(0)

    return _first(before, after, lambda moment: offset(moment) != offset(before))


def _first(low: datetime, high: datetime, true: Callable[[datetime], bool]) -> datetime:
    """The first minute at which `true` holds. It holds at `high`, and from its first minute on."""
    minutes = bisect.bisect_left(range((high - low) // _MINUTE), x=True, key=lambda n: true(low + n * _MINUTE))
    return low + minutes * _MINUTE
