"""Fairness: how many jobs of each pair a worker has claimed in fair lanes, so that others come first the next time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowlock.model.queue_pair import Pair
    from rowlock.store.jobs.claim import LevelProbes


class Fairness:
    """Counts in the worker's memory only: when each worker is fair by itself, all of them together are."""

    def __init__(self) -> None:
        self._claimed: dict[Pair, float] = {}

    def debts(self, pairs: Sequence[Pair]) -> list[float]:
        """How many jobs more each pair was given than the pair that was given the fewest."""
        claimed = [self._claimed.get(pair, 0.0) for pair in pairs]
        fewest = min(claimed, default=0.0)
        return [n - fewest for n in claimed]

    def record(self, probed: Iterable[Pair], claimed: Iterable[Pair]) -> None:
        """Count a claim that looked at the probed pairs and brought jobs of the claimed ones, one entry per job.

        A pair without jobs collects no credit for the time: it is raised to just below those that had some.
        """
        hits = Counter(claimed)
        if not hits:
            return
        for pair, n in hits.items():
            self._claimed[pair] = self._claimed.get(pair, 0.0) + n
        floor = min(self._claimed[pair] for pair in hits) - hits.total()
        for pair in probed:
            if self._claimed.get(pair, 0.0) < floor:
                self._claimed[pair] = floor


def pairs_of(values: LevelProbes) -> list[Pair]:
    """The pairs among the parameters of a claim, in their order there."""
    levels = zip(values["priorities"], values["first_pairs"], values["last_pairs"], strict=True)
    priorities = [priority for priority, first, last in levels for _ in range(first, last + 1)]
    return list(zip(values["kinds"], priorities, values["shares"], strict=True))
