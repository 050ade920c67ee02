"""Items and log lines that jobs reported, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.errors import InvalidOption, WrongState
from rowlock.model.progress import ItemState
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.job import Job
    from rowlock.model.progress import Item, LogLine
    from rowlock.store.database import Database


async def items(
    database: Database,
    job_id: int,
    *,
    states: Sequence[ItemState | str] | None,
    phase: str | None,
    after: str | None,
    limit: int,
) -> list[Item]:
    """A page of items in the order of their keys."""
    after_phase, _, after_name = (after or "").partition("\t")
    found = await database.fetch(
        "items_of",
        id=job_id,
        states=None if states is None else [_state(state) for state in states],
        phase=phase,
        after_phase=after_phase,
        after_name=after_name,
        n=limit,
    )
    return [rows.item_of(row) for row in found]


async def logs(database: Database, job_id: int, after: int, limit: int, *, last: bool) -> list[LogLine]:
    """A page of log lines, or the last page."""
    found = await database.fetch("last_logs_of" if last else "logs_of", id=job_id, after=after, n=limit + last)
    if not last:
        return rows.lines_of(found, after)
    # One line more was read than is shown: it says whether lines are missing before the first one shown.
    ahead = found[limit]["n"] if len(found) > limit else after
    return rows.lines_of(found[:limit][::-1], ahead)


async def last_line(database: Database, job_id: int) -> int:
    """The number of the newest line of a log; 0: it has none."""
    found = await database.fetch("last_logs_of", id=job_id, after=0, n=1)
    return int(found[0]["n"]) if found else 0


def check_items(job: Job, items: str) -> None:
    """Raise WrongState for a retry of failed items of a job that has none."""
    if items != "failed":
        message = f'items= takes "failed": those that failed or were not reached; got {items!r}.'
        raise InvalidOption(message)
    counts = None if job.progress is None else job.progress.items
    if counts is None:
        message = f"Job {job.public_id} has reported no items. Retry all of it."
        raise WrongState(message)


def _state(state: ItemState | str) -> str:
    try:
        return ItemState(state)
    except ValueError:
        message = f"There is no item state {str(state)!r}; there are {', '.join(ItemState)}."
        raise InvalidOption(message) from None
