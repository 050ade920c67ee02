"""Counts: increments that statements have appended become counts by minute, by hour, in total, and failure groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.model.failure_group import MOST_GROUPS
from rowlock.store.database import UNSERVED
from rowlock.upkeep.duty import MOST_BATCHES
from rowlock.upkeep.refused_rows import fetch_apart

if TYPE_CHECKING:
    from rowlock.flow.worker.heartbeat import CompletedBeat
    from rowlock.upkeep.duty import DutyContext

FOLDED_AT_ONCE: Final = 10_000
"""Increments that one statement moves."""
MOST_SERIES: Final = 2_000
"""Combinations of kind, lane and tenant counted one by one; the view stats_totals knows three quarters of this."""


async def counts(context: DutyContext, _beat: CompletedBeat) -> int:
    """Move increments into counts and failure groups, and delete old ones; returns 0, as no job has changed.

    A row that is refused keeps only itself. A part that fails as a whole keeps no other, and its error is raised last.
    """
    failures: list[Exception] = []
    for part in (_fold_counts, _fold_failures, _prune):
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
    await _fold(context, "fold_counts", "count_increment_names", series=MOST_SERIES)


async def _fold_failures(context: DutyContext) -> None:
    await _fold(context, "fold_failures", "failure_increment_names", groups=MOST_GROUPS)


async def _fold(context: DutyContext, name: str, candidates: str, **most: int) -> None:
    for _ in range(MOST_BATCHES):
        answers = await fetch_apart(context, name, candidates, batch=FOLDED_AT_ONCE, **most)
        if sum(row["folded"] for (row,) in answers) < FOLDED_AT_ONCE:
            break


async def _prune(context: DutyContext) -> None:
    """Delete counts past their time, then failure groups and series, both rarely: they are read whole."""
    answers = await fetch_apart(context, "prune_counts", "old_counts")
    if any(row["minutes"] for (row,) in answers) or "prune_failures" in context.refused:
        await fetch_apart(context, "prune_failures", "old_failures")
    if any(row["hours"] for (row,) in answers) or "forget_series" in context.refused:
        await fetch_apart(context, "forget_series", "old_series_names")
