"""Turns: how much each pair of the fair lanes was given by this worker, so that the next one is another's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowlock.flow.enqueue.wake import Pair
    from rowlock.store.jobs.claim import LevelProbes


class Turns:
    """In the worker's memory only: each worker is fair by itself, so all of them together are."""

    def __init__(self) -> None:
        self._given: dict[Pair, float] = {}

    def debts(self, pairs: Sequence[Pair]) -> list[float]:
        """What each pair was given beyond the one that was given least."""
        given = [self._given.get(pair, 0.0) for pair in pairs]
        least = min(given, default=0.0)
        return [n - least for n in given]

    def give(self, pairs: Iterable[Pair], taken: Iterable[Pair]) -> None:
        """A claim with these pairs brought jobs of those. A pair that had none meanwhile hoards no credit."""
        hits = Counter(taken)
        if not hits:
            return
        for pair, n in hits.items():
            self._given[pair] = self._given.get(pair, 0.0) + n
        floor = min(self._given[pair] for pair in hits) - hits.total()
        for pair in pairs:
            if self._given.get(pair, 0.0) < floor:
                self._given[pair] = floor


def pairs_of(values: LevelProbes) -> list[Pair]:
    """The pairs among the parameters of a claim, in their order there."""
    levels = zip(values["priorities"], values["first_pairs"], values["last_pairs"], strict=True)
    priorities = [priority for priority, first, last in levels for _ in range(first, last + 1)]
    return list(zip(values["kinds"], priorities, values["shares"], strict=True))
