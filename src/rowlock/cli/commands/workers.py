"""rowlock workers: workers, the jobs in their slots, and draining a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.exit_codes import Exit
from rowlock.cli.health.probe import ask
from rowlock.cli.screen import records
from rowlock.cli.screen.job_text import progress_text
from rowlock.cli.screen.output import moment, span
from rowlock.model import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.workload import WorkerView

group = typer.Typer(no_args_is_help=True, help="Read, drain and forget workers.")
_COLUMNS: Final = ("id", "name", "host", "pid", "version", "lanes", "running", "memory", "state", "started", "seen")
_SPARE: Final = ("host", "version", "pid", "started", "memory")


@command(group, "ls")
async def ls(context: CommandContext) -> None:
    """List the workers that have not signed off."""
    _show(context, await context.desk.workers.list(), "No workers.")


@command(group, "drain")
async def drain(
    context: CommandContext, worker: Annotated[str, typer.Argument(metavar="WORKER", help="Id or name of the worker.")]
) -> None:
    """Drain a worker: it claims no more, ends its jobs and leaves. It hears of that within two seconds."""
    _show(context, await context.desk.workers.drain(worker), "")


@command(group, "forget")
async def forget(
    context: CommandContext,
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="Id or name of a silent worker.")],
) -> None:
    """Declare a silent worker gone, so that its jobs are rescued now; refused while it sends heartbeats."""
    _show(context, await context.desk.workers.forget(worker), "")


@command(group, "status")
async def status(context: CommandContext) -> None:
    """Show the jobs in the slots of each worker."""
    found = await context.desk.workers.status()
    rows = []
    for item in found.workers:
        slots = ", ".join(f"{use.lane} {use.used}/{use.slots}" for use in item.slots)
        jobs = [
            [job.public_id, job.kind, job.lane or "", moment(job.since, found.at), progress_text(job.progress)]
            for job in item.jobs
        ]
        jobs += [
            [slot.public_id, slot.kind, slot.lane, moment(slot.since, found.at), "told to stop then, goes on"]
            for slot in item.worker.held
        ]
        rows += [[item.worker.name, _state(item.worker), slots, *job] for job in jobs or [["", "", "", "", ""]]]
    columns = ("worker", "state", "slots used", "job", "kind", "lane", "since", "progress")
    context.screen.table(columns, rows, records.status(found), "No workers.", ("slots used", "lane", "state"))
    for kind in found.unserved if not context.screen.as_json else ():
        waited = f", the oldest for {span(kind.oldest_wait)}" if kind.oldest_wait else ""
        context.screen.line(f"No lane serves {kind.kind}: {kind.due} due jobs{waited}.")


@command(group, "probe", schema=False)
async def probe(
    context: CommandContext,
    target: Annotated[str, typer.Argument(metavar="PORT|FILE|SOCKET", help="What `worker --health` was given.")],
    *,
    ready: Annotated[bool, typer.Option("--ready", help="Ask whether it is at work, not only alive.")] = False,
    drained: Annotated[bool, typer.Option("--drained", help="Ask whether it has finished draining.")] = False,
) -> None:
    """Ask a worker of this machine how it is. Exit code 0: it lives (is ready, has drained); 1: it does not."""
    state = ask(target)
    wanted = "drained" if drained else "ready" if ready else "live"
    text = f"{state['phase']}, {'' if state[wanted] else 'not '}{wanted}"
    context.screen.answer(text + (f": {state['reason']}" if state["reason"] else ""), state)
    if not state[wanted]:
        raise typer.Exit(Exit.FAILED)


def _show(context: CommandContext, found: Sequence[WorkerView], empty: str) -> None:
    rows = [
        [
            str(worker.id),
            worker.name,
            worker.host,
            str(worker.pid),
            worker.version,
            "all" if worker.lanes is None else ", ".join(worker.lanes),
            str(worker.running) + (f" ({worker.stuck} stuck)" if worker.stuck else ""),
            "" if worker.memory is None else size.shown(worker.memory),
            _state(worker),
            moment(worker.started_at),
            moment(worker.seen_at),
        ]
        for worker in found
    ]
    context.screen.table(_COLUMNS, rows, [records.worker(worker) for worker in found], empty, _SPARE)


def _state(worker: WorkerView) -> str:
    if worker.silent:
        return "silent"
    return f"{worker.state}, draining" if worker.requested and worker.state == "up" else worker.state
