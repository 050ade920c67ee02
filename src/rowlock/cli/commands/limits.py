"""rowlock limits: read and change gates and rates while workers run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.option_values import day_or_instant
from rowlock.cli.screen import records
from rowlock.cli.screen.output import moment
from rowlock.errors import InvalidOption, LimitNotFound
from rowlock.model.rate import Rate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from rowlock.model.rate import GateView, RateView

group = typer.Typer(no_args_is_help=True, help="Read and change gates and rates while workers run.")
Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of the gate or rate; lane:NAME for the rate of a lane.")]
_COLUMNS: Final = ("key", "what", "limit", "free", "waiting", "state", "used")
_SPARE: Final = ("used",)


@command(group, "ls")
async def ls(
    context: CommandContext,
    prefix: Annotated[str | None, typer.Option(metavar="TEXT", help="Only keys with this prefix.")] = None,
    after: Annotated[str, typer.Option(metavar="KEY", help="Only keys after this one: the next page.")] = "",
    limit: Annotated[int, typer.Option(help="Maximum number of gates, and of rates.")] = 100,
) -> None:
    """List gates and rates with their free places and waiting jobs."""
    limits = context.desk.limits
    gates = await limits.gates(prefix=prefix, after=after, limit=limit)
    _show(context, gates, await limits.rates(prefix=prefix, after=after, limit=limit), "No gates and no rates.")


@command(group, "show")
async def show(context: CommandContext, key: Key) -> None:
    """Show the gate and the rate of a key, and the jobs that hold places at the gate."""
    gate, rate = await _or_none(context.desk.limits.gate(key)), await _or_none(context.desk.limits.rate(key))
    if gate is None and rate is None:
        raise LimitNotFound(f"There is no gate and no rate {key!r}. See: rowlock limits ls")
    _show(context, [gate] if gate else [], [rate] if rate else [], "")
    if gate is not None and not context.screen.as_json:
        for holder in gate.holders:
            since = f"since {moment(holder.since)}" if holder.since else "about to start"
            context.screen.line(f"  {holder.public_id}  {holder.kind}  {holder.worker or ''}  {since}")


@command(group, "set")
async def change(
    context: CommandContext,
    key: Key,
    *,
    places: Annotated[int | None, typer.Option("--limit", help="Gate: jobs at once.")] = None,
    fifo: Annotated[bool | None, typer.Option("--fifo/--no-fifo", help="Gate: strictly first in, first out.")] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="N/TIME", help="Rate: starts per time, such as 10/s or 100/1m.")
    ] = None,
    burst: Annotated[
        int | None, typer.Option(help="With --rate: jobs that may start at once after a quiet time.")
    ] = None,
    window: Annotated[
        bool, typer.Option("--window", help="With --rate: a strict sliding window instead of a token bucket.")
    ] = False,
) -> None:
    """Change a gate or a rate; code that declares it does not change it back."""
    if places is None and fifo is None and rate is None:
        raise InvalidOption("Nothing to change: add --limit or --fifo for a gate, --rate for a rate.")
    if rate is None and (burst is not None or window):
        raise InvalidOption("--burst and --window are of a rate: add --rate, such as --rate 10/s.")
    limits, gates, rates = context.desk.limits, list["GateView"](), list["RateView"]()
    wanted = None if rate is None else Rate.parse(rate, burst=burst, window=window)  # before anything is written
    if places is not None or fifo is not None:
        gates.append(await limits.set_gate(key, limit=places, fifo=fifo))
    if wanted is not None:
        rates.append(await limits.set_rate(key, wanted))
    _show(context, gates, rates, "")


@command(group, "pause")
async def pause(
    context: CommandContext,
    key: Key,
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Length of the pause, such as 30s.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="End of the pause, such as 2026-11-01T10:30 (UTC).")
    ] = None,
) -> None:
    """Start no job of a rate for a while; running ones go on."""
    if (lasting is None) == (until is None):
        raise InvalidOption("Say how long: --for 30s, or --until 2026-11-01T10:30; one of them.")
    _show(
        context,
        [],
        [
            await context.desk.limits.pause(
                key, lasting, until=None if until is None else day_or_instant(until, "--until")
            )
        ],
        "",
    )


@command(group, "resume")
async def resume(context: CommandContext, key: Key) -> None:
    """End a pause; waiting jobs get new turns from now on."""
    _show(context, [], [await context.desk.limits.resume(key)], "")


@command(group, "reset")
async def reset(context: CommandContext, key: Key) -> None:
    """Forget what was used of the rate."""
    _show(context, [], [await context.desk.limits.reset(key)], "")


@command(group, "rm")
async def remove(context: CommandContext, key: Key) -> None:
    """Remove the gate and the rate of a key if no job needs them; code that names them creates them again."""
    limits = context.desk.limits
    gate, rate = await _or_none(limits.gate(key)), await _or_none(limits.rate(key))
    if gate is None and rate is None:
        raise LimitNotFound(f"There is no gate and no rate {key!r}. See: rowlock limits ls")
    gates = [await limits.delete_gate(key)] if gate else []
    _show(context, gates, [await limits.delete_rate(key)] if rate else [], "")


async def _or_none(asked: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever was asked for
    try:
        return await asked
    except LimitNotFound:
        return None


def _show(context: CommandContext, gates: Sequence[GateView], rates: Sequence[RateView], empty: str) -> None:
    rows = [
        [
            gate.key,
            "gate",
            f"{gate.limit} at once" + ", in order" * gate.fifo,
            str(max(0, gate.limit - gate.held)),
            str(gate.parked),
            "closed" if gate.limit == 0 else "full" if gate.held >= gate.limit else "open",
            moment(gate.used_at),
        ]
        for gate in gates
    ]
    rows += [
        [
            view.key,
            "rate",
            str(view.rate),
            str(view.available),
            f"~{view.waiting}" if view.waiting else "0",
            f"paused until {moment(view.paused_until)}" if view.paused_until else "open",
            moment(view.used_at),
        ]
        for view in rates
    ]
    shown = [{"what": "gate", **records.gate(gate)} for gate in gates]
    shown += [{"what": "rate", **records.rate(view)} for view in rates]
    context.screen.table(_COLUMNS, rows, shown, empty, _SPARE)
