"""rowlock failures: failures by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.screen import records
from rowlock.cli.screen.output import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.failure_group import FailureGroup

group = typer.Typer(no_args_is_help=True, help="Read failures by cause, and mute known ones.")
Fingerprint = Annotated[str, typer.Argument(metavar="FINGERPRINT", help="Fingerprint of the group.")]
Note = Annotated[str | None, typer.Option(help="Reason.")]
_COLUMNS: Final = ("fingerprint", "kind", "error", "within", "failed", "retried", "first", "last", "state")
_SPARE: Final = ("first", "retried", "state")
_ERROR: Final = 60
"""Characters of a message in the table."""


@command(group, "ls")
async def ls(
    context: CommandContext,
    *,
    window: Annotated[str, typer.Option(metavar="TIME", help="Only groups with a failure within it.")] = "24h",
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    state: Annotated[Literal["open", "muted"] | None, typer.Option(help="Only such groups.")] = None,
    sort: Annotated[
        Literal["recent", "count", "new"],
        typer.Option(help="Last failure first, most failures first, or newest group first."),
    ] = "recent",
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of groups.")] = 50,
) -> None:
    """List groups of failures with the same cause; `rowlock jobs retry --search fingerprint:…` retries one."""
    muted = None if state is None else state == "muted"
    found = await context.desk.failures.list(window=window, kind=kind, muted=muted, sort=sort, limit=limit)
    _show(context, found.groups)


@command(group, "show")
async def show(context: CommandContext, fingerprint: Fingerprint) -> None:
    """Show a group with the traceback of a sample."""
    found = await context.desk.failures.get(fingerprint)
    _show(context, [found])
    if not context.screen.as_json and found.error is not None:
        context.screen.line(str(found.error.get("traceback") or found.error.get("message") or ""))


@command(group, "mute")
async def mute(context: CommandContext, fingerprint: Fingerprint, note: Note = None) -> None:
    """Set a group aside as known; it goes on counting."""
    _show(context, [await context.desk.failures.mute(fingerprint, note=note)])


@command(group, "unmute")
async def unmute(context: CommandContext, fingerprint: Fingerprint, note: Note = None) -> None:
    """Open a muted group again."""
    _show(context, [await context.desk.failures.unmute(fingerprint, note=note)])


def _show(context: CommandContext, groups: Sequence[FailureGroup]) -> None:
    cells = [
        [
            each.fingerprint,
            each.kind,
            _error(each),
            str(each.within),
            str(each.failed),
            str(each.retried),
            moment(each.first_seen),
            moment(each.last_seen),
            "muted" if each.is_muted else "open",
        ]
        for each in groups
    ]
    context.screen.table(_COLUMNS, cells, [records.failure_group(each) for each in groups], "No failures.", _SPARE)


def _error(each: FailureGroup) -> str:
    if each.other:
        return "(other)"
    error = each.error or {}
    name = str(error.get("type") or error.get("reason") or "unknown")
    message = (each.message or "").splitlines()
    return f"{name}: {message[0][:_ERROR]}" if message else name
