"""rowlock retention: how long finished jobs stay in this deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowlock.cli import completion
from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.screen import records
from rowlock.model.retention import EVERY
from rowlock.model.times.duration import humanise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.retention import RetentionRule

group = typer.Typer(no_args_is_help=True, help="Read and set how long finished jobs stay.")
Kind = Annotated[
    str, typer.Argument(metavar="KIND", help="Kind, or '*' for every kind.", autocompletion=completion.kinds)
]
FinalState = Annotated[
    str, typer.Option("--state", metavar="STATE", help="Only jobs in this final state; default: all of them.")
]
_COLUMNS: Final = ("kind", "state", "keep", "from", "code says")


@command(group, "ls")
async def ls(context: CommandContext) -> None:
    """List the rules, the widest first; the most specific one that fits a job decides."""
    _show(context, await context.desk.retention.list())


@command(group, "set")
async def change(
    context: CommandContext,
    kind: Kind,
    keep: Annotated[str, typer.Argument(metavar="DURATION", help="How long jobs stay, such as 30d or 12h.")],
    *,
    state: FinalState = EVERY,
) -> None:
    """Keep finished jobs of a kind for that long, whatever its code says; older ones are removed soon."""
    retention = context.desk.retention
    rule = await retention.set(kind, keep, state=state)
    _show(context, [rule])
    others = [each for each in await retention.list() if each.kind == kind and state == EVERY != each.state]
    if others and not context.screen.as_json:
        stay = ", ".join(f"{each.state} {humanise(each.keep)}" for each in others)
        context.screen.note(f"rules for single states of {kind} still decide for those: {stay}")


@command(group, "reset")
async def reset(context: CommandContext, kind: Kind, *, state: FinalState = EVERY) -> None:
    """Remove the retention that was set here, so that the one in the code counts again."""
    rule = await context.desk.retention.reset(kind, state=state)
    _show(context, [] if rule is None else [rule])


def _show(context: CommandContext, rules: Sequence[RetentionRule]) -> None:
    rows = [
        [
            rule.kind,
            rule.state,
            humanise(rule.keep),
            rule.source,
            "" if rule.declared is None else humanise(rule.declared),
        ]
        for rule in rules
    ]
    found = [records.retention_rule(rule) for rule in rules]
    context.screen.table(_COLUMNS, rows, found, "No rule of its own; a wider one decides. See: rowlock retention ls")
