"""app.system: the database as operators see it, deploys, and what changed in a span of time."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Final

from rowlock.desk.doctor import Doctor
from rowlock.desk.guard import TRUSTED, Guard, reads
from rowlock.errors import InvalidOption
from rowlock.model import stored_json
from rowlock.model.access import Permission
from rowlock.model.retention import RetentionRule
from rowlock.model.system_status import (
    Deploy,
    DutyStatus,
    EndsAround,
    IndexSize,
    OldestTransaction,
    SchemaStep,
    SystemChange,
    SystemChanges,
    SystemStatus,
    TableSize,
)
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from rowlock.model.doctor_finding import Finding
    from rowlock.settings import Settings
    from rowlock.store.database import Database, Record

_MOST: Final = 1000
_WALK: Final = 50_000
"""Lines of the audit that are read for changes."""


class System:
    """Tables, transactions and upkeep; deploys and other changes."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.WORKERS_VIEW)
    async def status(self) -> SystemStatus:
        """Versions, sizes, dead rows, the oldest transaction, retention and upkeep."""
        database = self._open()
        (server,) = await database.fetch("system_server")
        tables = await database.fetch("system_tables", schema=f'"{database.schema}"')
        indexes = await database.fetch("system_indexes", name=database.schema)
        steps = [SchemaStep(**row) for row in await database.fetch("system_steps")]
        return SystemStatus(
            at=server["at"],
            server=server["server"],
            rowlock=metadata.version("rowlock"),
            schema=database.schema,
            version=max(step.version for step in steps),
            made_for=migrate.newest(),
            steps=steps,
            database_bytes=server["database_bytes"],
            notify_queue=server["notify_queue"],
            connections=server["connections"],
            max_connections=server["max_connections"],
            oldest_transaction=_oldest(server),
            tables=[TableSize(**row) for row in tables],
            indexes=[IndexSize(**row) for row in indexes],
            retention=[RetentionRule(**row) for row in await database.fetch("system_retention")],
            duties=[DutyStatus(**row) for row in await database.fetch("system_duties")],
        )

    @reads(Permission.WORKERS_VIEW)
    async def examine(self, settings: Settings, kinds: Sequence[str] | None = None) -> Sequence[Finding]:
        """The findings of `rowlock doctor` about the database, the lanes and the workers. Takes jobs:read_all."""
        self._guard.demand(Permission.READ_ALL)
        return await Doctor(self._open(), settings, kinds).examine()

    @reads(Permission.WORKERS_VIEW)
    async def deploys(self, since: datetime, until: datetime, *, limit: int = 100) -> Sequence[Deploy]:
        """The first worker of each version in this span, the newest first, with failures before and after."""
        _check(since, until, limit)
        found = await self._open().fetch("deploys", since=since, until=until, n=limit)
        return [
            Deploy(
                row["version"],
                row["at"],
                row["workers"],
                EndsAround(row["ended_before"], row["failed_before"]),
                EndsAround(row["ended_after"], row["failed_after"]),
            )
            for row in found
        ]

    @reads(Permission.AUDIT_READ)
    async def changes(self, since: datetime, until: datetime, *, limit: int = 200) -> SystemChanges:
        """Deploys, orders of people beyond single jobs, and failure groups that began, the newest first.

        Takes workers:view, too. Failure groups are left out for a principal without jobs:read.
        """
        self._guard.demand(Permission.WORKERS_VIEW)
        _check(since, until, limit)
        found = await self._open().fetch(
            "system_changes",
            since=since,
            until=until,
            n=limit,
            walk=_WALK,
            failures=self._guard.principal.may(Permission.READ),
            **self._guard.visibility,
        )
        back_to = found[0]["back_to"]
        changes = [_change(row) for row in found if row["at"] is not None]
        return SystemChanges(changes, complete=back_to is None or back_to <= since)


def _oldest(row: Record) -> OldestTransaction | None:
    return None if row["pid"] is None else OldestTransaction(row["pid"], row["who"], row["state"], row["open_for"])


def _change(row: Record) -> SystemChange:
    shown = {name: stored_json.shown(row[name], "the value") for name in ("before", "after")}
    return SystemChange(row["at"], row["what"], row["target"], row["by_whom"], row["note"], **shown)


def _check(since: datetime, until: datetime, limit: int) -> None:
    if since.tzinfo is None or until.tzinfo is None or since >= until:
        message = f"A span begins before it ends, and both have a time zone; got {since} and {until}."
        raise InvalidOption(message)
    if not 1 <= limit <= _MOST:
        message = f"limit must be from 1 to {_MOST}; got {limit}."
        raise InvalidOption(message)
