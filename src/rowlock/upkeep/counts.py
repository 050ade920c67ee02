"""Counts: increments that statements have appended become counts by minute, by hour, in total, and failure groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.model.failure_group import MOST_GROUPS
from rowlock.store.database import UNSERVED
from rowlock.upkeep.duty import MOST_BATCHES

if TYPE_CHECKING:
    from rowlock.flow.worker.heartbeat import CompletedBeat
    from rowlock.upkeep.duty import DutyContext

FOLDED_AT_ONCE: Final = 10_000
"""Increments that one statement moves."""
MOST_SERIES: Final = 2_000
"""Combinations of kind, lane and tenant counted one by one; the view stats_totals knows three quarters of this."""


async def counts(context: DutyContext, _beat: CompletedBeat) -> int:
    """Move increments into counts and failure groups, and delete old ones; returns 0, as no job has changed.

    A part that fails, because a row is refused, keeps no other part; its error is raised after them.
    """
    failures: list[Exception] = []
    for part in (_fold_counts, _fold_failures, _prune_counts):
        try:
            await part(context)
        except UNSERVED:
            raise
        except Exception as error:  # noqa: BLE001 - whatever makes it fail, the other parts may be fine
            failures.append(error)
    if failures:
        raise failures[0]
    return 0


async def _fold_counts(context: DutyContext) -> None:
    for _ in range(MOST_BATCHES):
        (row,) = await context.database.fetch("fold_counts", batch=FOLDED_AT_ONCE, series=MOST_SERIES)
        if row["folded"] < FOLDED_AT_ONCE:
            break


async def _fold_failures(context: DutyContext) -> None:
    for _ in range(MOST_BATCHES):
        (row,) = await context.database.fetch("fold_failures", batch=FOLDED_AT_ONCE, groups=MOST_GROUPS)
        if row["folded"] < FOLDED_AT_ONCE:
            break


async def _prune_counts(context: DutyContext) -> None:
    (pruned,) = await context.database.fetch("prune_counts")
    if pruned["minutes"]:
        await context.database.fetch("prune_failures")
    if pruned["hours"]:
        await context.database.fetch("forget_series")
