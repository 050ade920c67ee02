"""SyncAttemptIO: a blocking handler's way from its thread to the AttemptIO on the worker's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Protocol, TypeVar

from rowlock.errors import ClaimLost, Stopped
from rowlock.flow.locks.context_managers import SyncLock, acquire_from_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from rowlock.flow.locks.lock import HeldLock, LockBackend, LockRequest
    from rowlock.flow.progress.attempt_io import AttemptIO

T = TypeVar("T")


class LoopCaller(Protocol):
    """Calls functions on the event loop of the attempt, for another thread."""

    def send(self, function: Callable[[], None]) -> None:
        """Have the loop call it; does not wait."""

    def wait(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run it on the loop and wait for its value."""

    def acquire(self, backend: Callable[[], LockBackend], request: LockRequest, check: Callable[[], None]) -> HeldLock:
        """Wait for a lock; check is called again and again meanwhile, and may raise to give up."""


class ThreadsafeLoopCaller:
    """The LoopCaller of a real worker."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def send(self, function: Callable[[], None]) -> None:
        """Have the loop call it; does not wait."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the job was returned while its handler still ran
            self._loop.call_soon_threadsafe(function)

    def wait(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run it on the loop and wait for its value."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def acquire(self, backend: Callable[[], LockBackend], request: LockRequest, check: Callable[[], None]) -> HeldLock:
        """Wait for a lock; check is called again and again meanwhile, and may raise to give up."""
        return acquire_from_thread(self._loop, backend, request, check)


class SyncAttemptIO:
    """The internals of a blocking handler's contexts; in the handler's threads."""

    __slots__ = ("_loop", "io")

    def __init__(self, io: AttemptIO, loop: LoopCaller) -> None:
        self.io, self._loop = io, loop

    def check(self) -> None:
        """Raise if the attempt has to stop here: Stopped, ClaimLost, or LockLost for a lock that it holds."""
        self.io.check_claim()
        if self.io.cancelled:
            message = f"Job {self.io.public_id} was asked to stop."
            raise Stopped(message)
        for held, thread in self.io.held_locks:
            if thread in (None, threading.get_ident()):
                held.check()

    def report(self, function: Callable[[], object]) -> None:
        """check(), then have the loop call the function without waiting: a handler never waits for its reports."""
        self.check()
        self.send(function)

    def send(self, function: Callable[[], object]) -> None:
        """Have the loop call the function, without waiting and without check()."""

        def call() -> None:
            # The claim may be lost by now; the handler's next call raises ClaimLost.
            with contextlib.suppress(ClaimLost):
                function()

        self._loop.send(call)

    def wait(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine on the loop and wait for its value."""
        return self._loop.wait(coroutine)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop, after everything that was sent before, and wait for its value."""

        async def called() -> T:
            return function()

        return self._loop.wait(called())

    @contextlib.contextmanager
    def locked(self, request: LockRequest, thread: int | None) -> Iterator[SyncLock]:
        """Hold a lock during the block. thread: the one that checks whether it is lost; None: all of the job's."""
        self.check()
        channel, error = self.io.channel, None
        held = self._loop.acquire(lambda: channel.locks, request, self.check)
        entry = (held, thread)
        self.io.held_locks.append(entry)
        try:
            yield SyncLock(held)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.io.held_locks.remove(entry)
            self._loop.wait(self._release(held))
            held.raise_if_lost(error)

    async def _release(self, held: HeldLock) -> None:
        await self.io.channel.locks.release(held)

    @contextlib.contextmanager
    def guarded(self, session: object) -> Iterator[None]:
        """Check the claim in the session's transaction, which holds it until its end."""
        self.io.guard_sync(session)
        yield
