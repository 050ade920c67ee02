"""rowlock audit: every change with its author."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.screen import records
from rowlock.cli.screen.output import compact, moment
from rowlock.model.options import span

group = typer.Typer(no_args_is_help=True, help="Read the audit: every change with its author.")
_COLUMNS: Final = ("id", "at", "who", "action", "target", "before", "after", "note", "request", "address")
_SPARE: Final = ("request", "address", "note", "id")


@command(group, "ls")
async def ls(
    context: CommandContext,
    *,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Only changes of this job.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Only changes of this target, such as lane:bulk or token:ID.")
    ] = None,
    who: Annotated[str | None, typer.Option(metavar="SUBJECT", help="Only changes by this subject.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action, such as job.cancel or lane.set.")] = None,
    within: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Only changes within this time, such as 1h.")
    ] = None,
    before: Annotated[
        int | None, typer.Option(metavar="ID", help="Only entries older than this one: the next page.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of entries.")] = 50,
) -> None:
    """List changes, the newest first."""
    window = span(within, "--within")
    found = await context.app.audit.list(
        job_id=job,
        target=target,
        subject=who,
        action=action,
        since=None if window is None else datetime.now(UTC) - window,
        before=before,
        limit=limit,
    )
    rows = [
        [
            str(entry.id),
            moment(entry.at),
            f"{entry.acting_for} ({entry.subject})" if entry.acting_for else entry.subject,
            entry.action,
            entry.target,
            "" if entry.before is None else compact(entry.before),
            "" if entry.after is None else compact(entry.after),
            entry.note or "",
            entry.request_id or "",
            entry.address or "",
        ]
        for entry in found
    ]
    context.screen.table(
        _COLUMNS, rows, [records.audit_entry(entry) for entry in found], "Nothing was changed.", _SPARE
    )
