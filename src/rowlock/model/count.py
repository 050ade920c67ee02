"""Count: a number of rows, counted up to a cap. Counting a backlog of millions costs too much for a number to show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows. exact False: counting stopped there, so there are at least `value`; prints as 10,000+."""

    value: int = 0
    exact: bool = field(default=True, kw_only=True)

    @classmethod
    def upto(cls, found: int, cap: int) -> Self:
        """The result of a count that stopped after `cap` + 1 rows."""
        return cls(min(found, cap), exact=found <= cap)

    @property
    def capped(self) -> bool:
        """The opposite of `exact`."""
        return not self.exact

    def __add__(self, other: Count) -> Count:
        """The sum; exact if both are."""
        return Count(self.value + other.value, exact=self.exact and other.exact)

    def __bool__(self) -> bool:
        """Whether there is any row."""
        return self.value > 0 or not self.exact

    @override
    def __str__(self) -> str:
        return f"{self.value:,}" + "+" * (not self.exact)


def total(counts: Iterable[Count]) -> Count:
    """The sum of all counts."""
    return sum(counts, Count())
