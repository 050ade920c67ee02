"""psycopg 3: runs statements in a connection's transaction, blocking or awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowlock.store.callers.protocol import Caller
    from rowlock.store.queries import Statement


class _PsycopgTransaction:
    """What both sorts of connection know of their transaction without a round trip."""

    def __init__(self, connection: psycopg.BaseConnection[Any]) -> None:
        self._info, self._autocommit = connection.info, connection.autocommit

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; without autocommit the first statement opens one."""
        return self._info.transaction_status is not TransactionStatus.IDLE

    @property
    def commits_unseen(self) -> bool:
        """Whether the statement is, or begins, part of a transaction: its commit cannot be observed."""
        return not self._autocommit or self.in_transaction

    @property
    def may_notify(self) -> bool:
        """Always: the commit cannot be observed, so there is no other way to wake workers."""
        return True

    def on_commit(self, callback: Callable[[], None]) -> bool:
        """With autocommit every statement commits by itself; inside a transaction the commit cannot be observed."""
        if self.in_transaction:
            return False
        callback()
        return True


class PsycopgCaller(_PsycopgTransaction):
    """A connection that blocks."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection)
        self._connection = connection

    def run(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""
        # A cursor of our own: the connection's factories may make other rows or read other placeholders.
        with psycopg.Cursor(self._connection, row_factory=tuple_row) as cursor:
            cursor.execute(statement.pyformat.encode(), _parameters(statement, values))
            return list(cursor.fetchall())


class AsyncPsycopgCaller(_PsycopgTransaction):
    """A connection that is awaited."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        super().__init__(connection)
        self._connection = connection

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""
        async with psycopg.AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(statement.pyformat.encode(), _parameters(statement, values))
            return list(await cursor.fetchall())


def _parameters(statement: Statement, values: Mapping[str, object]) -> dict[str, object]:
    return {name: values[name] for name in statement.parameters}


def join(connection: object) -> Caller | None:
    """Wrap a connection; None for any other object of psycopg."""
    if isinstance(connection, psycopg.Connection):
        return PsycopgCaller(connection)
    if isinstance(connection, psycopg.AsyncConnection):
        return AsyncPsycopgCaller(connection)
    return None
