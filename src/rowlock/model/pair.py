"""Kind, priority and share of a queued job: each such pair is a queue of its own, with one cursor and one probe."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Pair: TypeAlias = tuple[str, int, int]
"""(kind, priority, share). share: the bucket of the tenant in fair lanes, 0: none. Plain, as there is one per job."""
PairStart: TypeAlias = tuple[Pair, datetime]
"""A pair and the lowest run_after in it that is of interest."""


def pair_of(row: Mapping[str, Any]) -> Pair:
    """The pair of a row with the columns kind, priority and share."""
    return row["kind"], row["priority"], row["share"]
