"""rowlock schema: create, upgrade, undo, print and check Rowlock's tables."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.exit_codes import Exit
from rowlock.cli.screen.output import moment
from rowlock.errors import InvalidOption
from rowlock.model.problem_codes import CODES
from rowlock.store.schema import migrate

group = typer.Typer(no_args_is_help=True, help="Create, upgrade, downgrade, print and check Rowlock's tables.")
_COLUMNS: Final = ("version", "name", "applied")


@command(group, "upgrade", schema=False)
async def upgrade(
    context: CommandContext,
    to: Annotated[int | None, typer.Option(help="Version to upgrade to; default: the newest.")] = None,
) -> None:
    """Upgrade the tables to the version that this code needs."""
    database = context.app.database()
    name = database.schema
    done = await migrate.upgrade(database, to=to)
    now = (await migrate.status(database)).version
    text = f"Schema {name!r} is at version {now}: " + (f"applied {_list(done)}." if done else "nothing to do.")
    context.screen.answer(text, {"schema": name, "version": now, "applied": done})


@command(group, "downgrade", schema=False)
async def downgrade(
    context: CommandContext,
    to: Annotated[int, typer.Option(min=0, help="Version to downgrade to; 0 removes the tables.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it even if jobs are lost.")] = False,
) -> None:
    """Undo the migrations above a version."""
    database = context.app.database()
    name = database.schema
    before = await migrate.status(database)
    if to == 0 < before.version and not yes and await context.app.jobs.list(limit=1):
        raise InvalidOption(f"Version 0 drops every table of schema {name!r} with its jobs. Add --yes to do that.")
    undone = await migrate.downgrade(database, to=to)
    now = (await migrate.status(database)).version
    text = f"Schema {name!r} is at version {now}: " + (f"undid {_list(undone)}." if undone else "nothing to undo.")
    context.screen.answer(text, {"schema": name, "version": now, "undone": undone})


@command(group, "index")
async def index(
    context: CommandContext,
    what: Annotated[str, typer.Argument(metavar="args", help="What to index; there is only args.")],
    drop: Annotated[bool, typer.Option("--drop", help="Remove the index.")] = False,
) -> None:
    """Build the optional index for searches by argument, while workers run; it makes every write of a job slower."""
    if what != "args":
        raise InvalidOption(f"There is one optional index, args; got {what!r}.")
    database = context.app.database()
    name = database.schema
    await migrate.index_args(database, drop=drop)
    context.screen.answer(
        f"The index on arguments {'is gone' if drop else 'is there'}.", {"schema": name, "args_index": not drop}
    )


@command(group, "status", schema=False)
async def status(context: CommandContext) -> None:
    """Show which migrations are applied. Exit code 3 unless this code can run on them."""
    database = context.app.database()
    name = database.schema
    found = await migrate.status(database)
    verdict = _verdict(found)
    rows = [[str(version), step, moment(at) or "no"] for version, step, at in found.steps]
    record = {
        "schema": name,
        "version": found.version,
        "newest": found.newest,
        "status": verdict,
        "steps": [{"version": version, "name": step, "applied_at": at} for version, step, at in found.steps],
    }
    context.screen.table(_COLUMNS, rows, record, "")
    if verdict in _ADVICE:
        why = f"The schema {name!r} is {verdict} (version {found.version} of {found.newest}). {_ADVICE[verdict]}"
        context.screen.problem_of(CODES["unavailable"], why)
        raise typer.Exit(Exit.DATABASE)


@command(group, "sql", schema=False)
async def sql(
    context: CommandContext,
    since: Annotated[int, typer.Option(min=0, help="Current version of the database.")] = 0,
    to: Annotated[int | None, typer.Option(min=0, help="Version to reach; may be older than --since.")] = None,
    no_transaction: Annotated[
        bool,
        typer.Option(
            "--no-transaction", help="Without BEGIN and COMMIT, for a tool that has a transaction of its own."
        ),
    ] = False,
) -> None:
    """Print the migrations as an SQL script, for a DBA to read and run; needs no database."""
    name = context.schema or context.app.settings.schema
    newest = migrate.newest()
    if max(since, to or 0) > newest:
        raise InvalidOption(f"--since and --to take a version from 0 to {newest}.")
    script = migrate.sql(name, since=since, to=to, transaction=not no_transaction)
    if context.screen.as_json:
        context.screen.json({"schema": name, "since": since, "to": newest if to is None else to, "sql": script})
    else:
        context.screen.line(script.rstrip())


@command(group, "verify", schema=False)
async def verify(context: CommandContext) -> None:
    """Compare the tables with newly created ones. Exit code 1 if they differ."""
    database = context.app.database()
    name = database.schema
    differences = await migrate.verify(database)
    if context.screen.as_json:
        context.screen.json({"schema": name, "differences": differences})
    else:
        for text in differences or [f"Schema {name!r} is as it should be."]:
            context.screen.line(text)
    if differences:
        raise typer.Exit(Exit.FAILED)


_ADVICE: Final = {
    "missing": "Create it with: rowlock schema upgrade",
    "behind": "Upgrade it with: rowlock schema upgrade",
    "ahead": "Install a newer rowlock.",
}


def _verdict(found: migrate.SchemaStatus) -> str:
    if found.version == 0:
        return "missing"
    if found.version < found.newest:
        return "behind"
    # A newer schema is fine if its migrations say so: code of the release before goes on under them.
    return "ahead" if found.compatible_since > found.newest else "current"


def _list(versions: list[int]) -> str:
    return ", ".join(map(str, versions))
