"""Crowds: lanes with more jobs than a claim can take, and which of their pairs it looks at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from rowlock.flow.claim.cursors import Cursors, Probe
    from rowlock.flow.enqueue.wake import Pair
    from rowlock.model.lane import Lane

_NARROW: Final = 8
"""Jobs per pair that a claim from a crowded lane reckons with."""


class Crowds:
    """What the last claim from each lane told of the next one."""

    def __init__(self, cursors: Cursors) -> None:
        self._cursors = cursors
        self.names: set[str] = set()
        """Lanes that gave all they were asked for, or might have, had all of their pairs been looked at."""
        self._dry: set[str] = set()
        """Those of them that did not: the next claim looks at all of their pairs."""

    def told(self, name: str, *, filled: bool, everywhere: bool) -> None:
        """A lane gave all it was asked for, or not. everywhere: all of its pairs were looked at."""
        self.names.discard(name)
        self._dry.discard(name)
        if filled or not everywhere:
            self.names.add(name)
        if not filled and not everywhere:
            self._dry.add(name)

    def keep(self, names: Collection[str]) -> None:
        """Forget all lanes but these."""
        self.names.intersection_update(names)
        self._dry.intersection_update(names)

    def order(self, lane: Lane, free: int, pairs: Sequence[Pair]) -> list[Pair] | None:
        """The pairs of a crowded lane in the order to empty them; None: it is not crowded, or their heads are merged.

        The highest priority first, then the oldest jobs. Of the lowest priority only a few: a claim costs its pairs,
        and hundreds of them more than the jobs. If those do not fill the lane, the next claim looks at all at once.
        """
        few = max(2, math.ceil(free / _NARROW))
        if lane.name not in self.names or lane.order != "fast" or len(pairs) < 2 * few:
            return None
        *higher, lowest = sorted({pair[1] for pair in pairs}, reverse=True)
        wide = [pair for pair in pairs if pair[1] == lowest] if higher else pairs
        if len(wide) < 2 * few:
            return None
        levels = [[pair for pair in pairs if pair[1] == priority] for priority in higher]
        above = [pair for level in levels for pair in self._cursors.oldest(level, len(level))]
        return above + self._cursors.oldest(wide, len(wide) if lane.name in self._dry else few)

    def emptied(
        self, probes: Sequence[Probe], gave: Collection[Pair], began: datetime, *, filled: bool, in_order: bool
    ) -> None:
        """Pairs were emptied one after the other. in_order: as listed, so all before the last that gave are empty."""
        last = max((at for at, (pair, _) in enumerate(probes) if pair in gave), default=0) if in_order else 0
        self._cursors.passed((pair for pair, _ in (probes[:last] if filled else probes)), began)

    def merged(self, probes: Sequence[Probe], furthest: Mapping[Pair, datetime]) -> None:
        """Heads were merged until the lane was filled: on its last level no head is older than the youngest taken."""
        gave = [pair for pair, _ in probes if pair in furthest]
        if not gave:
            return
        lowest = min(priority for _, priority, _ in gave)
        youngest = max(furthest[pair] for pair in gave if pair[1] == lowest)
        # The levels above were emptied, and those below not read.
        self._cursors.passed((p for p, _ in probes if p[1] == lowest and p not in furthest), youngest)
