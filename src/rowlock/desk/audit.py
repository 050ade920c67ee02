"""app.audit: every change with its author, its time, and the values before and after."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rowlock.desk.guard import TRUSTED, Guard, reads
from rowlock.model import ids, json_output, redact, stored_json
from rowlock.model.access import Entry, Permission

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlExecutor

_LARGEST_ID: Final = 2**63 - 1
_JOB: Final = "job:"


class Audit:
    """Reads the audit. Orders for jobs are recorded by the statement that carries them out, other changes after it."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.AUDIT_READ)
    async def list(
        self,
        *,
        job_id: int | str | None = None,
        target: str | None = None,
        subject: str | None = None,
        action: str | None = None,
        since: datetime | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Entry]:
        """Entries, newest first. before: the last id of the previous page; target: lane:bulk, say; action: lane.set."""
        found = await self._open().fetch(
            "audit_list",
            target=_stored_target(target) if job_id is None else f"{_JOB}{ids.parse(job_id)}",
            by_subject=subject,
            action=action,
            since=since,
            before_id=_LARGEST_ID if before is None else before,
            n=limit,
            **self._guard.visibility,
        )
        return [entry_of(row) for row in found]


async def record(
    source: SqlExecutor,
    guard: Guard,
    action: str,
    target: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    by: str | None = None,
    note: str | None = None,
) -> None:
    """Write one entry, right after its change or in the same transaction."""
    await source.fetch(
        "audit_add",
        action=action,
        target=target,
        before=as_json(before),
        after=as_json(after),
        note=note,
        asker=guard.asker(by),
    )


def entry_of(row: Record) -> Entry:
    """An Entry from its row."""
    values = dict(row)
    for name in ("before", "after"):
        values[name] = stored_json.shown(values[name], "the value")
    if values["target"].startswith(_JOB):
        values["target"] = _JOB + ids.encode(int(values["target"].removeprefix(_JOB)))
    return Entry(**values)


def _stored_target(target: str | None) -> str | None:
    """The target as the table has it: jobs are stored by number and shown by public id."""
    if target is None or not target.startswith(_JOB):
        return target
    return f"{_JOB}{ids.parse(target.removeprefix(_JOB))}"


def as_json(value: Mapping[str, Any] | None) -> str | None:
    """Values as the audit stores them: JSON, with secrets masked."""
    return None if value is None else json.dumps(redact.redact(dict(value)), default=json_output.plain)
