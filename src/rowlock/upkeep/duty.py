"""DutyContext: what every duty of upkeep gets; and how duties wake workers for the jobs that they moved."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rowlock.flow.claim.refused_rows import RefusedRows
from rowlock.model.released_jobs import parse_released
from rowlock.set_aside import RowName, SetAside
from rowlock.telemetry import Events

if TYPE_CHECKING:
    from rowlock.flow.enqueue.wake import Waker
    from rowlock.flow.worker.heartbeat import CompletedBeat
    from rowlock.settings import Settings
    from rowlock.store.database import Database, Record

logger = logging.getLogger("rowlock.upkeep")
BATCH: Final = 5000
"""Rows that one statement deletes."""
MOST_BATCHES: Final = 20
"""Statements of one kind per run of a duty."""
FEW_BATCHES: Final = 5
SMALL_BATCH: Final = 500
"""Rows that one statement moves; the statements have the same limit."""


@dataclass(frozen=True, slots=True)
class DutyContext:
    """What every duty gets."""

    database: Database
    settings: Settings
    waker: Waker
    events: Events = field(default_factory=Events)
    refused: RefusedRows[RowName] = field(
        default_factory=lambda: RefusedRows[RowName](SetAside(logger), time.monotonic)
    )
    """Rows that made a duty's statement fail, by the statement's name."""
    monotonic: Callable[[], float] = time.monotonic


Duty = Callable[[DutyContext, "CompletedBeat"], Awaitable[int]]
"""Runs one bounded round; returns how many rows it changed."""


def wake_hooks(context: DutyContext, row: Record) -> None:
    """Wake workers for the hooks of jobs that ended."""
    context.waker.wake(((kind, 0, 0), row["hooks_at"]) for kind in row["hook_kinds"] or ())


def wake_released(context: DutyContext, row: Record) -> None:
    """Wake workers for the jobs that waited for those that ended."""
    context.waker.wake((step.pair, step.run_after) for step in parse_released(row["released"]))
