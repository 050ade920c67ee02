"""SqlExecutor: the one way in which the other rooms run a named statement; SqlSession: the same on one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.transaction import Transaction

    from rowlock.store.queries import Statements


class SqlExecutor(Protocol):
    """Runs statements of the sql folder by name: a Database, a WorkerConnection, a SqlSession or a LockSession."""

    async def fetch(self, name: str, /, **values: object) -> list[asyncpg.Record]:
        """Run one named statement with these parameters; returns its rows."""


class SqlSession:
    """Named statements on one connection, in whatever transaction is open there."""

    __slots__ = ("_savepoints", "channel", "connection", "schema", "statements")

    def __init__(
        self, statements: Statements, connection: asyncpg.Connection[asyncpg.Record], *, savepoints: bool = False
    ) -> None:
        """savepoints: each statement gets its own, so that a failed one can be tried again in the same transaction."""
        self.statements, self.connection, self._savepoints = statements, connection, savepoints
        self.schema, self.channel = statements.schema, statements.channel

    async def fetch(self, name: str, /, **values: object) -> list[asyncpg.Record]:
        """Run one named statement with these parameters; returns its rows."""
        statement = self.statements[name]
        if not self._savepoints:
            return await self.connection.fetch(statement.dollar, *statement.bind(values))
        async with self.connection.transaction():
            return await self.connection.fetch(statement.dollar, *statement.bind(values))

    def transaction(self) -> Transaction:
        """Open a transaction, or a savepoint inside of one."""
        return self.connection.transaction()
