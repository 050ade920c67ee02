"""A date or time as people write it: `2026-11-01`, `2026-11-01T10:30`; UTC unless a time zone follows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from typing_extensions import override

_WRITTEN: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt](\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?(Z|z|[+-]\d\d:\d\d)?)?", re.ASCII
)


_DAY: Final = timedelta(days=1)
_MINUTE: Final = timedelta(minutes=1)
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class WrittenTime:
    """A time as a person wrote it: the day, minute or second from start until before end."""

    start: datetime
    end: datetime

    @override
    def __str__(self) -> str:
        length = self.end - self.start
        if length == _DAY:
            return self.start.date().isoformat()
        exact = {_MINUTE: "minutes", _SECOND: "seconds"}.get(length, "microseconds")
        return self.start.replace(tzinfo=None).isoformat(timespec=exact) + "Z"


def parse_time(text: str) -> WrittenTime | None:
    """Read a date or time; None: the text is neither. ValueError: a date that does not exist."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return None
    day, minute, second, zone = found.groups()
    zone = "+00:00" if zone in (None, "Z", "z") else zone
    start = datetime.fromisoformat(f"{day}T{minute or '00:00'}{second or ''}{zone}")
    try:
        start = start.astimezone(UTC)
        if minute is None:
            return WrittenTime(start, start + _DAY)
        shortest = timedelta(microseconds=1) if "." in (second or "") else _SECOND
        return WrittenTime(start, start + (_MINUTE if second is None else shortest))
    except OverflowError as error:
        raise ValueError(text) from error
