"""Rescue: running jobs are taken from workers that died, fell silent or got no further."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from rowlock.flow.worker.heartbeat import EVERY
from rowlock.model import ids
from rowlock.model.queue_pair import pair_of
from rowlock.model.state import State
from rowlock.store.batch_halving import in_halves
from rowlock.telemetry import JobRescued, id_fields
from rowlock.upkeep.duty import MOST_BATCHES, SMALL_BATCH, wake_hooks, wake_released
from rowlock.upkeep.refused_rows import fetch_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowlock.flow.worker.heartbeat import CompletedBeat
    from rowlock.store.database import Record
    from rowlock.upkeep.duty import DutyContext

logger = logging.getLogger("rowlock.upkeep")
_REVIVAL: Final = 2.5 * EVERY
"""Seconds in which a live worker whose row was deleted has written it again."""


async def rescue(context: DutyContext, beat: CompletedBeat) -> int:
    """Take jobs from silent workers: they go back to the queue, fail or wait for a person, as their kind says."""
    return await _in_batches(context, "rescue", watched=beat.watched)


async def stalled(context: DutyContext, beat: CompletedBeat) -> int:
    """Take running jobs from their workers that reported nothing for the progress timeout of their lane."""
    return await _in_batches(context, "stalled", "it made no progress", watched=beat.watched)


async def rescue_dead(context: DutyContext, workers: Sequence[int]) -> int:
    """Take jobs at once from workers whose supervisor saw them die, and mark those workers as gone."""
    await in_halves(
        list(workers),
        lambda some: context.database.fetch("workers_gone", workers=some),
        refused=lambda worker, error: logger.warning("worker %d cannot be marked as gone: %s", worker, error),
    )
    return await _in_batches(context, "rescue_dead", workers=list(workers))


async def orphans(context: DutyContext, _beat: CompletedBeat) -> int:
    """Take running jobs whose worker row was deleted by hand. A worker that lives writes its row again before that."""
    if not await context.database.fetch("any_orphan"):
        return 0
    await asyncio.sleep(_REVIVAL)
    return await _in_batches(context, "orphans")


async def _in_batches(context: DutyContext, name: str, why: str = "its worker was lost", **values: object) -> int:
    total = 0
    for _ in range(MOST_BATCHES):
        answers = await fetch_apart(
            context,
            name,
            "running_ids",
            max_losses=context.settings.max_losses,
            channel=context.database.channel,
            **values,
        )
        total += sum(_moved(context, rows, why) for rows in answers)
        if all(len(rows) < SMALL_BATCH for rows in answers):
            break
    return total


def _moved(context: DutyContext, rows: Iterable[Record], why: str) -> int:
    rows = list(rows)
    for row in rows:
        logger.warning(
            "↻ rescued %s %s: %s; now %s",
            row["kind"],
            ids.encode(row["id"]),
            why,
            row["state"],
            extra={**id_fields(row["id"]), "kind": row["kind"], "fence": row["fence"], "state": row["state"]},
        )
        if context.events.active:
            context.events.emit(JobRescued(row["id"], row["kind"], row["state"]))
    context.waker.wake((pair_of(row), row["run_after"]) for row in rows if row["state"] == State.QUEUED)
    if any(row["promoted"] for row in rows):
        context.waker.look()
    if rows:
        wake_hooks(context, rows[0])
        wake_released(context, rows[0])
    return len(rows)
