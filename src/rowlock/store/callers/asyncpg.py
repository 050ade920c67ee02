"""asyncpg: runs statements in a connection's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg
import asyncpg.pool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowlock.store.callers.protocol import AsyncCaller
    from rowlock.store.queries import Statement


class AsyncpgCaller:
    """A connection, or the proxy that a pool lends."""

    def __init__(self, connection: asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any]) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        """Whether the caller has begun a transaction."""
        return self._connection.is_in_transaction()

    @property
    def commits_unseen(self) -> bool:
        """Inside a transaction the commit cannot be observed."""
        return self._connection.is_in_transaction()

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""
        return list(await self._connection.fetch(statement.dollar, *statement.bind(values)))

    @property
    def may_notify(self) -> bool:
        """Always: the commit cannot be observed, so there is no other way to wake workers."""
        return True

    def on_commit(self, callback: Callable[[], None]) -> bool:
        """Outside a transaction every statement commits by itself; inside, the commit cannot be observed."""
        if self._connection.is_in_transaction():
            return False
        callback()
        return True


def join(connection: object) -> AsyncCaller | None:
    """Wrap a connection; None for any other object of asyncpg."""
    if isinstance(connection, (asyncpg.Connection, asyncpg.pool.PoolConnectionProxy)):
        return AsyncpgCaller(connection)
    return None
