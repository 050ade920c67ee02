"""Expire: jobs that waited too long, or are too old, are ended; waits for signals time out."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from rowlock.model import ids
from rowlock.model.state import State
from rowlock.upkeep.duty import MOST_BATCHES, SMALL_BATCH, wake_hooks, wake_released
from rowlock.upkeep.refused_rows import fetch_apart

if TYPE_CHECKING:
    from rowlock.flow.worker.heartbeat import CompletedBeat
    from rowlock.store.database import Record
    from rowlock.upkeep.duty import DutyContext

logger = logging.getLogger("rowlock.upkeep")


async def expire(context: DutyContext, _beat: CompletedBeat) -> int:
    """End waiting jobs past expires_at or without an answer in time, and any job older than its max_age."""
    total = 0
    channel = context.database.channel
    for name, state, error in (
        ("expire", State.EXPIRED, None),
        ("unanswered", State.EXPIRED, json.dumps({"reason": "unanswered"})),
        ("too_old", State.FAILED, json.dumps({"reason": "too old"})),
    ):
        for _ in range(MOST_BATCHES):
            answers = await fetch_apart(context, name, "expiring_ids", state=state, error=error, channel=channel)
            for (row,) in answers:
                total += len(row["ids"])
                _ended(context, name, row)
            if all(len(row["ids"]) < SMALL_BATCH for (row,) in answers):
                break
    return total


def _ended(context: DutyContext, name: str, row: Record) -> None:
    if row["ids"]:
        logger.warning("⊘ %s %d jobs: %s", name.replace("_", " "), len(row["ids"]), ids.listed(row["ids"]))
        wake_hooks(context, row)
        wake_released(context, row)
    if row["promoted"]:
        context.waker.look()


async def signals(context: DutyContext, _beat: CompletedBeat) -> int:
    """Release jobs whose wait for a signal has timed out; their handlers get a SignalTimeout."""
    done = 0
    for _ in range(MOST_BATCHES):
        (row,) = await context.database.fetch("signals_overdue", batch=SMALL_BATCH)
        wake_released(context, row)
        done += len(row["ids"] or ())
        if len(row["ids"] or ()) < SMALL_BATCH:
            break
    return done
