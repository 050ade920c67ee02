"""LockSession: the connection that holds this process's advisory locks. When it breaks, all of them are lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from typing import TYPE_CHECKING, Final

import asyncpg

from rowlock.errors import ConfigurationError, DatabaseUnreachable
from rowlock.model.notify_messages import LockReleased, decode
from rowlock.store.database import OUTAGE, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.store.database import Connection, Database, Record

logger = logging.getLogger("rowlock.locks")
_PING_SECONDS: Final = 5.0
_PATIENCE: Final = 5.0
"""Seconds for the answer to a statement; all of them are quick."""
_POOLED: Final = (
    "Locks need a connection that stays the same, and this database is reached through a pooler that lends another one "
    "for every transaction. Set ROWLOCK_DIRECT_URL to the server itself."
)


class LockSession:
    """One connection, past any pooler, from open() to close() or until it breaks. A new connection is a new session."""

    def __init__(
        self, database: Database, lost: Callable[[LockSession, str], None], freed: Callable[[LockReleased], None]
    ) -> None:
        """lost: called when the connection breaks; freed: called when a lock of another process is released.

        Both are called on the loop.
        """
        self._database, self._lost, self._freed = database, lost, freed
        self.channel = f"{database.schema}_locks"
        self.number = secrets.randbits(63)
        """Itself held as an advisory lock, so that other processes see that this session is alive."""
        self._connection: Connection[Record] | None = None
        self._turn = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether its locks are held, as far as this process knows."""
        return self._connection is not None and not self._closed

    async def open(self) -> None:
        """Connect; ConfigurationError where a pooler would swap the connection and lose the locks."""
        self._refuse_pooler(pooled=self._database.pooled and self._database.direct_url == self._database.url)
        connection = await self._database.connect("locks", direct=True)
        try:
            with self._database.translated():
                statement = self._database.statements["lock_enter"]
                (row,) = await connection.fetch(statement.dollar, *statement.bind({"session": self.number}))
                self._refuse_pooler(pooled=row["pid"] != connection.get_server_pid())
                await connection.add_listener(self.channel, self._receive)
        except BaseException:
            connection.terminate()
            raise
        connection.add_termination_listener(lambda _: self._lose("the server closed it"))
        self._connection = connection
        self._watching = asyncio.get_running_loop().create_task(self._watch(), name="rowlock-locks")

    @staticmethod
    def _refuse_pooler(*, pooled: bool) -> None:
        if pooled:
            raise ConfigurationError(_POOLED)

    async def fetch(self, name: str, /, **values: object) -> list[Record]:
        """Run one named statement; session and channel are added. Never cancel it: its lock would lack an owner."""
        statement = self._database.statements[name]
        async with self._turn:
            connection = self._connection
            if connection is None or self._closed:
                raise unreachable(self._database.url, ConnectionError("the connection for locks is gone"))
            try:
                with self._database.translated():
                    bound = statement.bind({**values, "session": self.number, "channel": self.channel})
                    return await connection.fetch(statement.dollar, *bound, timeout=_PATIENCE)
            except (DatabaseUnreachable, asyncpg.InterfaceError, asyncio.CancelledError) as error:
                self._lose(str(error) or type(error).__name__)
                if isinstance(error, asyncpg.InterfaceError):
                    raise unreachable(self._database.url, error) from error
                raise

    async def close(self) -> None:
        """Close the connection, which releases every lock."""
        connection, self._closed = self._connection, True
        await self._stop_watching()
        if connection is not None and not connection.is_closed():
            with contextlib.suppress(Exception):
                await connection.close(timeout=2)

    async def _stop_watching(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        """Ping: a half-open socket stays silent for ever, and only a round trip reveals it."""
        while self.alive:
            await asyncio.sleep(_PING_SECONDS)
            try:
                async with self._turn:
                    if self._connection is not None:
                        await self._connection.fetchval("SELECT 1", timeout=_PATIENCE)
            except (*OUTAGE, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
                self._lose(str(error) or "it does not answer")

    def _lose(self, why: str) -> None:
        """From here on no lock counts as held. The connection is closed, so that the server releases them, too."""
        connection, self._connection = self._connection, None
        if connection is None or self._closed:
            return
        if not connection.is_closed():
            connection.terminate()
        logger.warning("lost the connection for locks: %s", why)
        self._lost(self, why)

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        message = decode(str(payload))
        match message:
            case LockReleased():
                self._freed(message)
            case _:
                logger.debug("ignored an unknown message: %r", payload)
