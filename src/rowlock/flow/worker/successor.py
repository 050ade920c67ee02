"""Successor: how a worker process that is worn or blocked is replaced by a fresh one."""

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
"""Exit code of a supervised process that asks to be started anew."""
STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


class Successor(Protocol):
    """Whoever can put a new process in this one's place. A worker inside another program has none."""

    leaving: bool
    """A signal has told this process to end: nothing takes its place."""

    def entered(self, worker_id: int) -> None:
        """The worker has its row; called on its loop."""

    def ask(self, reason: str) -> None:
        """The worker is worn: have it drained and replaced when convenient; called on its loop."""

    def sign(self, blocked: float) -> None:
        """This process lives, its loop has been blocked for so many seconds; called in the beat's thread."""

    def take_over(self) -> NoReturn:
        """Replace this process now: its loop is blocked and its claims are given back; called in the beat's thread."""


class Alone:
    """A process nobody supervises executes itself anew: same process id, same arguments, same folder."""

    def __init__(self, worn: Callable[[], None]) -> None:
        """worn: called on the loop when the worker should be drained."""
        self._worn, self._folder = worn, os.getcwd()  # noqa: PTH109 - a text for chdir, before the application moves
        self.leaving = False

    def entered(self, worker_id: int) -> None:
        """Nobody asks."""

    def ask(self, reason: str) -> None:  # noqa: ARG002 - the worker has logged it
        """Drain; whoever runs the worker calls begin_anew() afterwards."""
        self._worn()

    def sign(self, blocked: float) -> None:
        """Nobody watches."""

    def take_over(self) -> NoReturn:
        """Execute anew, unless a signal has told this process to end."""
        if self.leaving:
            flush()
            os._exit(0)
        self.begin_anew()

    def begin_anew(self) -> NoReturn:
        """Become a fresh process. A signal that comes now stays pending: the new program sees it first of all."""
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        if self.leaving:
            flush()
            os._exit(0)
        flush()
        os.chdir(self._folder)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves


def hear_signals() -> None:
    """Undo what begin_anew() or a supervisor did before this program began: signals may come from now on."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)


def leave(code: int) -> NoReturn:
    """End without waiting for threads that will not end; what the application registered for its end is done."""
    farewell()
    flush()
    os._exit(code)


def farewell() -> None:
    """Do what the application registered for its end."""
    atexit._run_exitfuncs()  # noqa: SLF001 - the interpreter's own way there joins every executor's thread first


def flush() -> None:
    """Get everything said out of this process."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
