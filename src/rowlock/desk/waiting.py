"""Waiting for jobs to end: one LISTEN connection per event loop, however many wait or follow."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from rowlock.store.notify import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.store.database import Database

Told: TypeAlias = Callable[[Sequence[int] | None], None]
"""Called with the ids of jobs that may have ended; None: messages may have been missed."""


class Ears:
    """Hears of finished jobs; the connection is opened for the first who waits and closed after the last."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database
        self._rooms: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Room] = weakref.WeakKeyDictionary()

    @contextlib.asynccontextmanager
    async def hearing(self, job_id: int) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever the job may have ended."""
        room, told = self._room(), asyncio.Event()
        room.enter(job_id, told)
        try:
            yield told
        finally:
            await room.leave(job_id, told)

    @contextlib.asynccontextmanager
    async def overhearing(self, told: Told) -> AsyncIterator[None]:
        """Call back whenever jobs that anybody waits for may have ended."""
        room = self._room()
        room.listen(told)
        try:
            yield
        finally:
            await room.unlisten(told)

    def _room(self) -> _Room:
        loop = asyncio.get_running_loop()
        room, database = self._rooms.get(loop), self._open()
        if room is None or room.database is not database:
            room = self._rooms[loop] = _Room(database)
        return room


class _Room:
    """Those who wait on one event loop."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._waiting: dict[int, set[asyncio.Event]] = {}
        self._overhearing: set[Told] = set()
        self._listener: Listener | None = None

    def enter(self, job_id: int, told: asyncio.Event) -> None:
        self._waiting.setdefault(job_id, set()).add(told)
        self._open()

    def listen(self, told: Told) -> None:
        self._overhearing.add(told)
        self._open()

    def _open(self) -> None:
        if self._listener is None:
            self._listener = Listener(self.database, self._heard, self._everyone)
            self._listener.start()

    async def leave(self, job_id: int, told: asyncio.Event) -> None:
        self._waiting[job_id].discard(told)
        if not self._waiting[job_id]:
            del self._waiting[job_id]
        await self._close()

    async def unlisten(self, told: Told) -> None:
        self._overhearing.discard(told)
        await self._close()

    async def _close(self) -> None:
        if not (self._waiting or self._overhearing) and self._listener is not None:
            listener, self._listener = self._listener, None
            await listener.stop()

    def _heard(self, message: dict[str, object]) -> None:
        done = message.get("done")
        if not isinstance(done, list):
            return
        for heard in tuple(self._overhearing):
            heard(done)
        for job_id in done:
            for told in self._waiting.get(job_id, ()):
                told.set()

    def _everyone(self) -> None:
        # Messages sent before the connection was there are lost: everybody looks for himself.
        for heard in tuple(self._overhearing):
            heard(None)
        for waiting in self._waiting.values():
            for told in waiting:
                told.set()
