"""Saturation: which lanes have more jobs than a claim can take, and at which of their pairs the next claim looks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from rowlock.flow.claim.cursors import Cursors, Probe
    from rowlock.model.lane import Lane
    from rowlock.model.queue_pair import Pair

_JOBS_PER_PAIR: Final = 8
"""How many jobs a claim from a saturated lane expects of each pair it looks at."""


class Saturation:
    """What the last claim from each lane says about the next one."""

    def __init__(self, cursors: Cursors) -> None:
        self._cursors = cursors
        self.names: set[str] = set()
        """Saturated lanes: the last claim filled all free slots, or looked at some of the pairs only."""
        self._short: set[str] = set()
        """Saturated lanes whose last claim looked at some pairs and did not fill the slots: the next looks at all."""

    def record(self, name: str, *, filled: bool, all_pairs: bool) -> None:
        """Note a claim from a lane. filled: it brought all jobs it asked for; all_pairs: it looked at every pair."""
        self.names.discard(name)
        self._short.discard(name)
        if filled or not all_pairs:
            self.names.add(name)
        if not filled and not all_pairs:
            self._short.add(name)

    def keep(self, names: Collection[str]) -> None:
        """Forget all lanes but these."""
        self.names.intersection_update(names)
        self._short.intersection_update(names)

    def order(self, lane: Lane, free: int, pairs: Sequence[Pair]) -> list[Pair] | None:
        """The pairs of a saturated lane in the order to empty them; None: merge the heads of all pairs instead.

        The highest priority first, then the oldest jobs. Of the lowest priority only a few pairs: a claim costs its
        probes, and hundreds of them cost more than the jobs. If those few do not fill the slots, the next claim looks
        at all pairs.
        """
        few = max(2, math.ceil(free / _JOBS_PER_PAIR))
        if lane.name not in self.names or lane.order != "fast" or len(pairs) < 2 * few:
            return None
        *higher, lowest = sorted({pair[1] for pair in pairs}, reverse=True)
        wide = [pair for pair in pairs if pair[1] == lowest] if higher else pairs
        if len(wide) < 2 * few:
            return None
        levels = [[pair for pair in pairs if pair[1] == priority] for priority in higher]
        above = [pair for level in levels for pair in self._cursors.oldest(level, len(level))]
        return above + self._cursors.oldest(wide, len(wide) if lane.name in self._short else few)

    def emptied(
        self, probes: Sequence[Probe], gave: Collection[Pair], began: datetime, *, filled: bool, in_order: bool
    ) -> None:
        """Note a claim that emptied one pair after the other. gave: the pairs with claimed jobs.

        in_order: the pairs were emptied as listed, so all before the last that gave are empty.
        """
        last = max((at for at, (pair, _) in enumerate(probes) if pair in gave), default=0) if in_order else 0
        self._cursors.passed((pair for pair, _ in (probes[:last] if filled else probes)), began)

    def merged(self, probes: Sequence[Probe], furthest: Mapping[Pair, datetime]) -> None:
        """Note a claim that merged heads until the slots were full. furthest: the youngest claimed job of each pair.

        On the lowest priority it reached no pair has a job older than the youngest claimed one.
        """
        gave = [pair for pair, _ in probes if pair in furthest]
        if not gave:
            return
        lowest = min(priority for _, priority, _ in gave)
        youngest = max(furthest[pair] for pair in gave if pair[1] == lowest)
        # The levels above were emptied, and those below not read.
        self._cursors.passed((p for p, _ in probes if p[1] == lowest and p not in furthest), youngest)
