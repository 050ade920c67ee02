"""PinnedConnection: a connection through a pooler that lends another server for every transaction.

A session setting would be left behind on some server, or be lost, so every transaction begins with the settings that
Rowlock's statements depend on; a statement outside of a transaction gets one of its own. That costs two round trips to
the pooler, and keeps held rows and hostile defaults from mattering more there than on a direct connection.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal

import asyncpg
from typing_extensions import override

from rowlock.store.driver import session_settings

if TYPE_CHECKING:
    from asyncpg.transaction import Transaction

    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    # Generic in the stubs alone.
    _Connection = asyncpg.Connection

Isolation = Literal["read_committed", "read_uncommitted", "repeatable_read", "serializable"]


class PinnedConnection(_Connection):
    """Sets the isolation and the settings of each of its transactions in the round trip that begins it."""

    _settings = ""

    def pin(self, lock_timeout: str | None) -> None:
        """Set what transactions begin with. lock_timeout: as PostgreSQL spells it; None: the usual one."""
        self._settings = session_settings.in_transaction(lock_timeout)

    @override
    def transaction(
        self, *, isolation: Isolation | None = None, readonly: bool = False, deferrable: bool = False
    ) -> Transaction:
        """A transaction, in read committed unless another level is asked for; a savepoint inside of one."""
        if isolation is None and not self.is_in_transaction():
            isolation = "read_committed"
        return super().transaction(isolation=isolation, readonly=readonly, deferrable=deferrable)

    @override
    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:
        """Run a statement; the one that begins a transaction takes the settings along."""
        if query.startswith("BEGIN"):
            query = f"{query} {self._settings}"
        return await super().execute(query, *args, timeout=timeout)

    @override
    async def fetch(self, query: str, *args: object, timeout: float | None = None, **more: Any) -> list[Any]:
        """Run a statement, in a transaction of its own unless one is open; returns its rows."""
        own = contextlib.nullcontext() if self.is_in_transaction() else self.transaction()
        async with own:
            rows: list[Any] = await super().fetch(query, *args, timeout=timeout, **more)
        return rows
