"""The PostgreSQL server of a test run, and databases on it: what the fixtures of conftest.py are made of."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

from rowlock.store.embedded import keeper
from rowlock.store.embedded.binaries import locate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    import psycopg


TEMPLATE = "rowlock_template"
STATISTICS = ("fresh statistics", "stale statistics")
"""What the planner believes of a table with many rows. Stale: that it is empty."""
SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "300", "autovacuum_naptime": "10min"}


def chosen_server() -> dict[str, Any]:
    """Arguments of start() for ROWLOCK_TEST_PG."""
    choice = os.environ.get("ROWLOCK_TEST_PG", "18")
    if choice in {"16", "18"}:
        return {"version": int(choice)}
    debian = os.environ.get("ROWLOCK_TEST_PGBIN", "/usr/lib/postgresql/15/bin")
    return {"binaries": Path(debian if choice == "15" else choice)}


def at(url: str, database: str) -> str:
    """The URL of another database on the same server."""
    return url.replace("/rowlock?", f"/{database}?")


@contextlib.contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold a lock file against the other processes of this test run."""
    held = keeper.lock(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(held)


@contextlib.contextmanager
def fresh(administrator: psycopg.Connection[Any], server_url: str, template: str) -> Iterator[str]:
    """A copy of `template` that is dropped at the end of the block."""
    name = f"test_{uuid.uuid4().hex}"
    administrator.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY wal_log")
    try:
        yield at(server_url, name)
    finally:
        administrator.execute(f"DROP DATABASE {name} WITH (FORCE)")


def built_once(
    folder: Path,
    administrator: psycopg.Connection[Any],
    server_url: str,
    name: str,
    build: Callable[[str], Coroutine[Any, Any, object]],
    *,
    template: str = "template1",
) -> str:
    """The URL of the database `name`, which the first process of this test run that asks copies and builds."""
    with one_at_a_time(folder / f"{name}.lock"):
        names = administrator.execute("SELECT datname FROM pg_database").fetchall()
        if (name,) not in names:
            building = f"{name}_{uuid.uuid4().hex[:8]}"
            administrator.execute(f"CREATE DATABASE {building} TEMPLATE {template} STRATEGY wal_log")
            asyncio.run(build(at(server_url, building)))
            administrator.execute(f"ALTER DATABASE {building} RENAME TO {name}")
    return at(server_url, name)


async def fill(url: str, rows: str, *tables: str, stale: bool) -> None:
    """Write rows by SQL. stale: the planner has looked at the tables while they were empty, and never does again."""
    connection = await asyncpg.connect(url)
    try:
        look = f"VACUUM ANALYZE {', '.join(tables)}"
        for table in tables:
            await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        if stale:
            await connection.execute(look)
        await connection.execute(rows)
        if not stale:
            await connection.execute(look)
    finally:
        await connection.close()


async def psql(url: str, script: str) -> None:
    """Run a script in a real psql, which stops at the first error."""
    await client_program("psql", url, "--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1", "-f", "-", given=script)


async def client_program(name: str, url: str, *options: str, given: str = "") -> str:
    """What a program of PostgreSQL prints."""
    server, pipe = chosen_server(), asyncio.subprocess.PIPE
    program = (server.get("binaries") or locate(server["version"])) / name
    process = await asyncio.create_subprocess_exec(str(program), url, *options, stdin=pipe, stdout=pipe, stderr=pipe)
    printed, said = await process.communicate(given.encode())
    assert (process.returncode, said.decode()) == (0, "")
    return printed.decode()
