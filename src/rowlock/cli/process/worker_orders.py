"""What a worker process is told, by signals, by its supervisor or by its own wear, and what it does at its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import TYPE_CHECKING, Any

from rowlock.flow.worker.process_replacement import RECYCLED, STOPPING, SelfRestart, exit_now, run_exit_functions

if TYPE_CHECKING:
    from rowlock.cli.process.watcher import Watcher
    from rowlock.flow.supervise.control_line import SupervisorLine
    from rowlock.flow.worker.process_replacement import ProcessReplacement
    from rowlock.flow.worker.worker import Worker

logger = logging.getLogger("rowlock.cli")


class Orders:
    """The first signal drains, a second one hurries. Under a supervisor only its word hurries."""

    def __init__(self, watcher: Watcher | None = None, line: SupervisorLine | None = None) -> None:
        self.watcher, self._line = watcher, line
        self.told = asyncio.Event()
        self._anew = False
        self._alone = SelfRestart(self._recycle) if watcher is None and line is None else None
        # A watcher starts its child anew when the code changes, and expects it to stay until then.
        self.replacement: ProcessReplacement | None = self._alone or line
        self.supervisor = line.supervisor if line is not None else None
        # Under a watcher Ctrl-C is its business, and so is telling about it; under a supervisor, too.
        self._signals = STOPPING if self._alone is not None else (signal.SIGTERM,)
        self._level = logging.INFO if self._alone is not None else logging.DEBUG

    def listen(self, worker: Worker) -> None:
        """Hear signals from now on."""
        self._worker, self._loop = worker, asyncio.get_running_loop()
        for number in self._signals:
            # Not the loop's own way: a handler that blocks the loop must not keep the signal from being seen.
            signal.signal(number, self._on_signal)
        if self._line is not None:
            self._line.on_order(
                {"recycle": lambda: self._soon(self._recycle), "hurry": lambda: self._soon(worker.hurry)}
            )

    async def unless_told(self, starting: Any) -> bool:  # noqa: ANN401 - a coroutine
        """Await the start, which may wait for a database for hours; False: a signal came first."""
        start, told = asyncio.ensure_future(starting), asyncio.ensure_future(self.told.wait())
        await asyncio.wait({start, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if not start.done():
            start.cancel()
            await asyncio.gather(start, return_exceptions=True)
            return False
        await start
        return True

    async def until_told(self) -> None:
        """Wait for an order; an operator's has been obeyed by the worker itself."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self.told, self._worker.stopped)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for waiter in waiting:
            waiter.cancel()

    def carry_on(self) -> None:
        """After the drain: begin anew if the worker was worn and nobody wants this process to end."""
        leaving = self.replacement is not None and self.replacement.leaving
        if self._line is not None and self._worker.dismissed:
            self._line.send(over="drain")
        elif self._anew and not leaving and not self._worker.dismissed:
            if self._alone is not None:
                run_exit_functions()
                self._alone.restart()
            exit_now(RECYCLED)

    def _recycle(self) -> None:
        if not self.told.is_set():
            self._anew = True
            self.told.set()

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.replacement is not None:
            self.replacement.leaving = True
        self._soon(self._hear, signal.Signals(number))

    def _soon(self, act: Any, *args: object) -> None:  # noqa: ANN401 - a callable
        with contextlib.suppress(RuntimeError):  # the loop is closed: this process is at its end
            self._loop.call_soon_threadsafe(act, *args)

    def _hear(self, number: signal.Signals) -> None:
        if not self.told.is_set():
            logger.log(self._level, "%s: draining; send it again to return unfinished jobs at once", number.name)
            self.told.set()
        elif self._line is None:
            logger.warning("%s again: unfinished jobs are returned now", number.name)
            self._worker.hurry()
