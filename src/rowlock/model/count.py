"""Count: how many, as far as it was counted. Nobody counts a backlog of millions to show a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows. capped: counting stopped there, so it is at least `value`; prints as 10,000+."""

    value: int = 0
    capped: bool = False

    @classmethod
    def upto(cls, found: int, cap: int) -> Self:
        """Of a count that looked for one row more than `cap`."""
        return cls(min(found, cap), found > cap)

    @property
    def exact(self) -> bool:
        """Whether there are exactly that many."""
        return not self.capped

    def __add__(self, other: Count) -> Count:
        """Both together; capped if one of them is."""
        return Count(self.value + other.value, self.capped or other.capped)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return self.value > 0 or self.capped

    @override
    def __str__(self) -> str:
        return f"{self.value:,}" + "+" * self.capped


def total(counts: Iterable[Count]) -> Count:
    """All of them together."""
    return sum(counts, Count())
