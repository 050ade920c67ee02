"""The calculation: activities times factors, added up by year and scope. It computes; it neither reads nor writes."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING

from examples.emissions.factors import Factors, NoFactor
from examples.emissions.units import CannotConvert, Units, convert

if TYPE_CHECKING:
    from collections.abc import Iterable

    from examples.emissions.activity_csv import Activity


class Inventory:
    """The emissions of an organisation."""

    def __init__(self, factors: Factors, units: Units) -> None:
        self._factors, self._units = factors, units
        self.kg_co2e: defaultdict[tuple[int, int], Decimal] = defaultdict(Decimal)
        """By year and scope."""
        self.lines: defaultdict[tuple[int, int], int] = defaultdict(int)
        """How many lines are in each sum."""
        self.rejected: list[str] = []
        """A message for each line that could not be calculated."""

    def add(self, activities: Iterable[Activity]) -> None:
        """Add activities; those without a factor, or in a unit that does not fit it, are rejected."""
        for each in activities:
            try:
                scope, emitted = self._emitted(each)
            except (NoFactor, CannotConvert) as error:
                self.rejected.append(f"{each.place}: {error}")
                continue
            self.kg_co2e[each.day.year, scope] += emitted
            self.lines[each.day.year, scope] += 1

    def _emitted(self, activity: Activity) -> tuple[int, Decimal]:
        factor = self._factors.on(activity.activity, activity.day)
        return factor.scope, convert(activity.quantity, activity.unit, factor.unit, self._units) * factor.kg_co2e
