"""Emission factors: kilograms of CO2e per unit of an activity, each valid for a time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.emissions.units import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date
    from decimal import Decimal


@dataclass(frozen=True)
class Factor:
    """One factor. scope: 1 to 3 of the Greenhouse Gas Protocol; valid_until: the first day it no longer holds."""

    activity: str
    scope: int
    unit: str
    kg_co2e: Decimal
    valid_from: date
    valid_until: date | None = None

    def holds_on(self, day: date) -> bool:
        """Whether the day is within its validity."""
        return self.valid_from <= day and (self.valid_until is None or day < self.valid_until)


class NoFactor(ValueError):
    """An activity without a factor, or without one for that day."""


class Factors:
    """All factors that were published."""

    def __init__(self, factors: Iterable[Factor]) -> None:
        self._of: defaultdict[str, list[Factor]] = defaultdict(list)
        for factor in sorted(factors, key=lambda factor: factor.valid_from):
            self._of[factor.activity].append(factor)

    def on(self, activity: str, day: date) -> Factor:
        """The factor of an activity that holds on that day."""
        if activity not in self._of:
            message = f"there is no factor for {activity!r}{did_you_mean(activity, self._of)}"
            raise NoFactor(message)
        for factor in self._of[activity]:
            if factor.holds_on(day):
                return factor
        first, last = self._of[activity][0].valid_from, self._of[activity][-1].valid_until
        message = f"no factor for {activity!r} holds on {day}; they begin on {first}"
        raise NoFactor(message if last is None else f"{message} and end before {last}")
