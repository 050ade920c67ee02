"""SystemExit and KeyboardInterrupt: those of a signal end the process, those of a handler end only its attempt."""

from __future__ import annotations

import asyncio
import functools
import logging
import signal
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import CodeType, TracebackType

logger = logging.getLogger("rowlock.run")
T = TypeVar("T")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def raised_by_signal(error: BaseException) -> bool:
    """Whether a signal raised it, as Ctrl-C does; a handler may raise the same exception by itself.

    Python's own handler of SIGINT leaves no trace: where it is installed, each KeyboardInterrupt of the main thread
    counts as Ctrl-C. asyncio.run(), uvicorn and `rowlock worker` replace it.
    """
    if not isinstance(error, (KeyboardInterrupt, SystemExit)):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True
    raiser = _innermost(error.__traceback__)
    return raiser is not None and raiser in (_code_of(signal.getsignal(number)) for number in _SIGNALS)


def _innermost(trace: TracebackType | None) -> CodeType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame.f_code


def _code_of(handler: object) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return getattr(getattr(handler, "__func__", handler), "__code__", None)


def run_through_exits(runner: asyncio.Runner, main: Coroutine[Any, Any, T]) -> T:
    """runner.run(main), which goes on when a task beside main raises SystemExit or KeyboardInterrupt.

    asyncio ends the whole loop for them, and so a worker with all its jobs, when a task that a handler started raises
    one. The handler gets it from that task all the same.
    """
    task = runner.get_loop().create_task(main)
    while True:
        try:
            runner.run(_ended(task))
            return task.result()
        except (KeyboardInterrupt, SystemExit) as error:
            if task.done() or raised_by_signal(error):
                raise
            logger.exception("a task raised %s; the event loop goes on without it", type(error).__name__)


async def _ended(task: asyncio.Task[Any]) -> None:
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:  # Ctrl-C, by asyncio.Runner
        task.cancel()
        await asyncio.wait({task})
        if task.cancelled():
            raise
