"""Waiting for jobs to end: one LISTEN connection per event loop, however many wait."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import TYPE_CHECKING

from rowlock.store.notify import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rowlock.store.database import Database


class Ears:
    """Hears of finished jobs; the connection is opened for the first who waits and closed after the last."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database
        self._rooms: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Room] = weakref.WeakKeyDictionary()

    @contextlib.asynccontextmanager
    async def hearing(self, job_id: int) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever the job may have ended."""
        loop = asyncio.get_running_loop()
        room, database = self._rooms.get(loop), self._open()
        if room is None or room.database is not database:
            room = self._rooms[loop] = _Room(database)
        told = asyncio.Event()
        room.enter(job_id, told)
        try:
            yield told
        finally:
            await room.leave(job_id, told)


class _Room:
    """Those who wait on one event loop."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._waiting: dict[int, set[asyncio.Event]] = {}
        self._listener: Listener | None = None

    def enter(self, job_id: int, told: asyncio.Event) -> None:
        self._waiting.setdefault(job_id, set()).add(told)
        if self._listener is None:
            self._listener = Listener(self.database, self._heard, self._everyone)
            self._listener.start()

    async def leave(self, job_id: int, told: asyncio.Event) -> None:
        self._waiting[job_id].discard(told)
        if not self._waiting[job_id]:
            del self._waiting[job_id]
        if not self._waiting and self._listener is not None:
            listener, self._listener = self._listener, None
            await listener.stop()

    def _heard(self, message: dict[str, object]) -> None:
        done = message.get("done")
        for job_id in done if isinstance(done, list) else ():
            for told in self._waiting.get(job_id, ()):
                told.set()

    def _everyone(self) -> None:
        # Messages sent before the connection was there are lost: everybody looks for himself.
        for waiting in self._waiting.values():
            for told in waiting:
                told.set()
