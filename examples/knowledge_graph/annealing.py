"""Simulated annealing: groups concepts so that few relations lead from one group to another."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Pairs = list[tuple[str, str]]
SWEEPS: Final = 60
_COOLER: Final = 0.93


def groups_while_cooling(concepts: Sequence[str], pairs: Pairs, groups: int) -> Iterator[dict[str, int]]:
    """The group of each concept after every sweep over all concepts; the last one is the result."""
    chance = random.Random(1)  # noqa: S311 - not for secrets
    found = {concept: chance.randrange(groups) for concept in concepts}
    warmth = 2.0
    for _ in range(SWEEPS):
        for concept in concepts:
            other = chance.randrange(groups)
            worse = _cost(concept, other, found, pairs) - _cost(concept, found[concept], found, pairs)
            if worse <= 0 or chance.random() < math.exp(-worse / warmth):
                found[concept] = other
        warmth *= _COOLER
        yield found


def _cost(concept: str, group: int, found: dict[str, int], pairs: Pairs) -> float:
    """Relations that would leave the group, and how crowded it would be."""
    cut = sum(found[other] != group for pair in pairs if concept in pair for other in pair if other != concept)
    return cut + 2 * Counter(found.values())[group] / len(found)
