"""rowlock lanes: read and change lanes while workers run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from rowlock.cli import completion
from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.screen import records
from rowlock.cli.screen.output import span
from rowlock.errors import InvalidOption
from rowlock.model.lane import Lane
from rowlock.model.rate import Rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.lane import LaneOrder
    from rowlock.model.workload import LaneLoad

group = typer.Typer(
    no_args_is_help=True, help="Read and change lanes while workers run; changes apply within two seconds."
)
Name = Annotated[str, typer.Argument(metavar="LANE", help="Name of the lane.", autocompletion=completion.lanes)]
_COLUMNS: Final = (
    "lane", "kinds", "slots", "use", "due", "max total", "rate", "order", "poll interval",
    "heartbeat timeout", "progress timeout", "aging interval", "state", "version",
)  # fmt: skip
_SPARE: Final = (
    "version", "aging interval", "order", "poll interval", "progress timeout", "heartbeat timeout", "max total", "rate",
)  # fmt: skip


@command(group, "ls")
async def ls(context: CommandContext) -> None:
    """List lanes with their settings, their use over all workers, and the number of due jobs."""
    await _show(context, await context.desk.lanes.loads(), "No lanes yet; a worker creates them at its start.")


@command(group, "set")
async def change(
    context: CommandContext,
    name: Name,
    *,
    kinds: Annotated[
        str | None, typer.Option(metavar="A,B", help="Kinds that the lane serves; *: every kind that no lane names.")
    ] = None,
    slots: Annotated[int | None, typer.Option(help="Jobs at once per worker process.")] = None,
    max_total: Annotated[int | None, typer.Option(help="Jobs at once over all workers; -1: no limit.")] = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="fast|strict|fair",
            help="Order of jobs: loosely by priority and age, strictly so, or by turns of tenants.",
            autocompletion=completion.one_of("fast", "strict", "fair"),
        ),
    ] = None,
    poll_interval: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time between two looks of an idle lane, such as 5s.")
    ] = None,
    heartbeat_timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Silence after which a worker is lost, and its jobs with it."),
    ] = None,
    progress_timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Time without a report after which a running job is given up; 0: never."),
    ] = None,
    approval: Annotated[
        bool | None, typer.Option("--approval/--no-approval", help="Whether new jobs wait for approval.")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(metavar="N/TIME", help="Starts per time over all workers, such as 10/s; off: no limit."),
    ] = None,
    burst: Annotated[
        int | None, typer.Option(help="With --rate: jobs that may start at once after a quiet time.")
    ] = None,
    window: Annotated[
        bool, typer.Option("--window", help="With --rate: a strict sliding window instead of a token bucket.")
    ] = False,
    aging_interval: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="A waiting job rises by one priority per interval; 0: never."),
    ] = None,
    version: Annotated[int | None, typer.Option(help="Change only if the lane still has this version.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the lane if it does not exist.")] = False,
) -> None:
    """Change the given settings of a lane; the others stay."""
    settings = (kinds, slots, max_total, order, poll_interval, heartbeat_timeout, progress_timeout)
    if not create and all(value is None for value in (*settings, approval, rate, aging_interval)):
        raise InvalidOption(
            "Nothing to change: add --kinds, --slots, --max-total, --order, --poll-interval, --heartbeat-timeout, "
            "--progress-timeout, --approval, --rate or --aging-interval."
        )
    lanes = context.desk.lanes
    if create:
        await lanes.create(Lane(name))
    changed = await lanes.set(
        name,
        kinds=None if kinds is None else [kind.strip() for kind in kinds.split(",") if kind.strip()],
        slots=slots,
        max_total=max_total,
        order=cast("LaneOrder | None", order),  # checked by the desk
        poll_interval=poll_interval,
        heartbeat_timeout=heartbeat_timeout,
        progress_timeout=progress_timeout,
        requires_approval=approval,
        rate=rate if rate in (None, "off") else Rate.parse(rate, burst=burst, window=window),
        aging_interval=aging_interval,
        version=version,
    )
    await _show_one(context, changed.name)


@command(group, "drain")
async def drain(context: CommandContext, name: Name) -> None:
    """Start no more jobs of this lane; running ones go on."""
    await context.desk.lanes.drain(name)
    await _show_one(context, name)


@command(group, "resume")
async def resume(context: CommandContext, name: Name) -> None:
    """Start jobs of this lane again."""
    await context.desk.lanes.resume(name)
    await _show_one(context, name)


async def _show_one(context: CommandContext, name: str) -> None:
    await _show(context, [load for load in await context.desk.lanes.loads() if load.lane.name == name], "")


async def _show(context: CommandContext, loads: Sequence[LaneLoad], empty: str) -> None:
    rows = [
        [
            lane.name,
            ", ".join(lane.kinds),
            str(lane.slots),
            f"{load.used}/{load.slots}",
            str(load.due),
            "" if lane.max_total is None else str(lane.max_total),
            "" if lane.rate is None else str(lane.rate),
            lane.order,
            span(lane.poll_interval),
            span(lane.heartbeat_timeout),
            span(lane.progress_timeout),
            span(lane.aging_interval),
            ("open" if lane.enabled else "drained") + ", approval" * lane.requires_approval,
            str(lane.version),
        ]
        for load in loads
        for lane in [load.lane]
    ]
    context.screen.table(_COLUMNS, rows, [records.lane_load(load) for load in loads], empty, _SPARE)
