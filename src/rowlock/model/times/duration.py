"""Durations as people write them: ``"30s"``, ``"1h30m"``, ``"2 days"``, ``"PT10M"``, seconds or a timedelta."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from rowlock.errors import InvalidOption

Duration: TypeAlias = str | int | float | timedelta

# Clock plus duration must stay inside both datetime and PostgreSQL's timestamp.
LONGEST: Final = timedelta(days=36_525)

_SHOWN_BITS: Final = 128  # Python refuses to print an int of more than 4,300 digits

_WORDS: Final = {
    604_800_000_000: "w week weeks",
    86_400_000_000: "d day days",
    3_600_000_000: "h hr hrs hour hours",
    60_000_000: "m min mins minute minutes",
    1_000_000: "s sec secs second seconds",
    1_000: "ms millisecond milliseconds",
    1: "us µs microsecond microseconds",
}
_MICROSECONDS: Final = {word: size for size, words in _WORDS.items() for word in words.split()}
_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
_BARE: Final = re.compile(_NUMBER)
_PART: Final = re.compile(rf"\s*({_NUMBER})\s*([a-zµ]+)\s*,?")
_ISO: Final = re.compile(
    rf"p(?:(?P<w>{_NUMBER})w)?(?:(?P<d>{_NUMBER})d)?"
    rf"(?:t(?=[0-9])(?:(?P<h>{_NUMBER})h)?(?:(?P<m>{_NUMBER})m)?(?:(?P<s>{_NUMBER})s)?)?"
)


def duration(value: Duration, name: str = "duration") -> timedelta:
    """Read a duration from 0 to 100 years; a number, also as text, is seconds. name: the option in error messages."""
    if isinstance(value, timedelta):
        result = value
    elif isinstance(value, str):
        result = _from_microseconds(_microseconds(value, name), value, name)
    elif not _is_number(value):
        raise _invalid(value, name, "is not a duration")
    elif value < 0:
        raise _invalid(value, name, "is negative")
    else:
        result = _from_microseconds(Decimal(value) * 1_000_000, value, name)
    if result < timedelta(0):
        raise _invalid(value, name, "is negative")
    if result > LONGEST:
        raise _invalid(value, name, "is longer than 100 years")
    return result


def humanise(value: timedelta) -> str:
    """Write a duration short and exact: ``1h30m``, ``250ms``, ``1.5s``, ``0s``; days are the largest unit."""
    if value < timedelta(0):
        return "-" + humanise(-value)
    if value < timedelta(seconds=1):
        return _below_a_second(value.microseconds)
    hours, rest = divmod(value.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [f"{count}{unit}" for count, unit in ((value.days, "d"), (hours, "h"), (minutes, "m")) if count]
    if seconds or value.microseconds:
        parts.append(_trimmed(seconds, value.microseconds, 6) + "s")
    return "".join(parts)


def _below_a_second(microseconds: int) -> str:
    if not microseconds:
        return "0s"
    whole, rest = divmod(microseconds, 1000)
    return _trimmed(whole, rest, 3) + "ms" if whole else f"{rest}us"


def _trimmed(whole: int, fraction: int, digits: int) -> str:
    return f"{whole}.{fraction:0{digits}}".rstrip("0").rstrip(".") if fraction else str(whole)


def _microseconds(text: str, name: str) -> Decimal:
    lowered = text.strip().lower().replace("\N{GREEK SMALL LETTER MU}", "µ")
    if _BARE.fullmatch(lowered):
        return Decimal(lowered) * 1_000_000
    if lowered.startswith("-"):
        raise _invalid(text, name, "is negative")
    if lowered.startswith("p"):
        return _from_iso(lowered, text, name)
    total, position, smallest = Decimal(0), 0, math.inf
    while position < len(lowered):
        part = _PART.match(lowered, position)
        size = _MICROSECONDS.get(part[2]) if part else None
        if part is None or size is None:
            raise _invalid(text, name, "is not a duration")
        if size >= smallest:
            raise _invalid(text, name, "does not name each unit once, largest first")
        total, position, smallest = total + Decimal(part[1]) * size, part.end(), size
    if not position or lowered.endswith(","):
        raise _invalid(text, name, "is not a duration")
    return total


def _from_iso(lowered: str, text: str, name: str) -> Decimal:
    found = _ISO.fullmatch(lowered)
    parts = [(unit, number) for unit, number in found.groupdict().items() if number] if found else []
    if not parts:
        raise _invalid(text, name, "is not an ISO 8601 duration of weeks, days, hours, minutes and seconds")
    return sum((Decimal(number) * _MICROSECONDS[unit] for unit, number in parts), Decimal(0))


def _is_number(value: object) -> bool:
    # isfinite() turns its argument into a float, which a huge int does not survive.
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _from_microseconds(microseconds: Decimal, value: object, name: str) -> timedelta:
    # Compared before it is made: timedelta overflows at 2.7 million years, and int() of 1e308 is not free.
    if microseconds > LONGEST // timedelta(microseconds=1):
        raise _invalid(value, name, "is longer than 100 years")
    return timedelta(microseconds=round(microseconds))


def _invalid(value: object, name: str, why: str) -> InvalidOption:
    shown = repr(value) if not isinstance(value, int) or value.bit_length() <= _SHOWN_BITS else "a huge number"
    shown = shown if len(shown) <= 60 else shown[:60] + "…"  # noqa: PLR2004 - a line of a terminal
    return InvalidOption(
        f"{name}: {shown} {why}. Write a number of seconds, a timedelta or a text such as "
        '"250ms", "30s", "1h30m", "2 days" or "PT10M".'
    )
