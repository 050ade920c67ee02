"""Bulk: COPY for jobs without keys, with ids taken beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowlock.model.job import NewJob
    from rowlock.store.database import Connection, Record
    from rowlock.store.queries import Statements

_COLUMNS = ("id", "kind", "priority", "state", "approval", "max_attempts", "tenant", "submitted_by", "meta", "args")


async def copy_jobs(
    connection: Connection[Record], statements: Statements, jobs: Sequence[NewJob]
) -> tuple[list[int], datetime]:
    """Insert jobs that need no key and no timing; returns their ids and a moment not after any of their run_after."""
    now: datetime = await connection.fetchval(statements["clock"].dollar)
    ids = [row["id"] for row in await connection.fetch(statements["take_ids"].dollar, len(jobs))]
    state = State.PENDING if jobs[0].approval else State.QUEUED
    await connection.copy_records_to_table(
        "jobs",
        schema_name=statements.schema,
        columns=_COLUMNS,
        # A generator keeps a million rows from being held twice.
        records=(
            (
                number,
                job.kind,
                job.priority,
                str(state),
                int(job.approval),
                job.max_attempts,
                job.tenant,
                job.submitted_by,
                job.meta,
                job.args,
            )
            for number, job in zip(ids, jobs, strict=True)
        ),
    )
    return ids, now
