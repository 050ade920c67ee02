"""rowlock move: brings waiting jobs of another queue to Rowlock."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext

if TYPE_CHECKING:
    from rowlock.contrib.moving.procrastinate_jobs import MoveReport

group = typer.Typer(no_args_is_help=True, help="Bring the waiting jobs of another queue to Rowlock.")
_SHOWN: Final = 20
"""Jobs that were left and are listed one by one; --json lists all."""


@command(group, "procrastinate", app=True)
async def procrastinate(
    context: CommandContext,
    *,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Procrastinate's database, if it is not the application's own.",
        ),
    ] = None,
    source_schema: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Schema of the table procrastinate_jobs; default: the search path finds it."),
    ] = None,
    leave_unknown: Annotated[
        bool, typer.Option("--leave-unknown", help="Leave jobs whose task the application does not declare.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check every job and write nothing.")] = False,
) -> None:
    """Move the jobs that wait in Procrastinate's table. Running ones are left; the command can be repeated."""
    from rowlock.contrib.moving.procrastinate_jobs import ProcrastinateMove

    move = ProcrastinateMove(
        context.app,
        source_url=source,
        source_schema=source_schema,
        dry_run=dry_run,
        leave_unknown=leave_unknown,
    )
    _show(context, await move.run())


def _show(context: CommandContext, report: MoveReport) -> None:
    rows = [[kind, str(jobs)] for kind, jobs in sorted(report.moved.items())]
    record = {
        "dry_run": report.dry_run,
        "moved": sum(report.moved.values()),
        "moved_before": report.moved_before,
        "running": report.running,
        "priorities_limited": report.priorities_limited,
        "kinds": [{"kind": kind, "moved": jobs} for kind, jobs in sorted(report.moved.items())],
        "left": [{"id": job.id, "task": job.task, "reason": job.reason} for job in report.left],
    }
    screen = context.screen
    screen.table(("kind", "would move" if report.dry_run else "moved"), rows, record, "No job was moved.")
    if not screen.as_json:
        for line in _notes(report):
            screen.note(line)


def _notes(report: MoveReport) -> list[str]:
    notes = []
    if report.moved_before:
        notes.append(f"{report.moved_before} had been moved before.")
    if report.running:
        notes.append(f"{report.running} run in Procrastinate's workers and are left to them.")
    if report.priorities_limited:
        notes.append(f"{report.priorities_limited} had a priority beyond -100 to 100, and have the nearest one.")
    notes += [f"Left: job {job.id} ({job.task}): {job.reason}" for job in report.left[:_SHOWN]]
    if len(report.left) > _SHOWN:
        more = Counter(job.task for job in report.left[_SHOWN:])
        notes.append(f"Left too: {', '.join(f'{jobs} of {task}' for task, jobs in more.items())}. --json lists them.")
    return notes
