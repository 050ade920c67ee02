"""The one LISTEN connection of a process: it reconnects by itself, and hands on the messages it receives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

import asyncpg

from rowlock.keep_running import keep_running
from rowlock.model import notify_messages
from rowlock.outage_log import OutageLog
from rowlock.store.database import OUTAGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.store.database import Connection, Database, Record

logger = logging.getLogger("rowlock.notify")
_PING_SECONDS: Final = 20.0
_PING_PATIENCE: Final = 5.0
_BACKOFF: Final = (0.1, 0.5, 1.0, 2.0, 5.0)


class NotificationListener:
    """Listens on the channel of the schema."""

    def __init__(
        self,
        database: Database,
        on_message: Callable[[notify_messages.Message], None],
        on_listening: Callable[[], None],
    ) -> None:
        """on_listening: called whenever listening starts (again): messages sent before that moment are lost."""
        self._database, self._on_message, self._on_listening = database, on_message, on_listening
        self._task: asyncio.Task[None] | None = None
        self.listening = asyncio.Event()
        self._heard = False
        """Whether it has listened since the last failure."""
        self._outage = OutageLog(logger, "lost the LISTEN connection, polling until it is back", "listening again")

    def start(self) -> None:
        """Begin to listen; returns at once."""
        if self._task is None:
            listening = keep_running("listener", self._run, logger)
            self._task = asyncio.get_running_loop().create_task(listening, name="rowlock-listener")

    async def stop(self) -> None:
        """Stop listening; never waits on a dead socket."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._listen()
                failures = 0
            except (*OUTAGE, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
                if self._heard:
                    failures, self._heard = 0, False
                self._outage.failed(error)
                await asyncio.sleep(_BACKOFF[min(failures, len(_BACKOFF) - 1)])
                failures += 1

    async def _listen(self) -> None:
        connection = await self._database.connect("listen", direct=True)
        try:
            dead = asyncio.Event()
            connection.add_termination_listener(lambda _: dead.set())
            await connection.add_listener(self._database.channel, self._receive)
            self.listening.set()
            self._heard = True
            self._outage.recovered()
            self._on_listening()
            while not dead.is_set():
                with contextlib.suppress(TimeoutError):
                    # Not wait_for: before Python 3.12 it may forget a cancellation, and stop() would wait for ever.
                    async with asyncio.timeout(_PING_SECONDS):
                        await dead.wait()
                    break
                # A half-open socket is silent for ever; a round trip that does not come back unmasks it.
                await connection.fetchval("SELECT 1", timeout=_PING_PATIENCE)
            message = "the server closed it"
            raise ConnectionError(message)
        finally:
            # Whatever ended it: until it listens again, workers poll.
            self.listening.clear()
            self._end(connection)

    @staticmethod
    def _end(connection: Connection[Record]) -> None:
        if not connection.is_closed():
            connection.terminate()

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        message = notify_messages.decode(str(payload))
        if message is None:
            # From a newer release, perhaps.
            logger.debug("ignored an unknown message: %r", payload)
        else:
            self._on_message(message)
