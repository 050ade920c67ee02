"""Counts of ended attempts and jobs: totals for counters, series for charts, and histograms of durations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from rowlock.model.state import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from rowlock.model.count import Count

SeriesBy: TypeAlias = Literal["kind", "lane"]
"""What a series is made for each of."""
BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)
"""Upper bounds of the histogram buckets in seconds, each inclusive; a last bucket has no bound."""
UNSTARTED: Final = "unstarted"
"""The outcome of a job that ended without an attempt."""
REOPENED: Final = "reopened"
"""The outcome of a finished job that a person retried."""
OTHER: Final = "(other)"
"""The kind, lane or tenant of everything beyond the most series that are counted."""
_FAILED_ATTEMPTS: Final = frozenset({"failed", "died", "lost"})


class CountRow(Protocol):
    """A row with outcome, state, measure, bucket, n and seconds."""

    def __getitem__(self, name: str, /) -> Any:  # noqa: ANN401 - of the column
        """The value of a column."""


@dataclass(frozen=True, slots=True)
class DurationHistogram:
    """How many durations fell into each bucket. counts: one more than BOUNDS, not cumulative; seconds: their sum."""

    counts: Sequence[int] = (0,) * (len(BOUNDS) + 1)
    seconds: float = 0.0

    @property
    def total(self) -> int:
        """How many durations were counted."""
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """Seconds that this share of the durations did not exceed, interpolated within a bucket; None: there are none.

        A duration beyond the last bound counts as that bound.
        """
        rank, below = share * self.total, 0
        if not self.total:
            return None
        for index, count in enumerate(self.counts[:-1]):
            if count and below + count >= rank:
                low = BOUNDS[index - 1] if index else 0.0
                return low + (BOUNDS[index] - low) * (rank - below) / count
            below += count
        return float(BOUNDS[-1])


@dataclass(frozen=True, slots=True)
class EndCounts:
    """What ended. ended: jobs by final state; attempts: by outcome and whether the job ended with it.

    reopened: finished jobs that persons retried; run, wait: durations of the attempts that ended.
    """

    ended: Mapping[str, int] = field(default_factory=dict)
    attempts: Mapping[tuple[str, bool], int] = field(default_factory=dict)
    reopened: int = 0
    run: DurationHistogram = field(default_factory=DurationHistogram)
    wait: DurationHistogram = field(default_factory=DurationHistogram)

    @property
    def retried(self) -> int:
        """Attempts that failed, died or were lost, and whose job went on."""
        return sum(n for (outcome, final), n in self.attempts.items() if outcome in _FAILED_ATTEMPTS and not final)


@dataclass(frozen=True, slots=True)
class KindTotals:
    """Everything that ended of one kind in one lane. lane "": jobs that ended without running. running: right now."""

    kind: str
    lane: str
    counts: EndCounts
    running: int = 0

    @property
    def started(self) -> int:
        """Attempts that were started."""
        return sum(self.counts.attempts.values()) + self.running


@dataclass(frozen=True, slots=True)
class JobTotals:
    """Counts since the tables have them. tenants: ended jobs by tenant ("" for none) and final state."""

    kinds: Sequence[KindTotals]
    tenants: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """What ended from `at` on, for one step. partial: the step is not over."""

    at: datetime
    counts: EndCounts
    partial: bool = False


@dataclass(frozen=True, slots=True)
class CountSeries:
    """The points of one kind or lane in order of time, with a point for every step. name None: of all of them."""

    name: str | None
    points: Sequence[SeriesPoint]


@dataclass(frozen=True, slots=True)
class SeriesAnswer:
    """Series over a window, the busiest first. since: the beginning of the first step."""

    since: datetime
    step: timedelta
    series: Sequence[CountSeries]


@dataclass(frozen=True, slots=True)
class KindStats:
    """How jobs of one kind ended and waited within a window. since: its beginning.

    due, scheduled, running: jobs of the kind right now. lane: the lane that takes the kind; None: no lane does.
    """

    kind: str
    since: datetime
    window: timedelta
    counts: EndCounts
    lane: str | None
    due: Count
    scheduled: Count
    oldest_wait: timedelta | None
    running: int
    last_failed_at: datetime | None
    last_failed_id: int | None
    last_error: Mapping[str, object] | None

    @property
    def failure_rate(self) -> float:
        """Share of failures among the ends, from 0 to 1; 0 when nothing ended."""
        ended = sum(self.counts.ended.values())
        return self.counts.ended.get("failed", 0) / ended if ended else 0.0


def end_counts(rows: Iterable[CountRow]) -> EndCounts:
    """From rows with outcome, state, measure, bucket, n and seconds."""
    ended: dict[str, int] = {}
    attempts: dict[tuple[str, bool], int] = {}
    buckets = {"run": [0] * (len(BOUNDS) + 1), "wait": [0] * (len(BOUNDS) + 1)}
    seconds, reopened = {"run": 0.0, "wait": 0.0}, 0
    for row in rows:
        outcome, state, measure, n = row["outcome"], row["state"], row["measure"], row["n"]
        if measure in buckets:
            buckets[measure][row["bucket"]] += n
            seconds[measure] += row["seconds"]
        if measure == "wait":
            continue
        if state in FINAL:
            ended[state] = ended.get(state, 0) + n
        if outcome == REOPENED:
            reopened += n
        elif outcome != UNSTARTED:
            key = (outcome, state in FINAL)
            attempts[key] = attempts.get(key, 0) + n
    run, wait = (DurationHistogram(tuple(buckets[name]), seconds[name]) for name in ("run", "wait"))
    return EndCounts(ended, attempts, reopened, run, wait)
