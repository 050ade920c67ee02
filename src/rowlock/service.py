"""Bridge: one event loop in a thread, through which blocking code uses the asynchronous API."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, TypeVar

from rowlock.errors import RowlockError

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class Bridge:
    """Started at first use and once per process: a forked child has no threads, so it starts its own."""

    def __init__(self) -> None:
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
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C during a blocking wait: what nobody waits for any more must not go on in the thread.
            future.cancel()
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
