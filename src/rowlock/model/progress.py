"""Progress of an attempt: phase, counter, items and log lines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from rowlock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

ATTEMPT_LINES: Final = 1 << 32
"""The number of a log line is its attempt's fence times this, plus its position within the attempt."""
LOGS_OFF: Final = 1000
"""A level that no record reaches."""
_LONGEST: Final = 10.0 * 365 * 86400
_LEVELS: Final = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}


class Skip(Exception):
    """A handler raises it inside an item that needs no work: the item is skipped, with this reason."""


class ItemState(StrEnum):
    """The state of an item."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Item:
    """One named part of a job's work. phase: the one it was reported in, "" outside of any."""

    name: str
    state: ItemState
    phase: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str | None = None
    """Why it was skipped."""
    error: Mapping[str, object] | None = None
    """Why it failed: type, message, traceback."""

    @property
    def key(self) -> str:
        """The cursor behind this item, for jobs.items(after=…)."""
        return f"{self.phase}\t{self.name}"


@dataclass(frozen=True, slots=True)
class ItemRef:
    """An item passed to another job as an argument, which reports on it through ctx.item(ref)."""

    job_id: int
    fence: int
    phase: str
    name: str


@dataclass(frozen=True, slots=True)
class ItemCounts:
    """Items by state. total None: the handler did not say how many there will be."""

    in_progress: int = 0
    completed: int = 0
    skipped: int = 0
    failed: int = 0
    total: int | None = None

    @property
    def ended(self) -> int:
        """Items that are done with in this attempt."""
        return self.completed + self.skipped + self.failed


@dataclass(frozen=True, slots=True)
class Phase:
    """A named part of an attempt. ended_at None: it goes on, or the attempt ended during it."""

    name: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    done: float = 0
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The last report of an attempt. total None: unknown."""

    phase: str | None = None
    done: float = 0
    total: float | None = None
    message: str | None = None
    reported_at: datetime | None = None
    phases: tuple[Phase, ...] = ()
    """Every phase of the attempt so far, the current one last."""
    items: ItemCounts | None = None
    """None: no items were reported."""
    n: int = 0
    """The number of the report, counted per job."""
    started_at: datetime | None = None
    """When the current counter began: with its phase, or with the first report."""
    begun_at: float = 0
    """The value at which the counter began: what earlier attempts of a resumed phase had done."""

    @property
    def fraction(self) -> float | None:
        """Between 0 and 1; None when the total is unknown or 0."""
        return min(1.0, max(0.0, self.done / self.total)) if self.total else None

    @property
    def rate(self) -> float | None:
        """Units per second since the current counter began; None while unknown."""
        if self.started_at is None or self.reported_at is None:
            return None
        seconds = (self.reported_at - self.started_at).total_seconds()
        counted = self.done - self.begun_at
        return counted / seconds if seconds > 0 and counted > 0 else None

    @property
    def eta(self) -> timedelta | None:
        """The time left for the current phase at that rate; None while unknown."""
        rate = self.rate
        if rate is None or self.total is None:
            return None
        return timedelta(seconds=min(max(0.0, self.total - self.done) / rate, _LONGEST))


@dataclass(frozen=True, slots=True)
class LogLine:
    """One stored log record of a job."""

    n: int
    at: datetime
    level: int
    logger: str
    message: str
    missed: int = 0
    """Lines right before this one that were dropped; of a log beyond its limit the newest lines are kept."""

    @property
    def fence(self) -> int:
        """The fence of the attempt that logged it."""
        return self.n // ATTEMPT_LINES

    @property
    def level_name(self) -> str:
        """Its usual name: INFO, WARNING."""
        return logging_name(self.level)


def log_level(value: object, name: str) -> int:
    """Read a log level by name or number; "off" or False: LOGS_OFF."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LOGS_OFF:
        return value
    text = "off" if value is False else str(value).strip().upper()
    level = {**{word: number for number, word in _LEVELS.items()}, "OFF": LOGS_OFF}.get(text.upper())
    if level is None:
        message = f'{name} is a log level such as "info", or "off"; got {value!r}.'
        raise ConfigurationError(message)
    return level


def missed_between(before: int, n: int) -> int:
    """How many lines were dropped between two kept ones. before 0: there is none before."""
    fence, place = divmod(n, ATTEMPT_LINES)
    last_fence, last = divmod(before, ATTEMPT_LINES)
    return place - 1 - (last if last_fence == fence else 0)


def logging_name(level: int) -> str:
    """The usual name of a log level."""
    return _LEVELS.get(level) or f"LEVEL {level}"
