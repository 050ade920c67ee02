"""t-SNE in plain Python: places vectors in a plane so that neighbours stay neighbours. It burns a processor."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

Points = list[list[float]]
_NEIGHBOURS: Final = 5.0
"""Perplexity: how many neighbours a point has, about."""
_RATE: Final = 10.0
_LEAST: Final = 1e-12


@dataclass
class Layout:
    """How far the layout is: it can be stored after any iteration, and goes on from there."""

    iteration: int
    points: Points
    speed: Points

    @classmethod
    def start(cls, count: int) -> Layout:
        """Points near the middle, the same ones every time."""
        chance = random.Random(1)  # noqa: S311 - not for secrets
        points = [[chance.gauss(0, 1e-2), chance.gauss(0, 1e-2)] for _ in range(count)]
        return cls(0, points, [[0.0, 0.0] for _ in range(count)])


def affinities(vectors: Sequence[Sequence[float]]) -> Points:
    """How near any two vectors are, as symmetric probabilities."""
    rows = [_row(n, vectors) for n in range(len(vectors))]
    total = 2.0 * len(rows)
    return [[max((rows[i][j] + rows[j][i]) / total, _LEAST) for j in range(len(rows))] for i in range(len(rows))]


def _row(number: int, vectors: Sequence[Sequence[float]]) -> list[float]:
    """The nearness of all vectors to one, as narrow as makes the wanted number of neighbours."""
    distances = [math.dist(vectors[number], other) ** 2 for other in vectors]
    low, high = 0.0, 1e4
    row: list[float] = []
    for _ in range(40):
        narrow = (low + high) / 2
        weights = [0.0 if n == number else math.exp(-narrow * each) for n, each in enumerate(distances)]
        total = sum(weights) or _LEAST
        row = [weight / total for weight in weights]
        entropy = -sum(each * math.log(each) for each in row if each > _LEAST)
        low, high = (narrow, high) if entropy > math.log(_NEIGHBOURS) else (low, narrow)
    return row


def improve(layout: Layout, near: Points) -> Layout:
    """One iteration: neighbours attract each other, all others repel."""
    points, count = layout.points, len(layout.points)
    pulls = [[1 / (1 + (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) for b in points] for a in points]
    total = sum(map(sum, pulls)) - count or _LEAST
    momentum = 0.5 if layout.iteration < 100 else 0.8  # noqa: PLR2004 - as in the paper
    speed, moved = [], []
    for i in range(count):
        x = y = 0.0
        for j in range(count):
            force = 4 * (near[i][j] - pulls[i][j] / total) * pulls[i][j]
            x += force * (points[i][0] - points[j][0])
            y += force * (points[i][1] - points[j][1])
        speed.append([momentum * layout.speed[i][0] - _RATE * x, momentum * layout.speed[i][1] - _RATE * y])
        moved.append([points[i][0] + speed[i][0], points[i][1] + speed[i][1]])
    return Layout(layout.iteration + 1, moved, speed)
