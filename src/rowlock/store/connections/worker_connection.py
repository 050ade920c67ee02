"""WorkerConnection: one long-lived connection of a worker that comes back by itself."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import asyncpg

from rowlock.errors import DatabaseUnreachable
from rowlock.store.database import OUTAGE, unreachable
from rowlock.store.driver.statement_check import SILENCE, ask_about
from rowlock.store.executor import SqlSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.store.database import Connection, Database, Record


class WorkerConnection:
    """A connection for one role (claim, finish, beat); after a failure the next call opens a new one.

    Every failure of the connection itself comes out as DatabaseUnreachable, so that callers have one thing to wait out.
    """

    def __init__(self, database: Database, role: str) -> None:
        self.database, self.role = database, role
        self.reconnects = 0
        self._connection: Connection[Record] | None = None
        self._turn = asyncio.Lock()
        self._backend: int | None = None
        self._doubts: asyncio.Future[None] | None = None

    async def fetch(self, name: str, /, **values: object) -> list[Record]:
        """Run one named statement."""
        statement = self.database.statements[name]
        async with self.session() as session:
            return await session.connection.fetch(statement.dollar, *statement.bind(values))

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[SqlSession]:
        """Lend the connection to one caller at a time, for several statements in a row."""
        async with self._turn:
            connection = self._connection
            if connection is None or connection.is_closed():
                connection = self._connection = await self._opened()
            doubting = asyncio.get_running_loop().call_later(SILENCE, self._doubt, connection)
            try:
                with self.database.translated():
                    yield SqlSession(self.database.statements, connection)
            except OUTAGE as error:
                self._drop()
                # In a worker's words: it knows itself what an unanswered write may have done.
                cause = error.__cause__ if isinstance(error, DatabaseUnreachable) else error
                raise (error if cause is None else unreachable(self.database.url, cause)) from error
            except asyncpg.InterfaceError as error:
                # asyncpg says so both for a misused and for a dead connection; only the second is an outage.
                if not connection.is_closed():
                    raise
                self._drop()
                raise unreachable(self.database.url, error) from error
            except (asyncio.CancelledError, asyncpg.InternalClientError):
                # The statement may still be running on the server: its answer must not reach the next caller. asyncpg
                # sometimes says so itself, when the answer and the cancellation meet.
                self._drop()
                raise
            finally:
                doubting.cancel()
                if self._doubts is not None:
                    self._doubts.cancel()
                    self._doubts = None

    async def _opened(self) -> Connection[Record]:
        connection = await self.database.connect(self.role, guarded=True)
        # Asked, not taken from the handshake: a pooler says a number of its own there, and has none by transaction.
        self._backend = None
        if not self.database.pooled:
            try:
                self._backend = await connection.fetchval(self.database.statements["my_backend"].dollar)
            except (*OUTAGE, asyncpg.InterfaceError) as error:
                connection.terminate()
                raise unreachable(self.database.url, error) from error
        self.reconnects += 1
        return connection

    def _doubt(self, connection: Connection[Record]) -> None:
        if self._backend is not None:
            # Patiently: when nobody is answered, an old connection is as good as a new one.
            asking = ask_about(self.database, connection, self._backend, self.role, SILENCE / 4, patient=True)
            self._doubts = asyncio.ensure_future(asking)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def close(self) -> None:
        """Close the connection; never waits on a dead socket for long."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with contextlib.suppress(Exception):
                await connection.close(timeout=2)
