"""rowlock lanes: tune lanes while everything runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from rowlock.cli import completion
from rowlock.cli.call import Call
from rowlock.cli.command import command
from rowlock.cli.screen.output import span
from rowlock.errors import InvalidOption
from rowlock.model.lane import Lane
from rowlock.model.rate import Rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.lane import Ordering

group = typer.Typer(no_args_is_help=True, help="Tune lanes while workers run; edits apply within two seconds.")
Name = Annotated[str, typer.Argument(metavar="LANE", help="The lane's name.", autocompletion=completion.lanes)]
_COLUMNS: Final = (
    "lane", "kinds", "slots", "running", "max total", "rate", "order", "poll", "stale", "stall", "age", "state",
    "version",
)  # fmt: skip
_SPARE: Final = ("version", "age", "order", "poll", "stall", "stale", "max total", "rate")


@command(group, "ls")
async def ls(call: Call) -> None:
    """List lanes with what runs in them."""
    await _show(call, await call.desk.lanes.list(), "No lanes yet; a worker creates them at its start.")


@command(group, "set")
async def change(
    call: Call,
    name: Name,
    *,
    kinds: Annotated[str | None, typer.Option(metavar="A,B", help="Kinds it serves; * takes the rest.")] = None,
    slots: Annotated[int | None, typer.Option(help="Jobs at once, per worker process.")] = None,
    max_total: Annotated[int | None, typer.Option(help="Jobs at once over all workers; -1: no cap.")] = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="fast|strict|fair",
            help="How exactly priority is kept; fair: by turns of tenants.",
            autocompletion=completion.one_of("fast", "strict", "fair"),
        ),
    ] = None,
    poll: Annotated[str | None, typer.Option(metavar="DURATION", help="Between polls when idle, such as 5s.")] = None,
    stale: Annotated[str | None, typer.Option(metavar="DURATION", help="Silence after which jobs are lost.")] = None,
    stall_after: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time without progress after which a job is lost; 0: never.")
    ] = None,
    approval: Annotated[
        bool | None, typer.Option("--approval/--no-approval", help="New jobs wait for a person's approval.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="N/TIME", help="Starts over all workers, such as 10/s; off: no limit.")
    ] = None,
    burst: Annotated[int | None, typer.Option(help="With --rate: how many may start at once after a pause.")] = None,
    window: Annotated[bool, typer.Option("--window", help="With --rate: never more in any such time.")] = False,
    age: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Waiting that raises a job by one priority; 0: never.")
    ] = None,
    version: Annotated[int | None, typer.Option(help="Only if the lane still has this version.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the lane first if it is absent.")] = False,
) -> None:
    """Change what is given of a lane; the rest stays."""
    given = (kinds, slots, max_total, order, poll, stale, stall_after, approval, rate, age)
    if not create and all(value is None for value in given):
        raise InvalidOption(
            "Nothing to change: add --kinds, --slots, --max-total, --order, --poll, --stale, --stall-after, "
            "--approval, --rate or --age."
        )
    lanes = call.desk.lanes
    if create:
        await lanes.create(Lane(name))
    changed = await lanes.set(
        name,
        kinds=None if kinds is None else [kind.strip() for kind in kinds.split(",") if kind.strip()],
        slots=slots,
        max_total=max_total,
        order=cast("Ordering | None", order),  # checked by the desk
        poll=poll,
        stale=stale,
        stall=stall_after,
        requires_approval=approval,
        rate=rate if rate in (None, "off") else Rate.parse(rate, burst=burst, window=window),
        age=age,
        version=version,
    )
    await _show(call, [changed], "")


@command(group, "drain")
async def drain(call: Call, name: Name) -> None:
    """Start nothing more in this lane; what runs goes on."""
    await _show(call, [await call.desk.lanes.drain(name)], "")


@command(group, "resume")
async def resume(call: Call, name: Name) -> None:
    """Start jobs of this lane again."""
    await _show(call, [await call.desk.lanes.resume(name)], "")


async def _show(call: Call, lanes: Sequence[Lane], empty: str) -> None:
    running = await call.desk.lanes.running()
    rows = [
        [
            lane.name,
            ", ".join(lane.kinds),
            str(lane.slots),
            str(running.get(lane.name, 0)),
            "" if lane.max_total is None else str(lane.max_total),
            "" if lane.rate is None else str(lane.rate),
            lane.ordering,
            span(lane.poll_every),
            span(lane.stale_after),
            span(lane.stall_after),
            span(lane.age_every),
            ("open" if lane.enabled else "drained") + ", approval" * lane.requires_approval,
            str(lane.version),
        ]
        for lane in lanes
    ]
    call.screen.table(_COLUMNS, rows, [_record(lane, running) for lane in lanes], empty, _SPARE)


def _record(lane: Lane, running: dict[str, int]) -> dict[str, Any]:
    return {**asdict(lane), "rate": None if lane.rate is None else str(lane.rate), "running": running.get(lane.name, 0)}
