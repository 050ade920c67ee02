"""LoopLocks: locks over all processes, on PostgreSQL's session-level advisory locks.

Session locks are re-entrant and belong to a connection, of which each event loop has one for this purpose. So the tasks
of one loop queue for a key among themselves first, and the first of them competes with other processes for it: at once,
when another process notifies that it released the key, and every few tenths of a second in case that process died.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import DatabaseUnreachable, LockNested, LockTaken, LockTimeout
from rowlock.flow.locks.lock import HeldLock
from rowlock.model.lock import LockUser, advisory
from rowlock.store.connections.lock_session import LockSession
from rowlock.store.driver.pool import before_loop_ends

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime

    from rowlock.flow.locks.lock import LockRequest
    from rowlock.model.notify_messages import LockReleased
    from rowlock.store.database import Database

_BACKOFF: Final = (0.0, 0.05, 0.1, 0.2, 0.3)
"""Seconds between two tries. The first is 0: a holder that released before our wait was written did not notify us."""
GRACE: Final = 0.05
"""Seconds for which a free lock is left to the process that has waited longest."""
IDLE: Final = 60.0
"""Seconds after the last use at which the connection is closed."""


@dataclass(slots=True)
class _KeyQueue:
    """The tasks of this loop that want one key, one at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the key may be free."""
    users: int = 0
    holder: HeldLock | None = None
    served: int = 0
    """The highest number of an acquisition that got the key, or that came before this queue."""
    called: int = 0
    """The highest number of an acquisition whose turn another process has announced."""
    yield_until: float = 0.0
    """Loop time until which another process goes first."""

    async def wait_until_freed(self, seconds: float) -> None:
        """Wait until the key may be free, that long at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.freed.wait()


@dataclass(slots=True)
class _Acquisition:
    """One acquire under way, and what has to be undone if it is abandoned."""

    request: LockRequest
    key: int
    n: int
    session: LockSession | None = None
    wait_written: bool = False
    """Whether the session's row says that it waits for the key."""
    steps: list[asyncio.Future[Any]] = field(default_factory=list)
    """Statements under way; the last one tries to take the lock."""

    def values(self) -> dict[str, object]:
        request, owner = self.request, self.request.owner
        return {
            "n": self.n,
            "key": self.key,
            "namespace": request.namespace,
            "name": request.name,
            "job_id": owner.job_id,
            "kind": owner.kind,
            "process": f"{socket.gethostname()}:{os.getpid()}",
        }


class LoopLocks:
    """The LockBackend of one event loop: one connection, opened for the first lock and closed after a while unused."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._session: LockSession | None = None
        self._opening = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._queues: dict[int, _KeyQueue] = {}
        self._held: set[HeldLock] = set()
        self._steps: set[asyncio.Task[Any]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._leaving = before_loop_ends(self._close)

    async def acquire(self, request: LockRequest) -> HeldLock:
        """Wait for a lock; see LockBackend."""
        key = advisory(self._database.schema, request.namespace, request.name)
        acquisition = _Acquisition(request, key, next(self._numbers))
        queue = self._queues.setdefault(key, _KeyQueue(served=acquisition.n - 1))
        queue.users += 1
        try:
            _refuse_nested(queue.holder, request)
            limit = None if request.timeout is None else request.timeout.total_seconds()
            async with asyncio.timeout(limit) as clock:
                await self._acquire_in_queue(queue, acquisition)
        except TimeoutError:
            if not clock.expired():
                raise
            raise LockTimeout(*await self._refusal(acquisition, f"was not free within {limit:g} s")) from None
        finally:
            queue.users -= 1
            self._tidy(key)
        queue.served = max(queue.served, acquisition.n)
        held = queue.holder = HeldLock(request, acquisition.session, acquisition.n)
        self._held.add(held)
        return held

    async def release(self, held: HeldLock) -> None:
        """Give it back; goes on to its end when the caller is cancelled."""
        await asyncio.shield(self._spawn(self._release(held)))

    async def _acquire_in_queue(self, queue: _KeyQueue, acquisition: _Acquisition) -> None:
        request = acquisition.request
        if queue.lock.locked():
            if not request.wait:
                raise LockTaken(*await self._refusal(acquisition, "is taken"))
            acquisition.steps.append(self._spawn(self._write_wait(acquisition)))
        try:
            await queue.lock.acquire()
            try:
                await self._compete(queue, acquisition)
            except BaseException:
                queue.lock.release()
                raise
        except BaseException:
            self._spawn(self._undo(acquisition))
            raise

    async def _compete(self, queue: _KeyQueue, acquisition: _Acquisition) -> None:
        """Try until this connection holds the lock, or is refused it."""
        loop = asyncio.get_running_loop()
        newcomer = not acquisition.steps
        if (wait := queue.yield_until - loop.time()) > 0 and acquisition.request.wait:
            await queue.wait_until_freed(wait)
        for n in itertools.count():
            queue.freed.clear()
            if await self._try(acquisition, polite=newcomer and n == 0 and acquisition.request.wait):
                return
            if not acquisition.request.wait:
                raise LockTaken(*await self._refusal(acquisition, "is taken"))
            await queue.wait_until_freed(_BACKOFF[min(n, len(_BACKOFF) - 1)])

    async def _try(self, acquisition: _Acquisition, *, polite: bool) -> bool:
        session = await self._opened()
        if session is not acquisition.session:
            acquisition.session, acquisition.wait_written = session, False
        note = acquisition.request.wait and not acquisition.wait_written
        asking = self._spawn(session.fetch("lock_take", **acquisition.values(), polite=polite, note=note))
        acquisition.steps[1:] = [asking]
        try:
            (row,) = await asyncio.shield(asking)
        except DatabaseUnreachable:
            # The connection broke during the wait. Nothing is held yet, so the next try may use a new one.
            return False
        acquisition.wait_written = acquisition.wait_written or note
        return bool(row["mine"])

    async def _write_wait(self, acquisition: _Acquisition) -> None:
        """Write down, for people to see, that a task waits for another one of this loop; nothing depends on it."""
        with contextlib.suppress(DatabaseUnreachable):
            acquisition.session = await self._opened()
            await acquisition.session.fetch("lock_wait", **acquisition.values())
            acquisition.wait_written = True

    async def _undo(self, acquisition: _Acquisition) -> None:
        """Undo the statements of an abandoned acquire, those under way included."""
        found = await asyncio.gather(*acquisition.steps, return_exceptions=True)
        session = acquisition.session
        if session is None or not session.alive:
            return
        got = bool(found) and isinstance(found[-1], list) and found[-1][0]["mine"]
        with contextlib.suppress(DatabaseUnreachable):
            if got:
                await session.fetch("lock_release", key=acquisition.key, n=acquisition.n)
            else:
                await session.fetch("lock_leave", n=acquisition.n)

    async def _release(self, held: HeldLock) -> None:
        key = advisory(self._database.schema, held.request.namespace, held.request.name)
        queue = self._queues[key]
        self._held.discard(held)
        try:
            if held.lost is None and held.session is not None:
                (row,) = await held.session.fetch("lock_release", key=key, n=held.n)
                # A message may overtake the answer: the heir has been and gone, and this process is next again.
                if row["heir"] not in (None, held.session.number) and queue.called <= held.n:
                    queue.yield_until = asyncio.get_running_loop().time() + GRACE
                    queue.freed.clear()
                if not row["was_held"]:
                    held.lose("the server does not know it")
        except DatabaseUnreachable as error:
            held.lose(f"its connection broke before it was released ({error})")
        finally:
            queue.holder = None
            queue.lock.release()
            self._tidy(key)

    async def _opened(self) -> LockSession:
        if self._session is None or not self._session.alive:
            await asyncio.shield(self._spawn(self._open()))
        assert self._session is not None  # noqa: S101 - opened
        return self._session

    async def _open(self) -> None:
        async with self._opening:
            if self._session is None or not self._session.alive:
                session = LockSession(self._database, self._on_lost, self._on_freed)
                await session.open()
                self._session = session

    def _on_lost(self, session: LockSession, why: str) -> None:
        for held in [held for held in self._held if held.session is session]:
            held.lose(f"the connection that held it is gone ({why})")

    def _on_freed(self, released: LockReleased) -> None:
        queue = self._queues.get(released.key)
        if queue is None or self._session is None:
            return
        if released.next_session == self._session.number:
            if released.next_n is not None and released.next_n <= queue.served:
                return  # It came after its waiter had taken the lock by itself: the next turn is another process's.
            queue.called = released.next_n or 0
            queue.yield_until = 0.0
            queue.freed.set()
        else:
            # Another process is first in line; should it be dead, we try after the grace period.
            asyncio.get_running_loop().call_later(GRACE, queue.freed.set)

    async def _refusal(self, acquisition: _Acquisition, what: str) -> tuple[str, LockUser | None]:
        """The message for a lock that cannot be had, and its holder."""
        rows = await self._database.fetch("lock_holder", key=acquisition.key)
        if not rows:
            return f"The lock {acquisition.request.shown} {what}; its holder has released it since.", None
        row = rows[0]
        user = LockUser(row["process"], row["since"], row["job_id"], row["kind"])
        return f"The lock {acquisition.request.shown} {what}: {user.name} holds it since {_moment(user.since)}.", user

    def _tidy(self, key: int) -> None:
        queue = self._queues.get(key)
        if queue is not None and not queue.users and queue.holder is None and not queue.lock.locked():
            del self._queues[key]
        if self._idle is not None:
            self._idle.cancel()
        self._idle = None if self._queues else asyncio.get_running_loop().call_later(IDLE, self._rest)

    def _rest(self) -> None:
        session = self._session
        if session is not None and not self._queues and not self._steps:
            self._session = None
            self._spawn(session.close())

    def _spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._steps.add(task)
        task.add_done_callback(self._steps.discard)
        return task

    async def close(self) -> None:
        """Release everything; locks that are still held count as lost."""
        await self._leaving.aclose()

    async def _close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        while self._steps:
            await asyncio.gather(*self._steps, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        for held in self._held:
            held.lose("the application was closed")


def locks_of(database: Database) -> LoopLocks:
    """The locks of the running loop; jobs and the application around them share them."""
    return database.companion(LoopLocks, lambda: LoopLocks(database))


async def close_locks(database: Database) -> None:
    """Close the locks of the running loop, if it has any."""
    locks = database.dismiss_companion(LoopLocks)
    if locks is not None:
        await locks.close()


def _refuse_nested(holder: HeldLock | None, request: LockRequest) -> None:
    if holder is None:
        return
    same_task = holder.task is not None and holder.task is asyncio.current_task()
    if same_task or holder.request.owner.includes(request.owner):
        message = (
            f"The lock {request.shown} is already held by the caller, which would wait for itself for ever. "
            "Acquire it once, around everything that needs it."
        )
        raise LockNested(message)


def _moment(since: datetime) -> str:
    return f"{since:%Y-%m-%d %H:%M:%S} UTC" if since.utcoffset() else str(since)
