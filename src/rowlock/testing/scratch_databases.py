"""ScratchDatabases: short-lived databases cloned from a template, named after the test run that made them.

A run has a number. Each of its processes holds a shared advisory lock on that number while its connection lives, so the
next run recognises the databases of a run that crashed, and drops them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from rowlock.errors import ConfigurationError
from rowlock.store.database import Database
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    from rowlock.store.database import Connection, Record

_RUN: Final = re.compile(r"rowlock_test_([0-9a-f]{16})_")
_AGAIN: Final = 0.02
"""Seconds between two looks at a template that another process builds."""
_TRIES: Final = 200


def at(url: str, name: str) -> str:
    """The URL of another database on the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


class ScratchDatabases:
    """The databases of one run on one server; belongs to the event loop it was opened on."""

    def __init__(self, url: str, run: int, *, strategy: str) -> None:
        """run: 0 to 2**63 - 1. strategy: wal_log or file_copy, which wants a checkpoint."""
        self._home = Database(url)
        self._run, self._strategy = run, strategy
        self._connection: Connection[Record] | None = None
        self._turn = asyncio.Lock()

    @property
    def _prefix(self) -> str:
        return f"rowlock_test_{self._run:016x}_"

    async def open(self) -> list[str]:
        """Join the run; returns the databases of dead runs, which are dropped."""
        self._connection = await self._home.connect("testing", patient=True)
        await self._ask("join_run", run=self._run)
        dropped: list[str] = []
        names = [row["name"] for row in await self._ask("scratch_databases")]
        runs = {int(match[1], 16) for name in names if (match := _RUN.match(name))}
        for run in sorted(runs - {self._run}):
            if (await self._ask("run_is_over", run=run))[0]["over"]:
                left = [name for name in names if name.startswith(f"rowlock_test_{run:016x}_")]
                for name in left:
                    await self.drop(name)
                dropped += left
                await self._ask("forget_run", run=run)
        return dropped

    async def template(self, label: str, schema: str, prepare: Callable[[str], Awaitable[None]]) -> str:
        """The run's template with that label: the schema, and what `prepare` adds. The first process builds it."""
        name = f"{self._prefix}template_{label}"
        while not (await self._ask("try_build", name=name))[0]["mine"]:  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(_AGAIN)
        try:
            if name not in [row["name"] for row in await self._ask("scratch_databases")]:
                await self._build(name, schema, prepare)
        finally:
            await self._ask("built", name=name)
        return name

    async def _build(self, name: str, schema: str, prepare: Callable[[str], Awaitable[None]]) -> None:
        # Renamed when it is complete: a process that is killed in between leaves no half template.
        building = f"{self._prefix}building_{uuid.uuid4().hex[:12]}"
        await self._create(building, "template0")
        url = at(self._home.url, building)
        await migrate.upgrade(url, schema)
        await prepare(url)
        await self._do("close_text", name=building, open=False)
        await self._without_users(building, "rename_text", name=building, to=name)

    async def clone(self, template: str) -> str:
        """A new database like the template; returns its name."""
        name = f"{self._prefix}{uuid.uuid4().hex[:12]}"
        await self._create(name, template)
        return name

    async def _create(self, name: str, template: str) -> None:
        try:
            await self._do("create_text", name=name, template=template, strategy=self._strategy)
        except asyncpg.InsufficientPrivilegeError as error:
            raise ConfigurationError(
                f"The tests' database user may not create databases: {error}. Every test gets one of its own; let an "
                "administrator run ALTER ROLE … CREATEDB, or unset ROWLOCK_TEST_DATABASE_URL for the embedded server."
            ) from error

    async def drop(self, name: str) -> None:
        """Drop a database, with the connections to it."""
        await self._do("drop_text", name=name)

    async def hang_up(self, name: str) -> int:
        """End every connection to a database; returns how many there were."""
        return int((await self._ask("hang_up", name=name))[0]["ended"])

    async def take_away(self, name: str) -> None:
        """Make the database unreachable: for a client it is as if the server were down."""
        await self._do("close_text", name=name, open=False)
        # Renamed as well: a database that only refuses connections answers with another error than an outage.
        await self._without_users(name, "rename_text", name=name, to=f"{name}_away")

    async def bring_back(self, name: str) -> None:
        """Undo take_away."""
        await self._do("rename_text", name=f"{name}_away", to=name)
        await self._do("close_text", name=name, open=True)

    async def _without_users(self, database: str, statement: str, **values: object) -> None:
        for left in range(_TRIES, 0, -1):
            await self.hang_up(database)
            try:
                await self._do(statement, **values)
            except asyncpg.ObjectInUseError:
                if left == 1:
                    raise
                await asyncio.sleep(_AGAIN)
            else:
                return

    async def close(self) -> None:
        """Leave the run; its last process drops what is left of it."""
        if self._connection is None:
            return
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await self._ask("leave_run", run=self._run)
            if (await self._ask("run_is_over", run=self._run))[0]["over"]:
                names = [row["name"] for row in await self._ask("scratch_databases")]
                for name in names:
                    if name.startswith(self._prefix):
                        await self.drop(name)
            await self._connection.close(timeout=5)
        self._connection = None

    async def _ask(self, name: str, /, **values: object) -> list[Record]:
        statement = self._home.statements[name]
        async with self._turn:
            return await self._open_connection().fetch(statement.dollar, *statement.bind(values))

    async def _do(self, name: str, /, **values: object) -> None:
        (row,) = await self._ask(name, **values)
        async with self._turn:
            await self._open_connection().execute(row["text"])

    def _open_connection(self) -> Connection[Record]:
        if self._connection is None:
            message = "The test databases are closed."
            raise ConfigurationError(message)
        return self._connection


async def shift(database: Database, span: timedelta, lost: Sequence[int]) -> None:
    """Move every stored moment back by span, in one transaction. lost: workers that sent no heartbeat meanwhile."""
    statements = database.statements
    texts, alive, due = (statements[name] for name in ("shift_text", "still_alive", "every_duty_due"))
    async with database.connection() as connection, connection.transaction():
        text = await connection.fetchval(texts.dollar, *texts.bind({"span": span, "schema": database.schema}))
        await connection.execute(text)
        await connection.fetch(alive.dollar, *alive.bind({"span": span, "lost": list(lost)}))
        await connection.fetch(due.dollar)
