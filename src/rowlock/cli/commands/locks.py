"""rowlock locks: locks of the application with their holders and waiters."""

from __future__ import annotations

from typing import Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.screen import records
from rowlock.cli.screen.output import moment

group = typer.Typer(no_args_is_help=True, help="Read locks of the application.")
_COLUMNS: Final = ("namespace", "key", "who", "job", "kind", "process", "since")
_SPARE: Final = ("process", "kind")


@command(group, "ls")
async def ls(context: CommandContext) -> None:
    """List every lock with its holder, then its waiters, the longest waiting first."""
    found = await context.desk.locks.list()
    rows = []
    for lock in found:
        users = [("holds", lock.holder)] if lock.holder is not None else []
        for who, user in [*users, *(("waits", waiter) for waiter in lock.waiters)]:
            since = moment(user.since, lock.at)
            rows.append([lock.namespace, lock.key, who, user.public_id or "", user.kind or "", user.process, since])
    context.screen.table(_COLUMNS, rows, [records.lock(lock) for lock in found], "No locks.", _SPARE)
