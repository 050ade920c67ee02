"""ProcessReplacement: how a worker process that is worn or blocked is replaced by a fresh one."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("rowlock.worker")
RECYCLED: Final = 75
"""Exit code of a supervised process that asks to be started again."""
STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


class ProcessReplacement(Protocol):
    """Puts a fresh process in the place of this one. A worker inside another program has none."""

    leaving: bool
    """A signal has asked this process to end: nothing takes its place."""

    def registered(self, worker_id: int) -> None:
        """The worker has its row; called on its loop."""

    def request(self, reason: str) -> None:
        """Have the worker drained and the process replaced when convenient; called on the worker's loop."""

    def report_alive(self, blocked: float) -> None:
        """Report that this process lives and for how many seconds its loop is blocked; called in the beat's thread."""

    def replace_now(self) -> NoReturn:
        """Replace the process at once: its loop is blocked, its claims are given back; called in the beat's thread."""


class SelfRestart:
    """For a process without a supervisor, which executes itself again: same process id, arguments and folder."""

    def __init__(self, drain: Callable[[], None]) -> None:
        """drain: called on the loop when the worker is to drain; restart() is to be called afterwards."""
        self._drain, self._folder = drain, os.getcwd()  # noqa: PTH109 - a text for chdir, before the application moves
        self.leaving = False

    def registered(self, worker_id: int) -> None:
        """Ignored: no supervisor wants to know."""

    def request(self, reason: str) -> None:  # noqa: ARG002 - the worker has logged it
        """Drain the worker."""
        self._drain()

    def report_alive(self, blocked: float) -> None:
        """Ignored: no supervisor watches."""

    def replace_now(self) -> NoReturn:
        """Restart, or end if a signal has asked for that."""
        if self.leaving:
            flush_output()
            os._exit(0)
        self.restart()

    def restart(self) -> NoReturn:
        """Execute the program again. A signal that comes now stays pending until the new program unblocks it."""
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        if self.leaving:
            flush_output()
            os._exit(0)
        flush_output()
        os.chdir(self._folder)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves


def unblock_signals() -> None:
    """Receive signals from now on; restart() or a supervisor has blocked them before this program began."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)


def exit_now(code: int) -> NoReturn:
    """End after the atexit functions, without waiting for threads that do not end."""
    run_exit_functions()
    flush_output()
    os._exit(code)


def run_exit_functions() -> None:
    """Call what the application registered with atexit."""
    atexit._run_exitfuncs()  # noqa: SLF001 - the interpreter's own way there joins every executor's thread first


def flush_output() -> None:
    """Flush log handlers, stdout and stderr."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
