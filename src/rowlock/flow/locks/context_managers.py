"""`async with` and `with` around a lock: for handlers (ctx.lock) and for applications (app.lock, app.lock_sync)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final, Self

from rowlock.flow.locks.lock import LockOwner, LockRequest
from rowlock.flow.locks.process_locks import close_locks, locks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from rowlock.bridge import Bridge
    from rowlock.flow.locks.lock import HeldLock, LockBackend
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.store.database import Database

CHECK_EVERY: Final = 0.1
"""Seconds between two checks of a waiting thread whether it has to stop."""


class Lock:
    """`async with …:` one holder at a time for one key. If the lock is lost, the block is cancelled: LockLost."""

    __slots__ = ("_backend", "_held", "_open", "_request")

    def __init__(self, open_backend: Callable[[], LockBackend], request: LockRequest) -> None:
        """open_backend: called on the loop that enters the block."""
        self._open, self._request = open_backend, request
        self._backend: LockBackend | None = None
        self._held: HeldLock | None = None

    async def __aenter__(self) -> Self:
        """Wait for the lock."""
        self._backend = self._open()
        self._held = await self._backend.acquire(self._request)
        self._held.bind(asyncio.current_task())
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Release it."""
        held, self._held = self._held, None
        if held is not None and self._backend is not None:
            held.task, task = None, held.task  # the block is over: nothing is left to cancel
            try:
                await self._backend.release(held)
            finally:
                held.task = task
            held.raise_if_lost(error)

    def check(self) -> None:
        """Raise LockLost if it is lost; for code that awaits nothing for a long time."""
        if self._held is not None:
            self._held.check()


class _ThreadAcquisition:
    """An acquire on an event loop for another thread, which may give up at any moment."""

    def __init__(self, backend: LockBackend, request: LockRequest) -> None:
        self._backend, self._request = backend, request
        self._task: asyncio.Task[Any] | None = None
        self._held: HeldLock | None = None
        self._given_up = False

    async def acquire(self) -> HeldLock:
        """Acquire it; on the loop."""
        self._task = asyncio.current_task()
        if self._given_up:
            raise asyncio.CancelledError
        self._held = await self._backend.acquire(self._request)
        return self._held

    async def give_up(self) -> None:
        """Stop waiting, and release a lock that was acquired meanwhile; on the loop."""
        self._given_up = True
        if self._held is not None:
            await self._backend.release(self._held)
        elif self._task is not None:
            self._task.cancel()


def acquire_from_thread(
    loop: asyncio.AbstractEventLoop,
    open_backend: Callable[[], LockBackend],
    request: LockRequest,
    check: Callable[[], None],
) -> HeldLock:
    """Wait for a lock in a thread; check is called again and again meanwhile, and may raise to give up."""

    async def begin() -> _ThreadAcquisition:
        return _ThreadAcquisition(open_backend(), request)

    acquisition = asyncio.run_coroutine_threadsafe(begin(), loop).result()
    future = asyncio.run_coroutine_threadsafe(acquisition.acquire(), loop)
    try:
        while True:
            try:
                return future.result(CHECK_EVERY)
            except TimeoutError:
                if future.done():
                    raise
                check()
    except BaseException:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and its locks are gone with it
            asyncio.run_coroutine_threadsafe(acquisition.give_up(), loop)
        raise


class SyncLock:
    """Yielded by `with app.lock_sync(…) as lock:`. A thread cannot be cancelled, so it calls lock.check()."""

    __slots__ = ("_held",)

    def __init__(self, held: HeldLock) -> None:
        self._held = held

    def check(self) -> None:
        """Raise LockLost if it is lost. The end of the block does the same."""
        self._held.check()


class AppLocks:
    """app.lock() and app.lock_sync()."""

    def __init__(self, database: Callable[[], Database], bridge: Bridge) -> None:
        self._database, self._bridge = database, bridge

    def lock(self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None) -> Lock:
        """An async context manager; see Rowlock.lock."""
        request = LockRequest.of(namespace, key, LockOwner(), wait=wait, timeout=timeout)
        return Lock(lambda: locks_of(self._database()), request)

    @contextlib.contextmanager
    def lock_sync(
        self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None
    ) -> Iterator[SyncLock]:
        """A blocking context manager; see Rowlock.lock_sync."""
        owner = LockOwner(thread=threading.get_ident())
        request = LockRequest.of(namespace, key, owner, wait=wait, timeout=timeout)
        held = acquire_from_thread(self._bridge.loop, lambda: locks_of(self._database()), request, lambda: None)
        error: BaseException | None = None
        try:
            yield SyncLock(held)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._bridge.run(self._release(held))
            held.raise_if_lost(error)

    async def _release(self, held: HeldLock) -> None:
        await locks_of(self._database()).release(held)

    async def close(self) -> None:
        """Release what the running loop holds, and close its connection."""
        await close_locks(self._database())
