"""Cursors: where the live part of each pair's queue begins, so that a claim never walks the dead entries before it.

Late commits land behind a cursor; three things find them:
    a wake-up carries the lowest run_after of what was committed and lowers the cursor to it
    for ten seconds after a pair was woken or served, one claim a second looks five seconds further back (lagged),
        but for a pair that is ten seconds behind: what is enqueued now lands before its cursor, not behind it
    the sweep publishes the true head of every pair (low_water), and cursors are lowered to that
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from rowlock.model.pair import Pair

Probe: TypeAlias = "tuple[Pair, datetime]"
"""A pair and the run_after from which on a claim looks at it."""
BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)
LAG: Final = timedelta(seconds=5)
_FAR_BEHIND: Final = 2 * LAG
_LAGGED_EVERY: Final = 1.0
_LAGGED_FOR: Final = 10.0
_HOT_FOR: Final = 60.0
_CHEAP_PAIRS: Final = 50
"""A probe is about 25 us: below this many pairs it is not worth telling hot from cold."""


class Cursors:
    """One cursor per pair, in the worker's memory only. Times in seconds of the given monotonic clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._low: dict[Pair, datetime] = {}
        self._active: dict[Pair, float] = {}
        self._lagged: dict[Pair, float] = {}
        """When each pair was last looked at with the lag: per pair, else a busy lane would use up everybody's turn."""
        self._unseen: set[Pair] = set()
        """Pairs to be probed however cold they are; a lane without a free slot sees its own later."""
        self._told: set[Pair] = set()
        """Pairs that were heard of since they were last probed."""
        self._age: dict[Pair, datetime] = {}
        """Its cursor, or up to where a claim is known to have left nothing older: to choose by, not to start from."""
        self._by_kind: dict[str, list[Pair]] = {}
        self._counted = 0
        """Pairs in the index by kind; they are never forgotten, so another number means new ones."""

    def publish(self, rows: Iterable[tuple[Pair, datetime | None]]) -> bool:
        """Take over the heads the last sweep found. A cursor is only ever lowered; a new pair starts at its head.

        Returns whether there is something to look for.
        """
        news = False
        for pair, low_water in rows:
            news = news or low_water is not None or pair not in self._low
            if pair not in self._low:
                self._low[pair] = self._age[pair] = low_water or BEGINNING
            elif low_water is not None:
                self._low[pair] = self._age[pair] = min(low_water, self._low[pair])
                self._told.add(pair)
        self.everywhere()
        return news

    def lower(self, pair: Pair, run_after: datetime) -> None:
        """A wake-up told of a job at run_after; of a pair nobody knew there may be older ones."""
        self._low[pair] = self._age[pair] = min(run_after, self._low.get(pair, BEGINNING))
        self._told.add(pair)
        self._active[pair] = self._monotonic()

    def everywhere(self) -> None:
        """Probe every pair with its next claim: a message was missed, or too long to name its pairs."""
        self._unseen.update(self._low)

    def advance(self, pair: Pair, run_after: datetime) -> None:
        """A job at run_after was claimed."""
        if run_after > self._low.get(pair, BEGINNING):
            self._low[pair] = run_after
            self._age[pair] = max(run_after, self._age.get(pair, BEGINNING))
        self._active[pair] = self._monotonic()

    def exhausted(self, probes: Iterable[Probe], now: datetime) -> None:
        """A claim found nothing more here at `now` (database clock): what others served is skipped for good.

        Without this an idle worker would walk over everything its neighbours have claimed since its own last claim.
        What was heard of while the claim was under way may have been committed behind its back: that cursor stays.
        """
        floor = now - LAG
        for pair, _ in probes:
            if pair not in self._told:
                self._low[pair] = max(self._low[pair], floor)
                self._age[pair] = max(self._age[pair], floor)

    def pairs(self, kinds: Collection[str]) -> list[Pair]:
        """Where a claim has to look for these kinds."""
        if self._counted != len(self._low):
            self._count_pairs()
        pairs = [pair for kind in kinds for pair in self._by_kind.get(kind, ())]
        if len(pairs) <= _CHEAP_PAIRS:
            return pairs
        unseen, active, hot, never = self._unseen, self._active, self._monotonic() - _HOT_FOR, -math.inf
        return [pair for pair in pairs if pair in unseen or active.get(pair, never) > hot]

    def starts(self, pairs: Collection[Pair], at: datetime | None = None) -> list[Probe]:
        """From where on a claim looks at these pairs. at: the database's clock, None: unknown."""
        now = self._monotonic()
        self._told.difference_update(pairs)
        low, active, lagged = self._low, self._active, self._lagged
        lively, due, never = now - _LAGGED_FOR, now - _LAGGED_EVERY, -math.inf
        behind = BEGINNING if at is None else at - _FAR_BEHIND

        def start(pair: Pair) -> datetime:
            looks_back = active.get(pair, never) > lively and lagged.get(pair, never) <= due and low[pair] >= behind
            return low[pair] - LAG if looks_back else low[pair]

        return [(pair, start(pair)) for pair in pairs]

    def oldest(self, pairs: Iterable[Pair], n: int) -> list[Pair]:
        """The n of these pairs that have the oldest jobs, as far as it is known without looking; those first."""
        return sorted(pairs, key=self._age.__getitem__)[:n]

    def passed(self, pairs: Iterable[Pair], run_after: datetime) -> None:
        """A claim found that these pairs have no older jobs than this, but for those it was told of meanwhile."""
        for pair in pairs:
            if pair not in self._told:
                self._age[pair] = max(run_after, self._age[pair])

    def above(self, kinds: Collection[str], priority: int) -> list[Probe]:
        """The pairs of these kinds with a higher priority, and where they begin."""
        if self._counted != len(self._low):
            self._count_pairs()
        return [
            (pair, self._low[pair] - LAG)
            for kind in kinds
            for pair in self._by_kind.get(kind, ())
            if pair[1] > priority
        ]

    def _count_pairs(self) -> None:
        self._by_kind = {}
        for pair in self._low:
            self._by_kind.setdefault(pair[0], []).append(pair)
        self._counted = len(self._low)

    def probed(self, probes: Iterable[Probe], *, drained: bool) -> None:
        """A claim with these probes came back; call it before the cursors are moved by what it brought.

        drained: it took less than it asked for. Else there may be more in any of the pairs, the cold ones included.
        """
        now = self._monotonic()
        for pair, start in probes:
            if drained:
                self._unseen.discard(pair)
            if start < self._low[pair]:
                self._lagged[pair] = now

    @property
    def lagging(self) -> bool:
        """Whether some pair was active so recently that a late commit may still hide behind its cursor."""
        now = self._monotonic()
        return any(now - at < _LAGGED_FOR for at in self._active.values())
