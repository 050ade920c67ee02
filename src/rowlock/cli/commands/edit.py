"""rowlock jobs edit: change a job that waits."""

from __future__ import annotations

from typing import Annotated

import typer

from rowlock.cli.call import Call, person
from rowlock.cli.command import command
from rowlock.cli.commands.enqueue import arguments, instant
from rowlock.cli.commands.jobs import By, JobId, Note
from rowlock.cli.screen import records
from rowlock.cli.screen.output import JOB_COLUMNS, JOB_SPARE, job_rows
from rowlock.errors import InvalidArguments, InvalidOption


def add_to(jobs: typer.Typer) -> None:
    """Register the command."""
    command(jobs, "edit")(edit)


async def edit(
    call: Call,
    job_id: JobId,
    *,
    args: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="All of its arguments anew: an object such as '{\"org_id\": 7}'."),
    ] = None,
    run_at: Annotated[
        str | None, typer.Option(metavar="ISO", help="Not before then, such as 2027-01-31T09:00:00+01:00.")
    ] = None,
    run_in: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Not before then, such as 90s; 0s: now.")
    ] = None,
    tags: Annotated[str | None, typer.Option(metavar="A,B", help="All of its tags anew; '' takes them away.")] = None,
    priority: Annotated[int | None, typer.Option(help="From -100 to 100; higher runs sooner.")] = None,
    by: By = None,
    note: Note = None,
) -> None:
    """Change a job that waits: arguments, moment, tags, priority. Changed arguments void an approval.

    Arguments are checked by the kind's code where --app has it. A secret given as it is shown, •••, stays.
    """
    if all(given is None for given in (args, run_at, run_in, tags, priority)):
        raise InvalidOption("Nothing to change: give --args, --run-at, --run-in, --tags or --priority.")
    meant = None if args is None else arguments(args)
    if isinstance(meant, list):
        raise InvalidArguments("--args takes a JSON object here: the arguments by name.")
    job = await call.app.jobs.edit(
        job_id,
        args=meant,
        run_at=None if run_at is None else instant(run_at),
        run_in=run_in,
        tags=None if tags is None else [tag for tag in map(str.strip, tags.split(",")) if tag],
        priority=priority,
        by=by or person(),
        note=note,
    )
    call.screen.table(JOB_COLUMNS, job_rows([job]), [records.job(job)], "", JOB_SPARE)
