"""rowlock jobs: look at jobs and give them orders."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from rowlock.cli import completion
from rowlock.cli.bulk_orders import Search, Yes, ids_or_search, order_found
from rowlock.cli.command import command
from rowlock.cli.context import CommandContext, current_user
from rowlock.cli.exit_codes import Exit, exit_of
from rowlock.cli.job_ids import expanded
from rowlock.cli.option_values import instant, named_arguments, references
from rowlock.cli.screen import records
from rowlock.cli.screen.job_text import JOB_SPARE, job_columns, job_fields, job_rows
from rowlock.errors import DatabaseBusy, InvalidOption, JobNotFound, WriteRefused, WrongState
from rowlock.model import ids
from rowlock.model.progress import ItemState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rowlock.model.job import Job

group = typer.Typer(no_args_is_help=True, help="Read jobs and give them orders.")
JobId = Annotated[str, typer.Argument(metavar="ID", help="Id of the job.")]
JobIds = Annotated[list[str], typer.Argument(metavar="ID…", help="Ids of jobs; - reads them from standard input.")]
MaybeIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID…]", help="Ids of jobs; - reads them from standard input."),
]
By = Annotated[str | None, typer.Option(help="Author of the order, for the history; default: your user name.")]
Note = Annotated[str | None, typer.Option(help="Reason, for the history.")]
_MOST: Final = 10_000
_LARGEST_PAGE: Final = 1000
_SECONDS: Final = 5.0
"""Seconds for which a search that was cut off continues by itself."""


@command(group, "ls")
async def ls(
    context: CommandContext,
    query: Annotated[
        str | None, typer.Argument(metavar="[SEARCH]", help="Search, such as 'state:failed kind:ingest* created:<2h'.")
    ] = None,
    *,
    state: Annotated[
        list[str] | None, typer.Option(help="Only this state; may be repeated.", autocompletion=completion.states)
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind.", autocompletion=completion.kinds)] = None,
    lane: Annotated[str | None, typer.Option(help="Only this lane.", autocompletion=completion.lanes)] = None,
    tenant: Annotated[str | None, typer.Option(help="Only jobs of this tenant.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only jobs with this tag.")] = None,
    ref: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only jobs with this reference; may be repeated.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="ID", help="Only jobs older than this one: the next page.")
    ] = None,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Cursor of the next page of a search.")] = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest jobs of a search first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="Maximum number of jobs.")] = 50,
) -> None:
    """List jobs, newest first: those that a search finds, or that fit the options."""
    if query is not None or after is not None or oldest:
        if any((state, kind, lane, tenant, tag, ref, before)):
            raise InvalidOption("Write the options as terms of the search, such as state:failed, or leave it out.")
        await _search(context, query or "", after, limit, oldest=oldest)
        return
    found = await context.app.jobs.list(
        states=state or None,
        kind=kind,
        lane=lane,
        tenant=tenant,
        tag=tag,
        refs=references(ref or []),
        before=before,
        limit=limit,
    )
    _show(context, found, "No jobs.")
    if found.before is not None:
        context.screen.note(f"older jobs were not looked at; go on with: --before {ids.encode(found.before)}")
    elif len(found) == limit and not context.screen.as_json:
        context.screen.note(f"there may be more: --before {found[-1].public_id}")


@command(group, "show")
async def show(context: CommandContext, job_id: JobId) -> None:
    """Show one job with its arguments, result, errors, earlier attempts and orders."""
    history = await context.app.jobs.history(job_id)
    context.screen.fields(job_fields(history), records.history(history))


@command(group, "explain")
async def explain(context: CommandContext, job_id: JobId) -> None:
    """Say why a job is not running: every reason that holds, the most decisive first."""
    found = await context.app.jobs.explain(job_id)
    if context.screen.as_json:
        context.screen.json(records.explanation(found))
        return
    for line in str(found).splitlines():
        context.screen.prose(line)


@command(group, "watch")
async def watch(
    context: CommandContext,
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID…]", help="Ids of jobs; - reads them from standard input.")
    ] = None,
) -> None:
    """Follow jobs until all are final; without ids, all running jobs. Ctrl-C does not affect the jobs.

    Exit code 1 unless every given job succeeded.
    """
    from rowlock.cli.screen.watch import follow

    watched = expanded(job_ids or [])
    if watched or not job_ids:
        await follow(context, watched)


@command(group, "logs")
async def logs(
    context: CommandContext,
    job_id: JobId,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines until the job is final.")
    ] = False,
    limit: Annotated[int, typer.Option("--lines", "-n", min=1, max=_MOST, help="Print the last N lines.")] = 1000,
) -> None:
    """Show the log of a job, of all its attempts; with --json, one object per line."""
    from rowlock.cli.screen.items_and_logs import show_logs

    await show_logs(context, job_id, limit, follow=follow)


@command(group, "items")
async def items(
    context: CommandContext,
    job_id: JobId,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only this state; may be repeated.", autocompletion=completion.one_of(*ItemState)),
    ] = None,
    phase: Annotated[str | None, typer.Option(help="Only items of this phase.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="Maximum number of items.")] = 1000,
) -> None:
    """List the items of a job's newest attempt, by phase and name."""
    from rowlock.cli.screen.items_and_logs import show_items

    await show_items(context, await context.app.jobs.items(job_id, states=state or None, phase=phase, limit=limit))


@command(group, "cancel")
async def cancel(
    context: CommandContext,
    job_ids: MaybeIds = None,
    *,
    search: Search = None,
    yes: Yes = False,
    by: By = None,
    note: Note = None,
) -> None:
    """End waiting jobs at once; ask running ones to stop at their next await."""
    chosen = ids_or_search(job_ids, search)
    if search is not None:
        return await order_found(context, "cancel", search, yes=yes, by=by, note=note)
    return await _order(
        context, chosen, lambda job_id: context.app.jobs.cancel(job_id, by=by or current_user(), note=note)
    )


@command(group, "stop")
async def stop(context: CommandContext, job_ids: JobIds, by: By = None, note: Note = None) -> None:
    """End jobs now, whatever their handlers do; a late result is refused."""
    await _order(context, job_ids, lambda job_id: context.app.jobs.stop(job_id, by=by or current_user(), note=note))


@command(group, "retry")
async def retry(
    context: CommandContext,
    job_ids: MaybeIds = None,
    *,
    search: Search = None,
    yes: Yes = False,
    failed_items: Annotated[
        bool, typer.Option("--failed-items", help="Retry only items that failed or were not reached.")
    ] = False,
    by: By = None,
    note: Note = None,
) -> None:
    """Run finished jobs again with a new attempt budget."""
    chosen = ids_or_search(job_ids, search)
    if search is not None:
        if failed_items:
            raise InvalidOption("--failed-items goes with ids, not with --search.")
        return await order_found(context, "retry", search, yes=yes, by=by, note=note)
    items: Literal["failed"] | None = "failed" if failed_items else None
    return await _order(
        context, chosen, lambda job_id: context.app.jobs.retry(job_id, items=items, by=by or current_user(), note=note)
    )


@command(group, "approve")
async def approve(
    context: CommandContext,
    job_ids: MaybeIds = None,
    *,
    search: Search = None,
    yes: Yes = False,
    by: By = None,
    note: Note = None,
) -> None:
    """Let pending jobs run."""
    chosen = ids_or_search(job_ids, search)
    if search is not None:
        return await order_found(context, "approve", search, yes=yes, by=by, note=note)
    return await _order(
        context, chosen, lambda job_id: context.app.jobs.approve(job_id, by=by or current_user(), note=note)
    )


@command(group, "reject")
async def reject(
    context: CommandContext,
    job_ids: MaybeIds = None,
    *,
    search: Search = None,
    yes: Yes = False,
    by: By = None,
    note: Note = None,
) -> None:
    """End pending jobs."""
    chosen = ids_or_search(job_ids, search)
    if search is not None:
        return await order_found(context, "reject", search, yes=yes, by=by, note=note)
    return await _order(
        context, chosen, lambda job_id: context.app.jobs.reject(job_id, by=by or current_user(), note=note)
    )


@command(group, "rm")
async def remove(context: CommandContext, job_ids: MaybeIds = None, *, search: Search = None, yes: Yes = False) -> None:
    """Remove finished jobs with their history before their retention does, and show them."""
    chosen = ids_or_search(job_ids, search)
    if search is not None:
        return await order_found(context, "delete", search, yes=yes)
    return await _order(context, chosen, context.app.jobs.delete)


@command(group, "priority")
async def priority(
    context: CommandContext,
    job_id: JobId,
    value: Annotated[int, typer.Argument(metavar="PRIORITY", help="Priority from -100 to 100; higher runs first.")],
    by: By = None,
    note: Note = None,
) -> None:
    """Give a waiting job another priority (put -- before a negative one)."""
    await _order(
        context, [job_id], lambda one: context.app.jobs.reprioritise(one, value, by=by or current_user(), note=note)
    )


@command(group, "edit")
async def edit(
    context: CommandContext,
    job_id: JobId,
    *,
    args: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="New arguments, replacing the old ones: an object such as '{\"org_id\": 7}'."
        ),
    ] = None,
    run_at: Annotated[
        str | None, typer.Option(metavar="ISO", help="Earliest start, such as 2027-01-31T09:00:00+01:00.")
    ] = None,
    run_in: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Earliest start from now, such as 90s; 0s: now.")
    ] = None,
    tags: Annotated[
        str | None, typer.Option(metavar="A,B", help="New tags, replacing the old ones; '' removes them.")
    ] = None,
    priority: Annotated[int | None, typer.Option(help="Priority from -100 to 100; higher runs first.")] = None,
    by: By = None,
    note: Note = None,
) -> None:
    """Change the arguments, due time, tags or priority of a waiting job. Changed arguments void an approval.

    Arguments are checked by the kind's code where --app has it. A secret given as it is shown, •••, stays.
    """
    if all(value is None for value in (args, run_at, run_in, tags, priority)):
        raise InvalidOption("Nothing to change: add --args, --run-at, --run-in, --tags or --priority.")
    job = await context.app.jobs.edit(
        job_id,
        args=named_arguments(args),
        run_at=instant(run_at),
        run_in=run_in,
        tags=None if tags is None else [tag for tag in map(str.strip, tags.split(",")) if tag],
        priority=priority,
        by=by or current_user(),
        note=note,
    )
    _show(context, [job])


@command(group, "signal")
async def signal(
    context: CommandContext,
    job_id: JobId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the signal.")],
    *,
    payload: Annotated[str, typer.Option(metavar="JSON", help="Value that the handler receives.")] = "null",
    by: By = None,
    note: Note = None,
) -> None:
    """Send a job a signal that it waits for, or will wait for; the first one of a name counts."""
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise InvalidOption(f"--payload takes JSON, such as '{{\"ok\": true}}': {error}.") from None
    sent = await context.desk.jobs.signal(job_id, name, value, by=by or current_user(), note=note)
    if sent.what == "kept":
        context.screen.note(f"a signal {name!r} came before; the first one counts, so this one changes nothing.")
    _show(context, [sent.job])


def _show(context: CommandContext, jobs: Sequence[Job], empty: str = "") -> None:
    context.screen.table(job_columns(jobs), job_rows(jobs), [records.job(job) for job in jobs], empty, JOB_SPARE)


async def _search(context: CommandContext, query: str, after: str | None, limit: int, *, oldest: bool) -> None:
    until, found = time.monotonic() + _SECONDS, list["Job"]()
    while True:
        wanted, sort = min(limit - len(found), _LARGEST_PAGE), "oldest" if oldest else "newest"
        page = await context.app.jobs.search(query, after=after, limit=wanted, sort=sort)
        found += page.items
        # A terminal can wait longer than a request: a search that was cut off continues for some seconds.
        if page.next is None or len(found) >= limit or time.monotonic() > until:
            break
        after = page.next
    _show(context, found, "No jobs.")
    if page.suggestion is not None:
        context.screen.note(f"did you mean: {page.suggestion}")
    if context.screen.as_json and page.next is None:
        return
    if page.cut_off:
        context.screen.note(
            f"the search was cut off before it had looked at every job; go on with: --after {page.next}"
        )
    elif page.next is not None:
        context.screen.note(f"{page.count} in all; the next page: --after {page.next}")


async def _order(context: CommandContext, job_ids: list[str], give: Callable[[str], Awaitable[Job]]) -> None:
    """Give the order to each job; a job that refuses it does not stop the others."""
    changed, worst = [], Exit.OK
    chosen = expanded(job_ids)
    for job_id in chosen:
        ids.parse(job_id)  # a mistyped id is refused before the first order is given
    for job_id in chosen:
        try:
            changed.append(await give(job_id))
        except (JobNotFound, WrongState, DatabaseBusy, WriteRefused) as error:
            context.screen.problem(error, job_id=ids.encode(ids.parse(job_id)))
            worst = exit_of(error)
    if changed or context.screen.as_json:
        _show(context, changed)
    if worst:
        raise typer.Exit(worst)
