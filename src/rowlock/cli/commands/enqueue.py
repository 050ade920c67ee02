"""rowlock enqueue and rowlock run-job: enqueue a job, or run one in this process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, cast

import typer

from rowlock.cli import completion
from rowlock.cli.command import command
from rowlock.cli.commands.jobs import JobId
from rowlock.cli.context import CommandContext
from rowlock.cli.exit_codes import Exit
from rowlock.cli.option_values import arguments, instant
from rowlock.cli.screen import records
from rowlock.cli.screen.job_text import error_text
from rowlock.cli.screen.output import moment, span
from rowlock.errors import UnknownKind
from rowlock.model.problem_codes import FAILED
from rowlock.model.state import SUCCESS

if TYPE_CHECKING:
    from rowlock.model.kind import OnConflict


def add_to(root: typer.Typer) -> None:
    """Register both commands."""
    command(root, "enqueue")(enqueue)
    command(root, "run-job", app=True)(run_job)


async def enqueue(
    context: CommandContext,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Name of the kind.", autocompletion=completion.kinds)],
    *,
    args: Annotated[
        str,
        typer.Option(
            metavar="JSON", help="Arguments: an object such as '{\"org_id\": 7}', or a list of positional ones."
        ),
    ] = "{}",
    priority: Annotated[int | None, typer.Option(help="Priority from -100 to 100; higher runs first.")] = None,
    run_in: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Earliest start from now, such as 90s or 1h30m.")
    ] = None,
    run_at: Annotated[
        str | None, typer.Option(metavar="ISO", help="Earliest start, such as 2027-01-31T09:00:00+01:00.")
    ] = None,
    unique_key: Annotated[str | None, typer.Option(help="Only one live job of this kind may have this key.")] = None,
    on_conflict: Annotated[
        str,
        typer.Option(
            metavar="reject|keep|replace|debounce",
            help="What to do if the unique key is taken.",
            autocompletion=completion.one_of("reject", "keep", "replace", "debounce"),
        ),
    ] = "reject",
    idempotency_key: Annotated[
        str | None,
        typer.Option(help="Enqueue at most one job per key within 30 days, so that the command can be repeated."),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Tenant of the job.")] = None,
) -> None:
    """Enqueue one job and print its id. Without --app, the kind must be one that a worker has registered."""
    try:
        made = await context.desk.jobs.submit(
            kind,
            arguments(args),
            priority=priority,
            run_in=run_in,
            run_at=instant(run_at),
            unique_key=unique_key,
            on_conflict=cast("OnConflict", on_conflict),  # checked by options()
            idempotency_key=idempotency_key,
            tenant=tenant,
        )
    except UnknownKind as error:
        if context.app_path:
            raise
        raise UnknownKind(f"{error} Or give --app module:attribute, such as tasks:app.") from None
    job = made.job
    record = {**records.job(job), "deduplicated": made.what == "kept", "what": made.what}
    context.screen.answer(f"{job.public_id} {made.what}", record)


async def run_job(context: CommandContext, job_id: JobId) -> None:
    """Claim one due job and run it in this process, for one attempt. Exit code 1 unless it completed."""
    # The answer below says how it ended; without logging set up, Python would print the record about it, too.
    logging.getLogger("rowlock.job").addHandler(logging.NullHandler())
    job = await context.app.run_job(job_id)
    ran = job.finished_at - job.claimed_at if job.finished_at and job.claimed_at else None
    after = f" after {span(ran)}" if ran is not None else f", due again {moment(job.run_after)}"
    context.screen.answer(f"{job.public_id} {job.kind} {job.state}{after}", records.job(job))
    if job.state not in SUCCESS:
        history = await context.app.jobs.history(job.id)
        last = job.errors or (history.attempts[-1].error if history.attempts else None)
        why = f"Job {job.public_id} did not complete: {error_text(last) or 'no reason was recorded'}"
        context.screen.problem_of(FAILED, why, job_id=job.public_id, state=job.state)
        raise typer.Exit(Exit.FAILED)
