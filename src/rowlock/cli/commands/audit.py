"""rowlock audit: every change with its author."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.screen import records
from rowlock.cli.screen.output import compact, moment
from rowlock.model import json_output
from rowlock.model.options import span

if TYPE_CHECKING:
    from rowlock.model.access import AuditCheck

group = typer.Typer(no_args_is_help=True, help="Read, check and export the audit: every change with its author.")
_COLUMNS: Final = ("id", "at", "who", "action", "target", "before", "after", "note", "request", "address")
_PAGE: Final = 1000
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


@command(group, "verify")
async def verify(
    context: CommandContext,
    head: Annotated[
        str | None,
        typer.Option(metavar="PLACE:HASH", help="Head that an earlier check printed: the chain must still contain it."),
    ] = None,
) -> None:
    """Check the seals of the audit; exits with 1 and names the first line that was changed or removed."""
    check = await context.app.audit.verify(head)
    shown = {**records.members(check), "head": f"{check.last}:{check.head}" if check.last else None}
    shown["broken"] = None if check.broken is None else records.members(check.broken)
    if check.broken is None:
        context.screen.answer(_intact(check), shown)
        return
    line = f" (entry {check.broken.entry_id})" if check.broken.entry_id else ""
    context.screen.answer(f"Seal {check.broken.n}{line} does not hold: {check.broken.reason}.", shown)
    raise typer.Exit(1)


def _intact(check: AuditCheck) -> str:
    if not check.last:
        return "The audit has no sealed lines yet."
    return f"{check.lines} lines are intact, seals {check.first} to {check.last}. Head: {check.last}:{check.head}"


@command(group, "export")
async def export(
    context: CommandContext,
    after: Annotated[int, typer.Option(min=0, metavar="N", help="Only lines behind this place of the chain.")] = 0,
) -> None:
    """Print the sealed lines as JSON, one object a line, the oldest first, each with its seal."""
    while page := await context.app.audit.export(after=after, limit=_PAGE):
        for sealed in page:
            typer.echo(json.dumps(records.sealed_entry(sealed), default=json_output.plain))
        after = page[-1].n
