"""rowlock stats: how much there is to do, how fast it is done, and what goes wrong."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowlock.cli.call import Call, command
from rowlock.cli.jobs import error_text
from rowlock.cli.progress import left_text, rate_text
from rowlock.model.duration import humanise
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from rowlock.model.load import Backlog, Failures, Overview


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    command(root, "stats")(stats)


async def stats(
    call: Call,
    window: Annotated[
        str, typer.Option(metavar="DURATION", help="Ends within this time are counted, such as 15m.")
    ] = "1h",
) -> None:
    """Show jobs by state, lanes with their use and backlog, throughput and failures.

    A number with a + behind it was counted no further.
    """
    desk = call.app.stats
    overview = await desk.overview(window=window)
    backlog, failures = await desk.backlog(), await desk.failures(window)
    throughput = await desk.throughput(window)
    if call.screen.as_json:
        record: dict[str, Any] = asdict(overview)
        record |= {"throughput": {**asdict(throughput), "per_second": throughput.per_second}}
        record |= {"backlog": [asdict(item) for item in backlog]}
        record |= {"failures": [{**asdict(item), "rate": item.rate} for item in failures]}
        call.screen.json(record)
        return
    ended = f"ended in {humanise(overview.window)}"
    call.screen.table(("state", "now", ended), _states(overview), None, "")
    pace = rate_text(throughput.per_second)
    call.screen.line(f"{throughput.ended} jobs ended in {humanise(overview.window)}, {pace}.")
    _section(call, ("lane", "state", "running", "slots", "workers", "due", "scheduled", "oldest"), _lanes(overview))
    _section(call, ("kind", "lane", "due", "scheduled", "oldest"), _backlog(backlog))
    _section(call, ("kind", "ended", "failed", "rate", "last error"), _failures(failures))


def _section(call: Call, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        call.screen.line("")
        call.screen.table(columns, rows, None, "")


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
            str(load.running),
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


def _wait(wait: timedelta | None) -> str:
    return "" if wait is None else left_text(wait)
