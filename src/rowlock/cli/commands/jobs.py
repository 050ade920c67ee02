"""rowlock jobs: look at jobs and give them orders."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from rowlock.cli import completion
from rowlock.cli.call import Call, person
from rowlock.cli.command import command
from rowlock.cli.commands.bulk import Search, Yes, chosen, order_found
from rowlock.cli.exit_codes import Exit, exit_of
from rowlock.cli.job_ids import expanded
from rowlock.cli.screen import records
from rowlock.cli.screen.output import (
    JOB_COLUMNS,
    JOB_SPARE,
    aligned,
    compact,
    complain,
    job_rows,
    moment,
    span,
)
from rowlock.cli.screen.progress import items_text, phase_rows
from rowlock.errors import InvalidOption, JobNotFound, WrongState
from rowlock.model import ids
from rowlock.model.progress import ItemState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowlock.desk.jobs import History
    from rowlock.model.job import Job
    from rowlock.model.progress import Progress

group = typer.Typer(no_args_is_help=True, help="Look at jobs and give them orders.")
JobId = Annotated[str, typer.Argument(metavar="ID", help="A public id, or the plain number.")]
JobIds = Annotated[
    list[str], typer.Argument(metavar="ID…", help="Public ids or plain numbers; - reads them from standard input.")
]
MaybeIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID…]", help="Public ids or plain numbers; - reads them from standard input."),
]
By = Annotated[str | None, typer.Option(help="Who orders it, for the job's history; default: your user name.")]
Note = Annotated[str | None, typer.Option(help="Why, for the job's history.")]
_MOST: Final = 10_000
_LARGEST_PAGE: Final = 1000
_SECONDS: Final = 5.0
"""How long a search goes on by itself."""


@command(group, "ls")
async def ls(
    call: Call,
    query: Annotated[
        str | None, typer.Argument(metavar="[SEARCH]", help="Such as 'state:failed kind:ingest* created:<2h'.")
    ] = None,
    *,
    state: Annotated[
        list[str] | None, typer.Option(help="Only this state; may be repeated.", autocompletion=completion.states)
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind.", autocompletion=completion.kinds)] = None,
    lane: Annotated[str | None, typer.Option(help="Only this lane.", autocompletion=completion.lanes)] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.")] = None,
    ref: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only with this reference; may be repeated.")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Older than this job: the next page.")] = None,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="The next page of a search.")] = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="A search's oldest jobs first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="Jobs at most.")] = 50,
) -> None:
    """List jobs, newest first: those that a search finds, or that the options name."""
    if query is not None or after is not None or oldest:
        if any((state, kind, lane, tenant, tag, ref, before)):
            raise InvalidOption("Write the options as terms of the search, such as state:failed, or leave it out.")
        await _search(call, query or "", after, limit, oldest=oldest)
        return
    found = await call.app.jobs.list(
        states=state or None,
        kind=kind,
        lane=lane,
        tenant=tenant,
        tag=tag,
        refs=_references(ref or []),
        before=before,
        limit=limit,
    )
    call.screen.table(JOB_COLUMNS, job_rows(found), [records.job(job) for job in found], "No jobs.", JOB_SPARE)
    if found.before is not None:
        complain(f"older jobs were not looked at; go on with: --before {ids.encode(found.before)}")
    elif len(found) == limit and not call.screen.as_json:
        complain(f"there may be more: --before {found[-1].public_id}")


@command(group, "show")
async def show(call: Call, job_id: JobId) -> None:
    """Show everything known of one job: arguments, result, errors, earlier attempts, orders."""
    history = await call.app.jobs.history(job_id)
    call.screen.fields(_fields(history), records.history(history))


@command(group, "explain")
async def explain(call: Call, job_id: JobId) -> None:
    """Say why a job is not running: every reason that holds, the most decisive first."""
    found = await call.app.jobs.explain(job_id)
    if call.screen.as_json:
        call.screen.json(records.explanation(found))
        return
    for line in str(found).splitlines():
        call.screen.prose(line)


@command(group, "watch")
async def watch(
    call: Call,
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID…]", help="Public ids or plain numbers; - reads them from a pipe.")
    ] = None,
) -> None:
    """Follow jobs until all are final; without ids, everything that runs. Ctrl-C leaves the jobs alone.

    Exit code 1 unless every given job succeeded.
    """
    from rowlock.cli.commands.watch import follow

    given = expanded(job_ids or [])
    if given or not job_ids:
        await follow(call, given)


@command(group, "logs")
async def logs(
    call: Call,
    job_id: JobId,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is final.")] = False,
    limit: Annotated[int, typer.Option("--lines", "-n", min=1, max=_MOST, help="Lines at most, the newest.")] = 1000,
) -> None:
    """Show what a job logged, of all its attempts; with --json one object per line."""
    from rowlock.cli.commands.items_and_logs import show_logs

    await show_logs(call, job_id, limit, follow=follow)


@command(group, "items")
async def items(
    call: Call,
    job_id: JobId,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only this state; may be repeated.", autocompletion=completion.one_of(*ItemState)),
    ] = None,
    phase: Annotated[str | None, typer.Option(help="Only of this phase.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="Items at most.")] = 1000,
) -> None:
    """List the items of a job's newest attempt, by phase and name."""
    from rowlock.cli.commands.items_and_logs import show_items

    await show_items(call, await call.app.jobs.items(job_id, states=state or None, phase=phase, limit=limit))


@command(group, "cancel")
async def cancel(
    call: Call, job_ids: MaybeIds = None, *, search: Search = None, yes: Yes = False, by: By = None, note: Note = None
) -> None:
    """End waiting jobs at once; ask running ones to stop at their next await."""
    given = chosen(job_ids, search)
    if search is not None:
        return await order_found(call, "cancel", search, yes=yes, by=by, note=note)
    return await _order(call, given, lambda job_id: call.app.jobs.cancel(job_id, by=by or person(), note=note))


@command(group, "stop")
async def stop(call: Call, job_ids: JobIds, by: By = None, note: Note = None) -> None:
    """End jobs now, whatever their handlers do; a late result is refused."""
    await _order(call, job_ids, lambda job_id: call.app.jobs.stop(job_id, by=by or person(), note=note))


@command(group, "retry")
async def retry(
    call: Call,
    job_ids: MaybeIds = None,
    *,
    search: Search = None,
    yes: Yes = False,
    failed_items: Annotated[
        bool, typer.Option("--failed-items", help="Only the items that failed or were not reached.")
    ] = False,
    by: By = None,
    note: Note = None,
) -> None:
    """Run finished jobs again with a new attempt budget."""
    given = chosen(job_ids, search)
    if search is not None:
        if failed_items:
            raise InvalidOption("--failed-items goes with ids, not with --search.")
        return await order_found(call, "retry", search, yes=yes, by=by, note=note)
    items: Literal["failed"] | None = "failed" if failed_items else None
    return await _order(
        call, given, lambda job_id: call.app.jobs.retry(job_id, items=items, by=by or person(), note=note)
    )


@command(group, "approve")
async def approve(
    call: Call, job_ids: MaybeIds = None, *, search: Search = None, yes: Yes = False, by: By = None, note: Note = None
) -> None:
    """Let pending jobs run."""
    given = chosen(job_ids, search)
    if search is not None:
        return await order_found(call, "approve", search, yes=yes, by=by, note=note)
    return await _order(call, given, lambda job_id: call.app.jobs.approve(job_id, by=by or person(), note=note))


@command(group, "reject")
async def reject(
    call: Call, job_ids: MaybeIds = None, *, search: Search = None, yes: Yes = False, by: By = None, note: Note = None
) -> None:
    """End pending jobs."""
    given = chosen(job_ids, search)
    if search is not None:
        return await order_found(call, "reject", search, yes=yes, by=by, note=note)
    return await _order(call, given, lambda job_id: call.app.jobs.reject(job_id, by=by or person(), note=note))


@command(group, "rm")
async def remove(call: Call, job_ids: MaybeIds = None, *, search: Search = None, yes: Yes = False) -> None:
    """Remove finished jobs with their history, before their retention does; shows them as they were."""
    given = chosen(job_ids, search)
    if search is not None:
        return await order_found(call, "delete", search, yes=yes)
    return await _order(call, given, call.app.jobs.delete)


@command(group, "priority")
async def priority(
    call: Call,
    job_id: JobId,
    value: Annotated[int, typer.Argument(metavar="PRIORITY", help="From -100 to 100; higher runs sooner.")],
    by: By = None,
    note: Note = None,
) -> None:
    """Give a waiting job another priority (put -- before a negative one)."""
    await _order(call, [job_id], lambda one: call.app.jobs.reprioritise(one, value, by=by or person(), note=note))


async def _search(call: Call, query: str, after: str | None, limit: int, *, oldest: bool) -> None:
    until, found = time.monotonic() + _SECONDS, list["Job"]()
    while True:
        wanted, sort = min(limit - len(found), _LARGEST_PAGE), "oldest" if oldest else "newest"
        page = await call.app.jobs.search(query, after=after, limit=wanted, sort=sort)
        found += page.items
        # A terminal can wait where a request must not: what was cut off is continued for some seconds.
        if page.next is None or len(found) >= limit or time.monotonic() > until:
            break
        after = page.next
    call.screen.table(JOB_COLUMNS, job_rows(found), [records.job(job) for job in found], "No jobs.", JOB_SPARE)
    if page.suggestion is not None:
        complain(f"did you mean: {page.suggestion}")
    if call.screen.as_json and page.next is None:
        return
    if page.cut_off:
        complain(f"the search was cut off before it had looked at every job; go on with: --after {page.next}")
    elif page.next is not None:
        complain(f"{page.count} in all; the next page: --after {page.next}")


async def _order(call: Call, job_ids: list[str], give: Callable[[str], Awaitable[Job]]) -> None:
    """Give the order to each job; one that cannot take it does not keep the others from it."""
    changed, worst = [], Exit.OK
    given = expanded(job_ids)
    for job_id in given:
        ids.parse(job_id)  # a mistyped one is told before the first order is given
    for job_id in given:
        try:
            changed.append(await give(job_id))
        except (JobNotFound, WrongState) as error:
            complain(str(error))
            worst = exit_of(error)
    if changed or call.screen.as_json:
        call.screen.table(JOB_COLUMNS, job_rows(changed), [records.job(job) for job in changed], "", JOB_SPARE)
    if worst:
        raise typer.Exit(worst)


def _references(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, equals, value in pairs:
        if not (name and equals):
            raise InvalidOption(f"--ref takes NAME=VALUE, such as project=7; got {name + equals + value!r}.")
    return {name: value for name, _, value in pairs}


def _fields(history: History) -> dict[str, str]:
    job = history.job
    attempts = [
        [f"{a.attempt or ''}", a.outcome, a.worker or "", moment(a.ended_at), error_text(a.error)]
        for a in history.attempts
    ]
    acts = [[act.verb, act.by or "", moment(act.at), act.note or ""] for act in history.acts]
    ran = job.finished_at - job.claimed_at if job.finished_at and job.claimed_at else None
    return {
        "id": job.public_id,
        "kind": job.kind,
        "state": job.state.value + ", cancel requested" * (job.cancel_requested and not job.is_final),
        "priority": str(job.priority),
        "attempt": f"{job.attempt} of {job.max_attempts}",
        "lane": job.lane or "",
        "worker": job.worker or "",
        "tenant": job.tenant or "",
        "submitted by": job.submitted_by or "",
        "created": moment(job.created_at),
        "due": moment(job.run_after),
        "claimed": moment(job.claimed_at),
        "finished": moment(job.finished_at),
        "ran": span(ran),
        "expires": moment(job.expires_at),
        "too old": moment(job.too_old_at),
        "workflow": f"{job.workflow}, step {job.step}" if job.workflow else "",
        "unique key": job.unique_key or "",
        "gate": job.gate_key or "",
        "tags": ", ".join(job.tags),
        "refs": compact(job.refs) if job.refs else "",
        "meta": compact(job.meta) if job.meta else "",
        "args": compact(job.args) + (f" (version {job.args_version})" if job.args_version != 1 else ""),
        "progress": progress_text(job.progress),
        "phases": "\n".join(aligned(phase_rows(job.progress.phases))) if job.progress and job.progress.phases else "",
        "last progress": moment(job.last_progress_at),
        "result": "" if job.result is None else compact(job.result),
        "errors": error_text(job.errors, full=True),
        "attempts": "\n".join(aligned(attempts)) if attempts else "",
        "orders": "\n".join(aligned(acts)) if acts else "",
    }


def progress_text(progress: Progress | None) -> str:
    """Phase, counter and message in one line."""
    if progress is None:
        return ""
    counter = f"{progress.done:g}" + (f"/{progress.total:g}" if progress.total is not None else "")
    words = " ".join(part for part in (progress.phase, counter, progress.message) if part)
    return words if progress.items is None else f"{words} ({items_text(progress.items)})"


def error_text(error: Any, *, full: bool = False) -> str:  # noqa: ANN401 - a JSON document
    """Reason, class and message of a stored error; full: with its traceback or the collected errors."""
    if not error:
        return ""
    blame = ": ".join(str(error[key]) for key in ("reason", "type", "message") if error.get(key))
    more = [str(item) for item in error.get("errors", ())] if full else []
    trace = [str(error["traceback"]).rstrip()] if full and error.get("traceback") else []
    return "\n".join(filter(None, [blame, *more, *trace]))
