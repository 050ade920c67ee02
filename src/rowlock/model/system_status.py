"""What operators look at when something is slow: tables, indexes, transactions, upkeep; and what changed before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from rowlock.model.retention import RetentionRule


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table. Sizes in bytes; live, dead: rows as PostgreSQL estimates them; vacuumed_at None: never."""

    name: str
    bytes: int
    index_bytes: int
    live: int
    dead: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


@dataclass(frozen=True, slots=True)
class IndexSize:
    """An index. scans: since the statistics were reset."""

    name: str
    table: str
    bytes: int
    scans: int


@dataclass(frozen=True, slots=True)
class OldestTransaction:
    """The transaction that has been open for longest, which keeps vacuum from removing dead rows."""

    pid: int
    who: str
    state: str
    open_for: timedelta


@dataclass(frozen=True, slots=True)
class DutyStatus:
    """A duty of upkeep. last_run_at None: never; took: of the last run."""

    name: str
    every: timedelta
    last_run_at: datetime | None
    took: timedelta


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """A migration that was applied."""

    version: int
    name: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class SystemStatus:
    """The database as operators see it. made_for: the schema version of this code; notify_queue: full from 0 to 1."""

    at: datetime
    server: str
    rowlock: str
    schema: str
    version: int
    made_for: int
    steps: Sequence[SchemaStep]
    database_bytes: int
    notify_queue: float
    connections: int
    max_connections: int
    oldest_transaction: OldestTransaction | None
    tables: Sequence[TableSize]
    indexes: Sequence[IndexSize]
    retention: Sequence[RetentionRule]
    duties: Sequence[DutyStatus]


@dataclass(frozen=True, slots=True)
class EndsAround:
    """Jobs that ended within an hour, and how many of them failed."""

    ended: int
    failed: int

    @property
    def failure_rate(self) -> float | None:
        """Share of failures; None: nothing ended."""
        return self.failed / self.ended if self.ended else None


@dataclass(frozen=True, slots=True)
class Deploy:
    """The first worker of a version. workers: that run it now; before, after: the hours around its start."""

    version: str
    at: datetime
    workers: int
    before: EndsAround
    after: EndsAround


@dataclass(frozen=True, slots=True)
class SystemChange:
    """Something that may explain what follows. what: deploy, failure.began, or an action of the audit."""

    at: datetime
    what: str
    target: str
    by: str | None = None
    note: str | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SystemChanges:
    """Changes, the newest first. complete: False when the audit was not read back to the beginning of the span."""

    changes: Sequence[SystemChange]
    complete: bool
