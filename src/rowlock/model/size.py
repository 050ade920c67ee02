"""Sizes as people write them: ``"4GiB"``, ``"512 MB"``, ``"2G"``, or bytes."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from rowlock.errors import InvalidOption

Size: TypeAlias = str | int

_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")
_UNITS: Final = {
    "": 1,
    "b": 1,
    **{f"{letter}{end}": 1024**power for power, letter in enumerate("kmgt", 1) for end in ("", "ib")},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}


def size(value: Size, name: str = "size") -> int:
    """Read a number of bytes, at least 1. name: the option that an error message names."""
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        match = _PART.fullmatch(value) if isinstance(value, str) else None
        unit = _UNITS.get(match[2].lower()) if match else None
        number = int(float(match[1]) * unit) if match and unit else 0
    if number <= 0:
        message = f'{name} must be a size such as "512MB", "4GiB" or a number of bytes; got {value!r}.'
        raise InvalidOption(message)
    return number


def shown(number: int) -> str:
    """Write bytes for people: 1.5 GiB."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if number >= 1024**power:
            return f"{number / 1024**power:.1f}".removesuffix(".0") + f" {unit}"
    return f"{number} B"
