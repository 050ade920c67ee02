"""WorkerThread: a worker in a thread of an application that blocks, such as a script or a WSGI server."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from typing import TYPE_CHECKING, Final

from rowlock.flow.run.process_exits import run_through_exits

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.flow.worker.worker import Worker

logger = logging.getLogger("rowlock")
_AT_EXIT: Final = 5.0
"""Seconds for running jobs to end when the program ends without stopping its worker."""


class WorkerThread:
    """A worker with an event loop of its own in a daemon thread."""

    def __init__(self, make: Callable[[], Worker], *, enabled: bool) -> None:
        """make: called on the thread's loop. Returns once the worker has started, or raises its error."""
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: Worker | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="rowlock-worker", daemon=True)
        if enabled:
            self._thread.start()
            self._ready.wait()
            if self._failure is not None:
                raise self._failure
            # A program that ends without stop() still returns its jobs; otherwise they would wait for the timeout.
            atexit.register(self.stop, _AT_EXIT)
        else:
            logger.info("ROWLOCK_WORKER is off: no worker in this process")

    def _main(self) -> None:
        try:
            with asyncio.Runner() as runner:
                run_through_exits(runner, self._work())
        except BaseException as error:
            # Raised in the thread that started this one.
            self._failure = error
            if self._ready.is_set():
                logger.critical("the worker thread ended: %r", error, exc_info=error)
            self._ready.set()

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._worker = self._make()
        await self._worker.start()
        self._ready.set()
        await self._worker.stopped.wait()
        await self._worker.database.close()

    def stop(self, after: float | None = None) -> None:
        """Drain and stop; safe to call twice."""
        if self._loop is not None and self._worker is not None and self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._worker.stop(after=after), self._loop)
            self._thread.join()
        atexit.unregister(self.stop)
