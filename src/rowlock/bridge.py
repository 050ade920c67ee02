"""The bridge: one event loop in a thread, through which blocking code uses the asynchronous API."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Generic, TypeVar

from rowlock.errors import RowlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class _BridgedCall(Generic[T]):
    """One coroutine on the bridge's loop, and a thread that waits for its result.

    asyncio.run_coroutine_threadsafe() does the same with two futures, their locks and callbacks, which together take as
    long as the switch from thread to thread.
    """

    __slots__ = ("_coroutine", "_done", "_task")

    def __init__(self, coroutine: Coroutine[object, object, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self._done = threading.Lock()
        self._done.acquire()  # until the task has ended

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, _: asyncio.Task[T]) -> None:
        self._done.release()

    def wait(self) -> T:
        self._done.acquire()
        assert self._task is not None  # noqa: S101 - it has ended
        try:
            return self._task.result()
        finally:
            self._task = None  # an error refers to this frame, and this frame must not refer to the error


class Bridge:
    """An event loop in a thread, started at first use. A forked child inherits no thread, so it starts its own."""

    def __init__(self, *, warns: bool = False) -> None:
        """warns: of calls on a running event loop."""
        self._warns = warns
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine on the bridge's loop and wait for its result."""
        loop = self._running_loop()
        if threading.current_thread() is self._thread:
            coroutine.close()
            message = "A blocking call was made from Rowlock's own loop; await the asynchronous method there."
            raise RowlockError(message)
        call = _BridgedCall(coroutine)
        if self._warns and asyncio._get_running_loop() is not None:  # noqa: SLF001 - the public one raises, which costs ten times as much
            try:
                _warn_of_blocking()
            except RuntimeWarning:
                coroutine.close()
                raise
        try:
            loop.call_soon_threadsafe(call.begin)
            return call.wait()
        except BaseException:
            # Ctrl-C during a blocking wait: the coroutine must not go on in the thread without a waiter.
            loop.call_soon_threadsafe(call.cancel)
            raise

    def call_soon(self, coroutine: Coroutine[object, object, object]) -> None:
        """Run a coroutine on the bridge's loop without waiting for it."""
        asyncio.run_coroutine_threadsafe(coroutine, self._running_loop())

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():
            # The lock of the parent may be held by one of its threads, which do not exist here.
            self._lock, self._loop, self._pid = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="rowlock-bridge", daemon=True)
                self._thread.start()
            return self._loop

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The bridge's loop; started if it is not running."""
        return self._running_loop()

    @property
    def started(self) -> bool:
        """Whether this process has used it."""
        return self._loop is not None and self._pid == os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is the bridge's own thread, which must not wait for itself."""
        return self.started and threading.current_thread() is self._thread

    def close(self) -> None:
        """Stop the loop, if it was started."""
        if not self.started:
            return
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=2)
            loop.close()


def _warn_of_blocking() -> None:
    """Warn at the line of the application that made the blocking call."""
    depth, frame = 2, sys._getframe(1)  # noqa: SLF001 - warnings themselves find their line so
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "rowlock":
        depth, frame = depth + 1, frame.f_back
    message = (
        "A blocking call of Rowlock (enqueue_sync(), wait_sync(), app.sync…) was made on a running event loop, which "
        "stands still until it returns. Await the asynchronous method instead."
    )
    warnings.warn(message, RuntimeWarning, stacklevel=depth)


def in_thread(work: Callable[[], object]) -> None:
    """Do the work in a thread of its own and wait for it: blocks the calling thread, on purpose."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failure.append(error)

    thread = threading.Thread(target=run, name="rowlock-work")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
