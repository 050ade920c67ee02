"""Report: the newest news of one attempt, collected until they are written or sent on."""

from __future__ import annotations

import itertools
import json
import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from rowlock.model.job import Claim
from rowlock.model.progress import ItemState, LogLine, Phase
from rowlock.model.redact import storable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

LOG_LINES: Final = 10_000
"""Lines of one job that are kept, the newest; also how many may wait to be written."""
LOG_BYTES: Final = 1_000_000
_MESSAGE_CHARACTERS: Final = 500
_PHASES: Final = 100
"""Phases of an attempt that are remembered, the newest."""
ItemKey = tuple[Claim, str, str]
"""The attempt whose item it is, its phase and its name."""


@dataclass(frozen=True, slots=True)
class Moved:
    """An item's newest state. error: encoded."""

    state: ItemState
    started_at: datetime
    ended_at: datetime | None = None
    reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class News:
    """What was taken from a report to be written, or sent by a child. spoken: there is more than log lines."""

    phase: str | None = None
    done: float = 0
    total: float | None = None
    message: str | None = None
    since: datetime | None = None
    begun_at: float = 0
    phases: tuple[Phase, ...] = ()
    items_total: int | None = None
    spoken: bool = False
    checkpoint: str | None = None
    cursors: Mapping[str, int] = field(default_factory=dict)
    items: Mapping[ItemKey, Moved] = field(default_factory=dict)
    lines: Sequence[LogLine] = ()

    def progress(self) -> str | None:
        """The counters as stored; None: nothing but log lines came so far."""
        if not self.spoken:
            return None
        values: dict[str, object] = {"done": _number(self.done), "total": _number(self.total)}
        if self.since is not None:
            values |= {"since": self.since.isoformat(), "from": _number(self.begun_at)}
        if self.message is not None:
            values["message"] = storable(self.message[:_MESSAGE_CHARACTERS])
        if self.items_total is not None:
            values["items"] = self.items_total
        return json.dumps(values)

    def passed(self) -> str | None:
        """The phases as stored."""
        return json.dumps([_phase(phase) for phase in self.phases]) if self.phases else None


@dataclass(slots=True, eq=False)
class Report:
    """What one attempt reported; what is not written yet is taken by whoever writes."""

    claim: Claim
    phase: str | None = None
    done: float = 0
    total: float | None = None
    message: str | None = None
    since: datetime | None = None
    begun_at: float = 0
    phases: list[Phase] = field(default_factory=list)
    items_total: int | None = None
    spoken: bool = False
    checkpoint: str | None = None
    cursors: dict[str, int] = field(default_factory=dict)
    items: dict[ItemKey, Moved] = field(default_factory=dict)
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    entered: int = 0
    """The number of the present phase; those before it are over."""
    inside: bool = False
    """Whether the handler is in the block of the present phase."""
    places: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """The number of the next line within the attempt; one that is dropped leaves a gap."""
    dirty: bool = False
    writing: bool = False
    saved: list[asyncio.Future[None]] = field(default_factory=list)
    """Those who wait until it is written."""

    def count(self, now: datetime, done: float, total: float | None, message: str | None) -> None:
        """A counter's newest value."""
        if self.since is None:
            self.since, self.begun_at = now, done
        self.done, self.spoken = done, True
        if total is not None:
            self.total = total
        if message is not None:
            self.message = message

    def enter(self, now: datetime, phase: str, total: float | None, done: float) -> None:
        """Begin a phase; the one before is over."""
        self.leave(now)
        self.entered, self.inside = self.entered + 1, True
        self.phases = [*self.phases[1 - _PHASES :], Phase(phase, now, None, done, total)]
        self.phase, self.done, self.total, self.message = phase, done, total, None
        self.since, self.begun_at, self.spoken = now, done, True

    def leave(self, now: datetime, number: int | None = None) -> None:
        """The present phase is over; number: only if it is that one."""
        if number not in (None, self.entered):
            return
        self.inside = False
        if self.phases and self.phases[-1].ended_at is None:
            self.phases[-1] = replace(self.phases[-1], ended_at=now, done=self.done, total=self.total)

    def take(self) -> News:
        """Everything, to be written; what is not repeated each time is given away."""
        if self.phases and self.phases[-1].ended_at is None:
            self.phases[-1] = replace(self.phases[-1], done=self.done, total=self.total)
        lines: list[LogLine] = []
        while self.lines:
            lines.append(self.lines.popleft())
        news = News(
            self.phase, self.done, self.total, self.message, self.since, self.begun_at, tuple(self.phases),
            self.items_total, self.spoken, self.checkpoint, self.cursors, self.items, lines,
        )  # fmt: skip
        self.checkpoint, self.cursors, self.items, self.dirty = None, {}, {}, False
        return news

    def put_back(self, news: News) -> None:
        """What could not be written waits again; what came since is newer."""
        self.checkpoint = news.checkpoint if self.checkpoint is None else self.checkpoint
        self.cursors = {**news.cursors, **self.cursors}
        self.items = {**news.items, **self.items}
        room = LOG_LINES - len(self.lines)
        self.lines.extendleft(list(reversed(news.lines))[:room])
        self.dirty = True

    def adopt(self, news: News) -> None:
        """Take over what the attempt reported in a child process; its checkpoints come another way."""
        self.phase, self.done, self.total, self.message = news.phase, news.done, news.total, news.message
        self.since, self.begun_at, self.phases = news.since, news.begun_at, list(news.phases)
        self.items_total, self.spoken = news.items_total, news.spoken
        self.cursors.update(news.cursors)
        self.items.update(news.items)
        self.lines.extend(news.lines)


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
