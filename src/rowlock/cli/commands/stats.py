"""rowlock stats: backlog, running jobs, throughput and failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.screen import records
from rowlock.cli.screen.job_text import error_text, progress_text
from rowlock.cli.screen.progress_text import left_text, rate_text
from rowlock.model.state import State
from rowlock.model.times.duration import duration, humanise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from rowlock.model.workload import Backlog, Failures, Overview, Running, TenantLoad, Work

_MOST: Final = 20
"""Slow jobs and references shown."""


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    command(root, "stats")(stats)


async def stats(
    context: CommandContext,
    window: Annotated[
        str, typer.Option(metavar="DURATION", help="Time window of throughput and failures, such as 15m.")
    ] = "1h",
    slow: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Show jobs that have been running for longer than this, such as 30m."),
    ] = "10m",
) -> None:
    """Show jobs by state, lanes with use and backlog, throughput, failures, tenants, references and slow jobs.

    A number followed by + is a lower bound: counting stopped there.
    """
    desk = context.app.stats
    least = duration(slow, "--slow")
    panel = await desk.panel(window=window, jobs=0)
    slow_jobs, work = await desk.slow(least, limit=_MOST), await desk.references(limit=_MOST)
    if context.screen.as_json:
        context.screen.json(
            {
                **records.overview(panel.overview),
                "throughput": panel.throughput,
                "backlog": [records.backlog(item) for item in panel.backlog],
                "failures": [records.failures(item) for item in panel.failures],
                "tenants": panel.tenants,
                "slow": [records.running(job) for job in slow_jobs],
                "references": work,
            }
        )
        return
    overview, throughput = panel.overview, panel.throughput
    ended = f"ended in {humanise(overview.window)}"
    context.screen.table(("state", "now", ended), _states(overview), None, "")
    pace = rate_text(throughput.per_second)
    context.screen.line(f"{throughput.ended} jobs ended in {humanise(overview.window)}, {pace}.")
    _section(context, ("lane", "state", "running", "slots", "workers", "due", "scheduled", "oldest"), _lanes(overview))
    _section(context, ("kind", "lane", "due", "scheduled", "oldest"), _backlog(panel.backlog))
    _section(context, ("kind", "ended", "failed", "rate", "last error"), _failures(panel.failures))
    if any(item.tenant is not None for item in panel.tenants):
        _section(context, ("tenant", "ended", "failed", "speed"), _tenants(panel.tenants))
    _section(context, ("reference", "phase", "kind", "running", "longest"), _work(work))
    _section(
        context, ("job", "kind", "lane", f"running over {humanise(least)}", "worker", "progress"), _slow(slow_jobs)
    )


def _section(context: CommandContext, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        context.screen.line("")
        context.screen.table(columns, rows, None, "")


def _states(overview: Overview) -> list[list[str]]:
    return [
        [state.value, _or_nothing(overview.states.get(state)), _or_nothing(overview.ended.get(state))]
        for state in State
        if state in overview.states or state in overview.ended
    ]


def _or_nothing(count: object) -> str:
    return "" if count is None else str(count)


def _lanes(overview: Overview) -> list[list[str]]:
    return [
        [
            load.lane.name,
            "open" if load.lane.enabled else "drained",
            str(load.running) + (f" ({load.held} stuck)" if load.held else ""),
            str(load.slots),
            str(load.workers),
            str(load.due),
            str(load.scheduled),
            _wait(load.oldest_wait),
        ]
        for load in overview.lanes
    ]


def _backlog(backlog: Sequence[Backlog]) -> list[list[str]]:
    return [
        [item.kind, item.lane or "(none)", str(item.due), str(item.scheduled), _wait(item.oldest_wait)]
        for item in backlog
    ]


def _failures(failures: Sequence[Failures]) -> list[list[str]]:
    return [
        [item.kind, str(item.ended), str(item.failed), f"{item.rate:.1%}", error_text(item.last_error)]
        for item in failures
        if item.failed
    ]


def _tenants(tenants: Sequence[TenantLoad]) -> list[list[str]]:
    return [
        [item.tenant or "(none)", str(item.ended), str(item.failed), rate_text(item.per_second)] for item in tenants
    ]


def _work(work: Sequence[Work]) -> list[list[str]]:
    return [
        [f"{item.name}={item.value}", item.phase or "", item.kind, str(item.running), left_text(item.longest)]
        for item in work
    ]


def _slow(jobs: Sequence[Running]) -> list[list[str]]:
    return [
        [
            job.public_id,
            job.kind,
            job.lane or "",
            left_text(job.running_for),
            f"{job.worker or '?'}{' (silent)' * job.worker_silent}",
            progress_text(job.progress),
        ]
        for job in jobs
    ]


def _wait(wait: timedelta | None) -> str:
    return "" if wait is None else left_text(wait)
