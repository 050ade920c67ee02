"""A pair: the kind, priority and share of queued jobs. Jobs with equal ones form a queue of their own.

Workers claim pair by pair: each worker remembers where the queue of a pair begins. The name is older than the share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeAlias

Pair: TypeAlias = tuple[str, int, int]
"""(kind, priority, share). share: the tenant's bucket in fair lanes; 0: none. A plain tuple, as each job needs one."""
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
