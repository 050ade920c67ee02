"""rowlock schema: create, upgrade, undo, print and check Rowlock's tables."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from rowlock.cli.call import Call
from rowlock.cli.command import command
from rowlock.cli.exit_codes import Exit
from rowlock.cli.screen.output import complain, moment
from rowlock.errors import InvalidOption
from rowlock.store.schema import migrate

group = typer.Typer(no_args_is_help=True, help="Create, upgrade, undo, print and check Rowlock's tables.")
_COLUMNS: Final = ("version", "name", "applied")


@command(group, "upgrade", schema=False)
async def upgrade(
    call: Call, to: Annotated[int | None, typer.Option(help="Stop at this version; default: the newest.")] = None
) -> None:
    """Bring the tables to the version this code needs."""
    url, name = _where(call)
    done = await migrate.upgrade(url, name, to=to)
    now = (await migrate.status(url, name)).version
    text = f"Schema {name!r} is at version {now}: " + (f"applied {_list(done)}." if done else "nothing to do.")
    call.screen.said(text, {"schema": name, "version": now, "applied": done})


@command(group, "downgrade", schema=False)
async def downgrade(
    call: Call,
    to: Annotated[int, typer.Option(min=0, help="The version to go back to; 0 removes the tables.")],
    yes: Annotated[bool, typer.Option("--yes", help="Also when jobs are lost.")] = False,
) -> None:
    """Undo the steps above a version."""
    url, name = _where(call)
    before = await migrate.status(url, name)
    if to == 0 < before.version and not yes and await call.app.jobs.list(limit=1):
        raise InvalidOption(f"Version 0 drops every table of schema {name!r} with its jobs. Add --yes to do that.")
    undone = await migrate.downgrade(url, name, to=to)
    now = (await migrate.status(url, name)).version
    text = f"Schema {name!r} is at version {now}: " + (f"undid {_list(undone)}." if undone else "nothing to undo.")
    call.screen.said(text, {"schema": name, "version": now, "undone": undone})


@command(group, "index")
async def index(
    call: Call,
    what: Annotated[str, typer.Argument(metavar="args", help="What to index: args.")],
    drop: Annotated[bool, typer.Option("--drop", help="Remove it again.")] = False,
) -> None:
    """Build the optional index for searches by argument, while everything runs; it makes every job's writes dearer."""
    if what != "args":
        raise InvalidOption(f"There is one optional index, args; got {what!r}.")
    url, name = _where(call)
    await migrate.index_args(url, name, drop=drop)
    call.screen.said(
        f"The index on arguments {'is gone' if drop else 'is there'}.", {"schema": name, "args_index": not drop}
    )


@command(group, "status", schema=False)
async def status(call: Call) -> None:
    """Say which steps are applied; exit code 3 unless this code can run on them."""
    url, name = _where(call)
    found = await migrate.status(url, name)
    verdict = _verdict(found)
    rows = [[str(version), step, moment(at) or "no"] for version, step, at in found.steps]
    record = {
        "schema": name,
        "version": found.version,
        "newest": found.newest,
        "status": verdict,
        "steps": [{"version": version, "name": step, "applied_at": at} for version, step, at in found.steps],
    }
    call.screen.table(_COLUMNS, rows, record, "")
    if verdict in _ADVICE:
        complain(f"The schema {name!r} is {verdict} (version {found.version} of {found.newest}). {_ADVICE[verdict]}")
        raise typer.Exit(Exit.DATABASE)


@command(group, "sql", schema=False)
async def sql(
    call: Call,
    since: Annotated[int, typer.Option(min=0, help="The version the database is at.")] = 0,
    to: Annotated[int | None, typer.Option(min=0, help="The version to reach, also an older one.")] = None,
) -> None:
    """Print the script for a DBA to read and run; needs no database."""
    name = call.schema or call.app.settings.schema
    newest = migrate.newest()
    if max(since, to or 0) > newest:
        raise InvalidOption(f"--since and --to take a version from 0 to {newest}.")
    script = migrate.sql(name, since=since, to=to)
    if call.screen.as_json:
        call.screen.json({"schema": name, "since": since, "to": newest if to is None else to, "sql": script})
    else:
        call.screen.line(script.rstrip())


@command(group, "verify", schema=False)
async def verify(call: Call) -> None:
    """Compare the tables with freshly made ones; exit code 1 when they differ."""
    url, name = _where(call)
    differences = await migrate.verify(url, name)
    if call.screen.as_json:
        call.screen.json({"schema": name, "differences": differences})
    else:
        for text in differences or [f"Schema {name!r} is as it should be."]:
            call.screen.line(text)
    if differences:
        raise typer.Exit(Exit.FAILED)


def _where(call: Call) -> tuple[str, str]:
    database = call.app.database()
    return database.direct_url, database.schema  # past a pooler: steps hold a lock of their session


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
    # One ahead is served where its steps say so: upgrades are made so that the code before them goes on.
    return "ahead" if found.compatible_since > found.newest else "current"


def _list(versions: list[int]) -> str:
    return ", ".join(map(str, versions))
