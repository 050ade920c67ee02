"""Units: what they measure, and conversion between those of one dimension."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass(frozen=True)
class Unit:
    """A unit. in_base: how much of the dimension's base unit one of it is, such as 1000 for MWh in kWh."""

    symbol: str
    dimension: str
    in_base: Decimal


Units: TypeAlias = Mapping[str, Unit]
"""By symbol."""


class CannotConvert(ValueError):
    """A unit that is not known, or one of another dimension."""


def convert(quantity: Decimal, unit: str, wanted: str, units: Units) -> Decimal:
    """The same quantity in another unit."""
    given, target = _known(unit, units), _known(wanted, units)
    if given.dimension != target.dimension:
        message = f"{unit} measures {given.dimension}, but {wanted} measures {target.dimension}"
        raise CannotConvert(message)
    return quantity * given.in_base / target.in_base


def _known(symbol: str, units: Units) -> Unit:
    if symbol in units:
        return units[symbol]
    message = f"the unit {symbol!r} is not known{did_you_mean(symbol, units)}"
    raise CannotConvert(message)


def did_you_mean(word: str, known: Mapping[str, object]) -> str:
    """A suggestion to put behind the name of something unknown; empty: nothing is like it."""
    by_small = {each.casefold(): each for each in known}
    found = difflib.get_close_matches(word.casefold(), by_small, n=1)
    return f"; did you mean {by_small[found[0]]!r}?" if found else ""
