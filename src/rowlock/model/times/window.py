"""Window: hours of the week in which a schedule does not fire; its slots are skipped, or deferred to the end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from rowlock.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo

Then = Literal["skip", "defer"]
_HOURS: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)\s*-\s*(?:([01]\d|2[0-3]):([0-5]\d)|(24):(00))")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY: Final = timedelta(days=1)


class Closed(NamedTuple):
    """One occurrence of a window: from start until before end."""

    start: datetime
    end: datetime
    then: Then


@dataclass(frozen=True, slots=True)
class Window:
    """hours: "22:00-06:00" on the schedule's own clock, over midnight too; days: those on which it begins, "sat,sun".

    then: "skip" leaves out the slots inside it, "defer" puts all of them off to its end, where they are one.
    """

    hours: str
    days: str = ""
    then: Then = "skip"

    def __post_init__(self) -> None:
        begins, ends = self._span()
        if begins == ends:
            message = f'A window has a length; {self.hours!r} has none. Write "00:00-24:00" for the whole day.'
            raise InvalidOption(message)
        self._weekdays()
        if self.then not in ("skip", "defer"):
            message = f'then must be "skip" or "defer"; got {self.then!r}.'
            raise InvalidOption(message)

    def at(self, moment: datetime, zone: ZoneInfo) -> Closed | None:
        """The occurrence that contains the moment; None: the window is not there then."""
        begins, ends = self._span()
        here = moment.astimezone(zone).date()
        for day in (here, here - _DAY):
            if day.weekday() not in self._weekdays():
                continue
            midnight = datetime.combine(day, time())
            start = _instant(midnight + begins, zone)
            end = _instant(midnight + ends + (_DAY if ends <= begins else timedelta(0)), zone)
            if start <= moment < end:
                return Closed(start, end, self.then)
        return None

    def as_json(self) -> dict[str, str]:
        """As the database keeps it."""
        return {"hours": self.hours, "days": self.days, "then": self.then}

    @classmethod
    def from_json(cls, value: Mapping[str, str]) -> Window:
        """From as_json()."""
        return cls(value["hours"], value.get("days", ""), cast("Then", value.get("then", "skip")))

    def _span(self) -> tuple[timedelta, timedelta]:
        found = _HOURS.fullmatch(self.hours.strip()) if isinstance(self.hours, str) else None
        if found is None:
            message = f'The hours of a window are written like "22:00-06:00"; got {self.hours!r}.'
            raise InvalidOption(message)
        numbers = [int(part) for part in found.groups() if part is not None]
        return timedelta(hours=numbers[0], minutes=numbers[1]), timedelta(hours=numbers[2], minutes=numbers[3])

    def _weekdays(self) -> frozenset[int]:
        names = [part.strip().lower()[:3] for part in self.days.split(",") if part.strip()]
        unknown = [name for name in names if name not in _DAYS]
        if unknown:
            message = f'The days of a window are written like "sat,sun", or left out for all; got {self.days!r}.'
            raise InvalidOption(message)
        return frozenset(map(_DAYS.index, names)) or frozenset(range(7))


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first instant at which the zone's clock shows it; a time inside a gap is moved behind the gap."""
    return wall.replace(tzinfo=zone).astimezone(UTC)
