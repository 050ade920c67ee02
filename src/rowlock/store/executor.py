"""SqlExecutor: the one way in which the other rooms run a named statement; SqlSession: the same on one connection."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

import asyncpg

from rowlock.store.driver.lock_wait import BRIEF, busy, lock_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from asyncpg.transaction import Transaction

    from rowlock.store.driver.lock_wait import LockWait
    from rowlock.store.queries import Statements


class SqlExecutor(Protocol):
    """Runs statements of the sql folder by name: a Database, a WorkerConnection, a SqlSession or a LockSession."""

    async def fetch(self, name: str, /, **values: object) -> list[asyncpg.Record]:
        """Run one named statement with these parameters; returns its rows."""


class SqlSession:
    """Named statements on one connection, in whatever transaction is open there."""

    __slots__ = ("_lock_wait", "_savepoints", "channel", "connection", "schema", "statements")

    def __init__(
        self,
        statements: Statements,
        connection: asyncpg.Connection[asyncpg.Record],
        *,
        savepoints: bool = False,
        lock_wait: Callable[[asyncpg.Connection[asyncpg.Record]], LockWait] | None = None,
    ) -> None:
        """savepoints: each statement gets its own, so that a failed one can be tried again in the same transaction.

        lock_wait: Database.lock_wait, so that fetch_briefly() can name the sessions that hold a lock.
        """
        self.statements, self.connection, self._savepoints = statements, connection, savepoints
        self._lock_wait = lock_wait
        self.schema, self.channel = statements.schema, statements.channel

    async def fetch(self, name: str, /, **values: object) -> list[asyncpg.Record]:
        """Run one named statement with these parameters; returns its rows."""
        statement = self.statements[name]
        if not self._savepoints:
            return await self.connection.fetch(statement.dollar, *statement.bind(values))
        async with self.connection.transaction():
            return await self.connection.fetch(statement.dollar, *statement.bind(values))

    async def fetch_briefly(self, name: str, /, **values: object) -> list[asyncpg.Record]:
        """fetch() in a savepoint; DatabaseBusy when another transaction holds a row for longer than BRIEF seconds.

        The open transaction waits so briefly from here on, also for its later statements.
        """
        statement = self.statements[name]
        waiting = contextlib.nullcontext() if self._lock_wait is None else self._lock_wait(self.connection)
        try:
            async with self.connection.transaction(), waiting:
                await self.limit_lock_wait(BRIEF)
                return await self.connection.fetch(statement.dollar, *statement.bind(values))
        except asyncpg.LockNotAvailableError as error:
            raise busy(error) from error

    async def limit_lock_wait(self, seconds: float) -> None:
        """Have the open transaction wait for each lock for so long at most."""
        await self.connection.fetch(self.statements["limit_lock_wait"].dollar, lock_timeout(seconds))

    def transaction(self) -> Transaction:
        """Open a transaction, or a savepoint inside of one."""
        return self.connection.transaction()
