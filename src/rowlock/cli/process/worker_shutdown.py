"""When a worker process stops: by a signal, by its supervisor or because it is recycled; and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import TYPE_CHECKING, Any

from rowlock.flow.worker.process_replacement import RECYCLED, STOPPING, SelfRestart, exit_now, run_exit_functions

if TYPE_CHECKING:
    from rowlock.cli.process.reload_child import ReloadParent
    from rowlock.flow.supervise.control_line import SupervisorLine
    from rowlock.flow.worker.process_replacement import ProcessReplacement
    from rowlock.flow.worker.worker import Worker

logger = logging.getLogger("rowlock.cli")


class ShutdownControl:
    """Waits for the order to stop. The first signal drains, a second one returns unfinished jobs at once.

    Under a supervisor only the supervisor ends the drain early.
    """

    def __init__(self, parent: ReloadParent | None = None, line: SupervisorLine | None = None) -> None:
        self.parent, self._line = parent, line
        self.stopping = asyncio.Event()
        self._anew = False
        self._alone = SelfRestart(self._recycle) if parent is None and line is None else None
        # A reloading parent starts its child anew when the code changes, and expects it to stay until then.
        self.replacement: ProcessReplacement | None = self._alone or line
        self.supervisor = line.supervisor if line is not None else None
        # A reloading parent or a supervisor handles Ctrl-C and logs it.
        self._signals = STOPPING if self._alone is not None else (signal.SIGTERM,)
        self._level = logging.INFO if self._alone is not None else logging.DEBUG

    def handle_signals(self, worker: Worker) -> None:
        """Handle signals from now on."""
        self._worker, self._loop = worker, asyncio.get_running_loop()
        for number in self._signals:
            # Not loop.add_signal_handler(): a handler that blocks the loop would delay the signal.
            signal.signal(number, self._on_signal)
        if self._line is not None:
            self._line.on_order(
                {"recycle": lambda: self._soon(self._recycle), "hurry": lambda: self._soon(worker.hurry)}
            )

    async def unless_stopped(self, starting: Any) -> bool:  # noqa: ANN401 - a coroutine
        """Await the start, which may wait for a database for hours; False: a signal came first."""
        start, stopping = asyncio.ensure_future(starting), asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait({start, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not start.done():
            start.cancel()
            await asyncio.gather(start, return_exceptions=True)
            return False
        await start
        return True

    async def until_stopped(self) -> None:
        """Wait for the order to stop, or for the worker to stop by itself after an operator drained it."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self.stopping, self._worker.stopped)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for waiter in waiting:
            waiter.cancel()

    def finish(self) -> None:
        """After the drain: start again if the process is to be recycled and nothing asked it to end.

        A handler that does not end is left behind: closing the event loop would wait for it for ever.
        """
        leaving = self.replacement is not None and self.replacement.leaving
        if self._line is not None and self._worker.dismissed:
            self._line.send(over="drain")
        elif self._anew and not leaving and not self._worker.dismissed:
            if self._alone is not None:
                run_exit_functions()
                self._alone.restart()
            exit_now(RECYCLED)
        if self._worker.has_stuck_handlers:
            exit_now(0)

    def _recycle(self) -> None:
        if not self.stopping.is_set():
            self._anew = True
            self.stopping.set()

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.replacement is not None:
            self.replacement.leaving = True
        self._soon(self._on_stop, signal.Signals(number))

    def _soon(self, act: Any, *args: object) -> None:  # noqa: ANN401 - a callable
        with contextlib.suppress(RuntimeError):  # the loop is closed: this process is at its end
            self._loop.call_soon_threadsafe(act, *args)

    def _on_stop(self, number: signal.Signals) -> None:
        if not self.stopping.is_set():
            logger.log(self._level, "%s: draining; send it again to return unfinished jobs at once", number.name)
            self.stopping.set()
        elif self._line is None:
            logger.warning("%s again: unfinished jobs are returned now", number.name)
            self._worker.hurry()
