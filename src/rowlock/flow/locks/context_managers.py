"""Locking: `with` and `async with` around a lock, for handlers and for applications."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final, Self

from rowlock.flow.locks.lock import Asker, Wish
from rowlock.flow.locks.process_locks import leave, room_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from rowlock.bridge import Bridge
    from rowlock.flow.locks.lock import Hold, Keeper
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.store.database import Database

LOOK_EVERY: Final = 0.1
"""Seconds between two looks of a waiting thread whether it has to stop."""


class Lock:
    """`async with …:` one thing at a time for one key. If the lock is lost, the block is cancelled: LockLost."""

    __slots__ = ("_hold", "_keeper", "_open", "_wish")

    def __init__(self, open_keeper: Callable[[], Keeper], wish: Wish) -> None:
        self._open, self._wish = open_keeper, wish
        self._keeper: Keeper | None = None
        self._hold: Hold | None = None

    async def __aenter__(self) -> Self:
        """Wait for it."""
        self._keeper = self._open()
        self._hold = await self._keeper.acquire(self._wish)
        self._hold.bind(asyncio.current_task())
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Give it back."""
        hold, self._hold = self._hold, None
        if hold is not None and self._keeper is not None:
            hold.task, task = None, hold.task  # from here on there is nothing left to cancel
            try:
                await self._keeper.release(hold)
            finally:
                hold.task = task
            hold.conclude(error)

    def check(self) -> None:
        """Raise LockLost if it is gone; for code that awaits nothing for long."""
        if self._hold is not None:
            self._hold.check()


class Visit:
    """An acquire on a loop for another thread, which may give up at any moment."""

    def __init__(self, keeper: Keeper, wish: Wish) -> None:
        self._keeper, self._wish = keeper, wish
        self._task: asyncio.Task[Any] | None = None
        self._hold: Hold | None = None
        self._over = False

    async def take(self) -> Hold:
        """On the loop."""
        self._task = asyncio.current_task()
        if self._over:
            raise asyncio.CancelledError
        self._hold = await self._keeper.acquire(self._wish)
        return self._hold

    async def give_up(self) -> None:
        """On the loop: nobody waits any more. What was got meanwhile goes back."""
        self._over = True
        if self._hold is not None:
            await self._keeper.release(self._hold)
        elif self._task is not None:
            self._task.cancel()


def taken(
    loop: asyncio.AbstractEventLoop, open_keeper: Callable[[], Keeper], wish: Wish, check: Callable[[], None]
) -> Hold:
    """Wait for a lock in a thread; check is called again and again, and may raise to give up."""

    async def begin() -> Visit:
        return Visit(open_keeper(), wish)

    visit = asyncio.run_coroutine_threadsafe(begin(), loop).result()
    future = asyncio.run_coroutine_threadsafe(visit.take(), loop)
    try:
        while True:
            try:
                return future.result(LOOK_EVERY)
            except TimeoutError:
                if future.done():
                    raise
                check()
    except BaseException:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and its locks are gone with it
            asyncio.run_coroutine_threadsafe(visit.give_up(), loop)
        raise


class SyncLock:
    """What `with app.lock_sync(…) as lock:` gives. A thread cannot be cancelled: lock.check() tells it."""

    __slots__ = ("_hold",)

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def check(self) -> None:
        """Raise LockLost if it is gone. The end of the block does the same."""
        self._hold.check()


class AppLocks:
    """app.lock() and app.lock_sync()."""

    def __init__(self, database: Callable[[], Database], bridge: Bridge) -> None:
        self._database, self._bridge = database, bridge

    def lock(self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None) -> Lock:
        """An async context manager; see Rowlock.lock."""
        wish = Wish.of(namespace, key, Asker(), wait=wait, timeout=timeout)
        return Lock(lambda: room_of(self._database()), wish)

    @contextlib.contextmanager
    def lock_sync(
        self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None
    ) -> Iterator[SyncLock]:
        """A blocking context manager; see Rowlock.lock_sync."""
        wish = Wish.of(namespace, key, Asker(thread=threading.get_ident()), wait=wait, timeout=timeout)
        hold = taken(self._bridge.loop, lambda: room_of(self._database()), wish, lambda: None)
        error: BaseException | None = None
        try:
            yield SyncLock(hold)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._bridge.run(self._give_back(hold))
            hold.conclude(error)

    async def _give_back(self, hold: Hold) -> None:
        await room_of(self._database()).release(hold)

    async def close(self) -> None:
        """Release what the running loop holds, and close its connection."""
        await leave(self._database())
