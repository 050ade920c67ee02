"""WorkerThread: a worker in a thread of an application that blocks, such as a script or a WSGI server."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING

from rowlock.flow.run.process_exits import run_through_exits

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.flow.worker.worker import Worker

logger = logging.getLogger("rowlock")


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
            atexit.register(self.stop)
            self._warn_of_forks()
        else:
            logger.info("ROWLOCK_WORKER is off: no worker in this process")

    def _warn_of_forks(self) -> None:
        """Say once that children of this process, such as those of a preforking web server, run no jobs."""
        started_in, thread = threading.get_ident(), weakref.ref(self._thread)

        def forked() -> None:
            nonlocal thread
            running = thread()
            # A handler that forks does so in a thread of its own, and knows what it does.
            if running is not None and running.is_alive() and threading.get_ident() == started_in:
                logger.warning(
                    "process %d forks after start_worker(): jobs run in this process alone, and not in its children. "
                    "Under gunicorn leave out --preload, or call start_worker() in post_worker_init of its settings",
                    os.getpid(),
                )
                thread = weakref.ref(threading.Thread())  # said once

        os.register_at_fork(after_in_parent=forked)

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
