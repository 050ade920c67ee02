"""Is it flat? A pure judge of series: what grows for as long as the run lasts is a leak, what settles is not.

The judged time is cut into windows, each folded to one value, and the windows into thirds. A series grows when the
median of its last third is above that of the first by more than is allowed and by more than its own noise, and when
both steps between the thirds had their share in it. A saw-tooth of garbage collection or vacuum has equal medians; a
single step has a share in one of the two only, and is allowed three times as much. The allowance does not grow with
time: a longer run sees smaller leaks.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

Point = tuple[float, float]
"""A moment, in seconds, and a value."""
Fold = Callable[[Sequence[float]], float]
WINDOWS: Final = 15
STEP: Final = 3.0
"""How many times its allowance a series may rise once."""
SHARE: Final = 0.3
"""Of the whole growth that each of its two steps must have to be called steady; a straight line has 0.5."""
COVERED: Final = 0.8
"""Of the windows must have a value."""
_SIGMA: Final = 1.4826
"""Median absolute deviation to standard deviation."""


def p99(values: Sequence[float]) -> float:
    """The smallest value that 99 of a hundred do not exceed."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


@dataclass(frozen=True, slots=True)
class Measure:
    """What is sampled, and how much it may rise: so much, plus a part of where it began."""

    name: str
    unit: str
    absolute: float
    relative: float = 0.0
    fold: Fold = statistics.median
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one measure of one thing. extra: more that this thing may rise."""

    measure: str
    of: str
    points: list[Point] = field(default_factory=list)
    extra: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a series. found: flat, step (and flat again), grows, or not judged."""

    measure: str
    of: str
    found: str
    first: float = 0.0
    """The median of the first third."""
    last: float = 0.0
    growth: float = 0.0
    allowed: float = 0.0
    per_hour: float = 0.0
    """Theil-Sen slope over the windows."""
    noise: float = 0.0
    """Standard deviation around that slope, as the median deviation gives it."""
    windows: tuple[Point, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against it; what was not judged says nothing."""
        return self.found != "grows"

    @property
    def is_judged(self) -> bool:
        """Whether there was enough to judge by."""
        return self.found != "not judged"

    @property
    def used(self) -> float:
        """The part of its allowance that it used."""
        return self.growth / self.allowed if self.allowed else math.inf if self.growth > 0 else 0.0


def judge(series: Series, measure: Measure, since: float, until: float) -> Verdict:
    """Look at a series between two moments."""
    windows = folded(series.points, measure.fold, since, until)
    if len(windows) < COVERED * WINDOWS:
        return Verdict(series.measure, series.of, "not judged", windows=tuple(windows))
    values = [value for _, value in windows]
    third = len(values) // 3
    first, middle, last = (statistics.median(part) for part in (values[:third], values[third:-third], values[-third:]))
    growth = last - first
    allowed = measure.absolute + series.extra + measure.relative * first
    slope = theil_sen(windows)
    noise = spread(windows, slope)
    return Verdict(
        series.measure,
        series.of,
        _found(growth, min(middle - first, last - middle), allowed, noise),
        first,
        last,
        growth,
        allowed,
        3600 * slope,
        noise,
        tuple(windows),
    )


def _found(growth: float, smaller_step: float, allowed: float, noise: float) -> str:
    if growth <= allowed or growth <= noise:
        return "flat"
    if smaller_step >= SHARE * growth or growth > STEP * allowed:
        return "grows"
    return "step"


def folded(points: Sequence[Point], fold: Fold, since: float, until: float) -> list[Point]:
    """One value per window, at its middle; a window without points is left out."""
    width = (until - since) / WINDOWS
    parts: list[list[float]] = [[] for _ in range(WINDOWS)]
    for at, value in points:
        if since <= at < until:
            parts[min(WINDOWS - 1, int((at - since) / width))].append(value)
    return [(since + (n + 0.5) * width, fold(part)) for n, part in enumerate(parts) if part]


def theil_sen(points: Sequence[Point]) -> float:
    """The median of the slopes between all pairs: a third of the points may be wild."""
    slopes = [(b - a) / (u - t) for (t, a), (u, b) in itertools.combinations(points, 2)]
    return statistics.median(slopes) if slopes else 0.0


def spread(points: Sequence[Point], slope: float) -> float:
    """How far points lie from the line with that slope."""
    rest = [value - slope * at for at, value in points]
    middle = statistics.median(rest)
    return _SIGMA * statistics.median(abs(value - middle) for value in rest)


def rates(points: Sequence[Point]) -> list[Point]:
    """A counter as growth per second, at the end of each interval."""
    return [(u, (b - a) / (u - t)) for (t, a), (u, b) in itertools.pairwise(points) if u > t]
