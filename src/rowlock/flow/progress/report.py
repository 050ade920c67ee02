"""ProgressReport: the state of one attempt's progress, and the snapshots of it that are written to the database.

A handler's calls change the report; the Reporter (or, in a child process, the pipe) takes a snapshot of it about once
a second. Counters and phases are repeated in every snapshot; items, cursors, log lines and the checkpoint are moved
into it, and come back with `restore` when they could not be written.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from rowlock.model.job import Claim
from rowlock.model.progress import ItemState, LogLine, Phase
from rowlock.model.redact import in_ascii, json_in_ascii, storable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

LOG_LINES: Final = 10_000
"""Log lines kept per job, the newest ones; also the most that may wait to be written."""
LOG_BYTES: Final = 1_000_000
"""Bytes of log text kept per job."""
_MESSAGE_CHARACTERS: Final = 500
_PHASES: Final = 100
"""Phases kept per attempt, the newest ones."""
ItemKey = tuple[Claim, str, str]
"""The claim of the attempt that owns the item, the item's phase and its name."""


@dataclass(frozen=True, slots=True)
class ItemUpdate:
    """The newest state of one item. error: JSON text."""

    state: ItemState
    started_at: datetime
    ended_at: datetime | None = None
    reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReportSnapshot:
    """One snapshot of a ProgressReport, ready to be written, or to be sent by a child process.

    has_progress: False while the attempt has only logged.
    """

    phase: str | None = None
    done: float = 0
    total: float | None = None
    message: str | None = None
    since: datetime | None = None
    begun_at: float = 0
    phases: tuple[Phase, ...] = ()
    items_total: int | None = None
    has_progress: bool = False
    checkpoint: str | None = None
    cursors: Mapping[str, int] = field(default_factory=dict)
    items: Mapping[ItemKey, ItemUpdate] = field(default_factory=dict)
    lines: Sequence[LogLine] = ()

    def progress_json(self) -> str | None:
        """The counters as stored JSON; None while the attempt has only logged."""
        if not self.has_progress:
            return None
        values: dict[str, object] = {"done": _number(self.done), "total": _number(self.total)}
        if self.since is not None:
            values |= {"since": self.since.isoformat(), "from": _number(self.begun_at)}
        if self.message is not None:
            values["message"] = storable(self.message[:_MESSAGE_CHARACTERS])
        if self.items_total is not None:
            values["items"] = self.items_total
        return json.dumps(values)

    def in_ascii(self) -> ReportSnapshot:
        """With escapes for what is outside ASCII in names and messages; the checkpoint and cursors stay."""
        return replace(
            self,
            phase=self.phase and in_ascii(self.phase),
            message=self.message and in_ascii(self.message),
            phases=tuple(replace(phase, name=in_ascii(phase.name)) for phase in self.phases),
            items={
                (claim, in_ascii(phase), in_ascii(name)): replace(
                    update,
                    reason=update.reason and in_ascii(update.reason),
                    error=update.error and json_in_ascii(update.error),
                )
                for (claim, phase, name), update in self.items.items()
            },
            lines=[replace(line, logger=in_ascii(line.logger), message=in_ascii(line.message)) for line in self.lines],
        )

    def phases_json(self) -> str | None:
        """The phases as stored JSON; None: there are none."""
        return json.dumps([_phase(phase) for phase in self.phases]) if self.phases else None


@dataclass(slots=True, eq=False)
class ProgressReport:
    """Everything one attempt has reported and that is not written yet."""

    claim: Claim
    phase: str | None = None
    done: float = 0
    total: float | None = None
    message: str | None = None
    since: datetime | None = None
    begun_at: float = 0
    phases: list[Phase] = field(default_factory=list)
    items_total: int | None = None
    has_progress: bool = False
    checkpoint: str | None = None
    cursors: dict[str, int] = field(default_factory=dict)
    items: dict[ItemKey, ItemUpdate] = field(default_factory=dict)
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    phase_number: int = 0
    """The number of the present phase, counted from 1."""
    in_phase: bool = False
    """Whether the handler is inside the `with` block of the present phase."""
    line_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """Numbers the attempt's log lines; a dropped line leaves a gap."""
    dirty: bool = False
    """Whether it has changed since the last snapshot."""
    writing: bool = False
    """Whether a snapshot of it is being written."""
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    """Resolved when the next snapshot is written."""

    def set_counter(self, now: datetime, done: float, total: float | None, message: str | None) -> None:
        """Set the counter of the present phase. total, message None: unchanged."""
        if self.since is None:
            self.since, self.begun_at = now, done
        self.done, self.has_progress = done, True
        if total is not None:
            self.total = total
        if message is not None:
            self.message = message

    def begin_phase(self, now: datetime, phase: str, total: float | None, done: float) -> None:
        """Begin a phase, which ends the one before."""
        self.end_phase(now)
        self.phase_number, self.in_phase = self.phase_number + 1, True
        self.phases = [*self.phases[1 - _PHASES :], Phase(phase, now, None, done, total)]
        self.phase, self.done, self.total, self.message = phase, done, total, None
        self.since, self.begun_at, self.has_progress = now, done, True

    def end_phase(self, now: datetime, number: int | None = None) -> None:
        """End the present phase; number: only if it is still the present one."""
        if number not in (None, self.phase_number):
            return
        self.in_phase = False
        if self.phases and self.phases[-1].ended_at is None:
            self.phases[-1] = replace(self.phases[-1], ended_at=now, done=self.done, total=self.total)

    def snapshot(self) -> ReportSnapshot:
        """Take a snapshot to be written; items, cursors, lines and the checkpoint move into it."""
        if self.phases and self.phases[-1].ended_at is None:
            self.phases[-1] = replace(self.phases[-1], done=self.done, total=self.total)
        lines: list[LogLine] = []
        while self.lines:
            lines.append(self.lines.popleft())
        taken = ReportSnapshot(
            self.phase, self.done, self.total, self.message, self.since, self.begun_at, tuple(self.phases),
            self.items_total, self.has_progress, self.checkpoint, self.cursors, self.items, lines,
        )  # fmt: skip
        self.checkpoint, self.cursors, self.items, self.dirty = None, {}, {}, False
        return taken

    def restore(self, snapshot: ReportSnapshot) -> None:
        """Take back a snapshot that could not be written; values reported since then win."""
        self.checkpoint = snapshot.checkpoint if self.checkpoint is None else self.checkpoint
        self.cursors = {**snapshot.cursors, **self.cursors}
        self.items = {**snapshot.items, **self.items}
        room = LOG_LINES - len(self.lines)
        self.lines.extendleft(list(reversed(snapshot.lines))[:room])
        self.dirty = True

    def merge(self, snapshot: ReportSnapshot) -> None:
        """Take over a snapshot from a child process. Checkpoints are not in it: they are requests of their own."""
        self.phase, self.done, self.total, self.message = (
            snapshot.phase,
            snapshot.done,
            snapshot.total,
            snapshot.message,
        )
        self.since, self.begun_at, self.phases = snapshot.since, snapshot.begun_at, list(snapshot.phases)
        self.items_total, self.has_progress = snapshot.items_total, snapshot.has_progress
        self.cursors.update(snapshot.cursors)
        self.items.update(snapshot.items)
        self.lines.extend(snapshot.lines)


def _number(value: float | None) -> float | None:
    # JSON has no NaN and no infinity: one such counter would fail the reports of every job in the batch.
    return value if value is None or math.isfinite(value) else None


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "name": storable(phase.name),
        "started_at": phase.started_at and phase.started_at.isoformat(),
        "ended_at": phase.ended_at and phase.ended_at.isoformat(),
        "done": _number(phase.done),
        "total": _number(phase.total),
    }
