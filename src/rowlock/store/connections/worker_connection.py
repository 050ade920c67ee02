"""WorkerConnection: a long-lived connection of a worker, which reconnects by itself."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import asyncpg

from rowlock.errors import DatabaseUnreachable
from rowlock.store.database import OUTAGE, unreachable
from rowlock.store.driver.statement_check import SILENCE, check_statement
from rowlock.store.executor import SqlSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.store.database import Connection, Database, Record


LOCK_WAIT: Final = 1.0
"""Seconds. A worker has other rows to serve; the one that is locked is tried again."""


class WorkerConnection:
    """The connection for one role (claim, finish, beat). After a failure the next call opens a new one.

    Every failure of the connection itself is raised as DatabaseUnreachable, so that callers handle a single error.
    """

    def __init__(self, database: Database, role: str, *, lock_wait: float = LOCK_WAIT) -> None:
        """lock_wait: seconds that a statement waits for a lock at most."""
        self.database, self.role, self._lock_wait = database, role, lock_wait
        self.reconnects = 0
        self._connection: Connection[Record] | None = None
        self._turn = asyncio.Lock()
        self._backend: int | None = None
        self._check: asyncio.Future[str] | None = None

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
            timer = asyncio.get_running_loop().call_later(SILENCE, self._check_silent, connection)
            try:
                with self.database.translated(races=False):
                    yield SqlSession(self.database.statements, connection)
            except OUTAGE as error:
                self._drop()
                # Without the advice for callers: a worker finds out by itself what an unanswered write did.
                cause = error.__cause__ if isinstance(error, DatabaseUnreachable) else error
                raise (error if cause is None else unreachable(self.database.url, cause)) from error
            except asyncpg.InterfaceError as error:
                # asyncpg raises it for a misused and for a dead connection; only the second is an outage.
                if not connection.is_closed():
                    raise
                self._drop()
                raise unreachable(self.database.url, error) from error
            except (asyncio.CancelledError, asyncpg.InternalClientError):
                # The statement may still be running on the server, and its answer must not reach the next caller.
                # asyncpg raises InternalClientError when the answer and the cancellation meet.
                self._drop()
                raise
            finally:
                timer.cancel()
                if self._check is not None:
                    self._check.cancel()
                    self._check = None

    async def _opened(self) -> Connection[Record]:
        connection = await self.database.connect(self.role, guarded=True, lock_wait=self._lock_wait)
        # Queried, not taken from the handshake, where a pooler gives a process id of its own.
        self._backend = None
        if not self.database.pooled:
            try:
                self._backend = await connection.fetchval(self.database.statements["my_backend"].dollar)
            except (*OUTAGE, asyncpg.InterfaceError) as error:
                connection.terminate()
                raise unreachable(self.database.url, error) from error
        self.reconnects += 1
        return connection

    @property
    def backend(self) -> int | None:
        """The process id of the server's side; None: unknown, or there is no connection."""
        return self._backend if self._connection is not None else None

    def _check_silent(self, connection: Connection[Record]) -> None:
        if self._backend is not None:
            # patient: when the server answers no connection at all, an old one is as good as a new one.
            asking = check_statement(self.database, connection, self._backend, self.role, SILENCE / 4, patient=True)
            self._check = asyncio.ensure_future(asking)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def close(self) -> None:
        """Close the connection; waits two seconds at most."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with contextlib.suppress(Exception):
                await connection.close(timeout=2)
