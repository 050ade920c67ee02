"""Rates: how often jobs may start, and pauses: of a person, or of a handler that was told to wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.machine.action import Action, untouched
from tests.machine.oracle import Meant, Memory
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.factories import Store
    from tests.machine.snapshot import Snapshot

    from rowlock.model.job import Claim


class Start(NamedTuple):
    """A start: no sooner and no later than that, and how much of its rate it used."""

    first: float
    last: float
    weight: int


@dataclass(frozen=True, slots=True)
class Window:
    """Never more than so many in any span of so many seconds."""

    amount: int
    per: float

    def check(self, starts: Sequence[Start]) -> None:
        for one, other in zip(starts, starts[self.amount :], strict=False):
            assert other.last - one.first >= self.per, f"more than {self.amount} within {self.per} s: {starts}"


@dataclass(frozen=True, slots=True)
class Bucket:
    """Full in the beginning; a token every `pace` seconds."""

    burst: int
    pace: float

    def check(self, starts: Sequence[Start]) -> None:
        """Whenever one began to count: no more than a full bucket and what trickled in since."""
        for i, one in enumerate(starts):
            for used, other in zip(accumulate(start.weight for start in starts[i:]), starts[i:], strict=True):
                room = self.burst + (other.last - one.first) / self.pace
                assert used <= room + 0.01, f"{used} were used where there was room for {room}: {starts}"

    def level(self, starts: Sequence[Start], now: float) -> float:
        """How many tokens there are, at least."""
        found, used = float(self.burst), 0
        for start in reversed(starts):
            used += start.weight
            found = min(found, self.burst + (now - start.last) / self.pace - used)
        return found


WINDOWS: Final = {"r": Window(2, 60.0)}
BUCKETS: Final = {"k": Bucket(3, 30.0)}


@dataclass(frozen=True)
class PauseRate(Action):
    """For so many seconds; None: no longer."""

    key: str
    seconds: float | None

    @override
    async def run(self, store: Store) -> Any:
        if self.seconds is None:
            return await store.fetch("rate_resume", key=self.key)
        span = timedelta(seconds=self.seconds)
        return await store.fetch("rate_pause", key=self.key, until=None, lasting=span, by_whom="ann")

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        ends = 0.0 if self.seconds is None else before.now + self.seconds
        assert ends <= after.rates[self.key][1] <= ends + (after.now - before.now)


@dataclass(frozen=True)
class Heed(Action):
    """A handler was told to come back later: under its claim, and never sooner than somebody has said before."""

    claim: Claim
    seconds: float

    @override
    async def run(self, store: Store) -> Any:
        values = {"ids": [self.claim.job_id], "fences": [self.claim.fence], "delays": [self.seconds], "keys": [None]}
        return {row["key"] for row in await store.fetch("rates_retry_after", **values)}

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        job = before.current(self.claim)
        mine = set() if job is None else set(job.rates or ())
        assert answer == mine, f"{self.claim} pauses {mine}, the store says {answer}"
        untouched(before, after, self.claim.job_id)
        for key, (_, paused) in after.rates.items():
            was = before.rates[key][1]
            if key not in mine:
                assert paused == was, f"{key} was paused by a claim that has nothing to do with it"
                continue
            assert max(was, before.now + self.seconds) <= paused <= max(was, after.now + self.seconds)
