"""A write for many rows that fails because of one is repeated for halves of them, until the refused row is alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rowlock.store.database import UNSERVED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


async def in_halves(
    batch: list[T],
    write: Callable[[list[T]], Awaitable[object]],
    *,
    may_go_on: Callable[[], bool] = lambda: True,
    refused: Callable[[T, Exception], None] = lambda _row, _error: None,
) -> None:
    """Write as many of a batch as the database takes, each once and in order; the others are left. An outage ends it.

    may_go_on: asked before each part; False: the rest is left, too. refused: called with each row that failed alone.
    """
    if not batch or not may_go_on():
        return
    try:
        await write(batch)
    except UNSERVED:
        raise
    except Exception as error:  # noqa: BLE001 - whatever refuses one row must not keep the others
        if len(batch) == 1:
            refused(batch[0], error)
            return
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            await in_halves(half, write, may_go_on=may_go_on, refused=refused)
