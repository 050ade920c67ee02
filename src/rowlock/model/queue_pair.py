"""Kind, priority and share of a queued job: each such pair is a queue of its own, with one cursor and one probe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeAlias

Pair: TypeAlias = tuple[str, int, int]
"""(kind, priority, share). share: the bucket of the tenant in fair lanes, 0: none. Plain, as there is one per job."""
BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Before the run_after of every job: where a pair begins whose jobs are not known yet."""
PairStart: TypeAlias = tuple[Pair, datetime]
"""A pair and the lowest run_after in it that is of interest."""
Wake: TypeAlias = Callable[[Iterable[PairStart]], None]
"""Wakes the workers that serve these pairs."""


class PairColumns(Protocol):
    """A row with the columns of a pair."""

    def __getitem__(self, column: str, /) -> Any: ...  # noqa: ANN401 - any column


def pair_of(row: PairColumns) -> Pair:
    """The pair of a row with the columns kind, priority and share."""
    return row["kind"], row["priority"], row["share"]
