"""Cursors: where the live part of each pair's queue begins, so that a claim never walks the dead entries before it.

Late commits land behind a cursor; three things find them:
    a wake-up carries the lowest run_after of the committed jobs and lowers the cursor to it
    for ten seconds after a pair was woken or served, one claim a second looks five seconds further back (lagged),
        but for a pair that is ten seconds behind: what is enqueued now lands before its cursor, not behind it
    the sweep publishes the true head of every pair (low_water), and cursors are lowered to that
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.model.queue_pair import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import datetime

    from rowlock.model.queue_pair import Pair

Probe: TypeAlias = "tuple[Pair, datetime]"
"""A pair and the run_after from which a claim reads it."""
LAG: Final = timedelta(seconds=5)
_FAR_BEHIND: Final = 2 * LAG
_LAGGED_EVERY: Final = 1.0
_LAGGED_FOR: Final = 10.0
_HOT_FOR: Final = 60.0
_CHEAP_PAIRS: Final = 50
"""With so many pairs or fewer all are probed, hot or cold: a probe takes about 25 us."""


class Cursors:
    """One cursor per pair, in the worker's memory only. Times without a date are seconds of the monotonic clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._low: dict[Pair, datetime] = {}
        self._active: dict[Pair, float] = {}
        self._lagged: dict[Pair, float] = {}
        """When each pair was last read with the lag: per pair, or a busy lane would use up the turns of all others."""
        self._unseen: set[Pair] = set()
        """Pairs that the next claim probes however cold they are; a lane without a free slot probes its own later."""
        self._announced: set[Pair] = set()
        """Pairs with new jobs, by a message or a sweep, since they were last probed."""
        self._age: dict[Pair, datetime] = {}
        """A lower bound of the oldest job of each pair: used to choose pairs, never to start a probe from."""
        self._by_kind: dict[str, list[Pair]] = {}
        self._counted = 0
        """Pairs in _by_kind. Pairs are never forgotten, so another number means new pairs."""

    def publish(self, rows: Iterable[tuple[Pair, datetime | None]]) -> bool:
        """Lower the cursors to the heads that the last sweep found; a new pair starts at its head.

        Returns whether there may be something to claim.
        """
        anything = False
        for pair, low_water in rows:
            anything = anything or low_water is not None or pair not in self._low
            if pair not in self._low:
                self._low[pair] = self._age[pair] = low_water or BEGINNING
            elif low_water is not None:
                self._low[pair] = self._age[pair] = min(low_water, self._low[pair])
                self._announced.add(pair)
        self.everywhere()
        return anything

    def lower(self, pair: Pair, run_after: datetime) -> None:
        """Lower the cursor to a job that a wake-up announced; a pair that is new here is read from the beginning."""
        self._low[pair] = self._age[pair] = min(run_after, self._low.get(pair, BEGINNING))
        self._announced.add(pair)
        self._active[pair] = self._monotonic()

    def everywhere(self) -> None:
        """Probe every pair with the next claim: a message was missed, or named no pairs."""
        self._unseen.update(self._low)

    def advance(self, pair: Pair, run_after: datetime) -> None:
        """Raise the cursor to a job that was claimed."""
        if run_after > self._low.get(pair, BEGINNING):
            self._low[pair] = run_after
            self._age[pair] = max(run_after, self._age.get(pair, BEGINNING))
        self._active[pair] = self._monotonic()

    def exhausted(self, probes: Iterable[Probe], now: datetime) -> None:
        """Raise the cursors of pairs in which a claim found nothing more at `now` (database clock).

        Without this an idle worker would read all rows that its neighbours have claimed since its own last claim.
        A pair that was announced during the claim keeps its cursor: its job may have been committed after the read.
        """
        floor = now - LAG
        for pair, _ in probes:
            if pair not in self._announced:
                self._low[pair] = max(self._low[pair], floor)
                self._age[pair] = max(self._age[pair], floor)

    def pairs(self, kinds: Collection[str]) -> list[Pair]:
        """The pairs of these kinds that a claim has to probe; with many pairs, the cold ones only once per sweep."""
        if self._counted != len(self._low):
            self._count_pairs()
        pairs = [pair for kind in kinds for pair in self._by_kind.get(kind, ())]
        if len(pairs) <= _CHEAP_PAIRS:
            return pairs
        unseen, active, hot, never = self._unseen, self._active, self._monotonic() - _HOT_FOR, -math.inf
        return [pair for pair in pairs if pair in unseen or active.get(pair, never) > hot]

    def starts(self, pairs: Collection[Pair], at: datetime | None = None) -> list[Probe]:
        """Where a claim starts to read each of these pairs. at: the database's clock, None: unknown."""
        now = self._monotonic()
        self._announced.difference_update(pairs)
        low, active, lagged = self._low, self._active, self._lagged
        lively, due, never = now - _LAGGED_FOR, now - _LAGGED_EVERY, -math.inf
        behind = BEGINNING if at is None else at - _FAR_BEHIND

        def start(pair: Pair) -> datetime:
            looks_back = active.get(pair, never) > lively and lagged.get(pair, never) <= due and low[pair] >= behind
            return low[pair] - LAG if looks_back else low[pair]

        return [(pair, start(pair)) for pair in pairs]

    def oldest(self, pairs: Iterable[Pair], n: int) -> list[Pair]:
        """The n pairs with the oldest jobs, oldest first, as far as known without asking the database."""
        return sorted(pairs, key=self._age.__getitem__)[:n]

    def passed(self, pairs: Iterable[Pair], run_after: datetime) -> None:
        """Note that these pairs have no jobs older than run_after, unless they were announced during the claim."""
        for pair in pairs:
            if pair not in self._announced:
                self._age[pair] = max(run_after, self._age[pair])

    def above(self, kinds: Collection[str], priority: int) -> list[Probe]:
        """Probes of all pairs of these kinds with a higher priority, the lag included."""
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
        """Note a claim with these probes, before its rows move the cursors.

        drained: it brought less than it asked for. Otherwise any pair may have more jobs, the cold ones included.
        """
        now = self._monotonic()
        for pair, start in probes:
            if drained:
                self._unseen.discard(pair)
            if start < self._low[pair]:
                self._lagged[pair] = now

    @property
    def lagging(self) -> bool:
        """Whether some pair was active so recently that a late commit may still lie behind its cursor."""
        now = self._monotonic()
        return any(now - at < _LAGGED_FOR for at in self._active.values())
