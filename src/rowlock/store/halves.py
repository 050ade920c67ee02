"""Halves: a write for many rows that one row makes fail is run for ever smaller parts of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rowlock.store.database import UNSERVED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


async def in_halves(
    batch: list[T], write: Callable[[list[T]], Awaitable[object]], *, may_go_on: Callable[[], bool] = lambda: True
) -> None:
    """Write as many of a batch as the database takes, each once; the others are left. An outage ends it.

    may_go_on: asked before each part; False: the rest is left, too.
    """
    if not batch or not may_go_on():
        return
    try:
        await write(batch)
    except UNSERVED:
        raise
    except Exception:  # noqa: BLE001 - whatever refuses one row must not keep the others
        if len(batch) == 1:
            return
        middle = len(batch) // 2
        await in_halves(batch[:middle], write, may_go_on=may_go_on)
        await in_halves(batch[middle:], write, may_go_on=may_go_on)
