"""Blocked: who holds an event loop, seen from another thread."""

from __future__ import annotations

import asyncio
import gc
import sys
import traceback
from contextvars import Context
from typing import TYPE_CHECKING, Final

from rowlock.model.job import Claim
from rowlock.telemetry import CURRENT

if TYPE_CHECKING:
    from types import FrameType

_DEBUGGERS: Final = frozenset({"bdb", "pdb", "pydevd", "debugpy"})
_SHOWN: Final = 4


def culprit(loop: asyncio.AbstractEventLoop) -> Claim | None:
    """The claim on whose behalf the loop's present task runs; None: no task runs, or none of a job's."""
    task = asyncio.current_task(loop)
    context = _context(task) if task is not None else None
    row = context.get(CURRENT) if context is not None else None
    return Claim(row["id"], row["fence"]) if row is not None else None


def _context(task: asyncio.Task[object]) -> Context | None:
    if sys.version_info >= (3, 12):
        return task.get_context()
    # Python 3.11 has no accessor; the collector knows what the task refers to.
    return next((found for found in gc.get_referents(task) if isinstance(found, Context)), None)


class Stack:
    """What a thread is doing at this moment."""

    def __init__(self, thread_id: int) -> None:
        frame = sys._current_frames().get(thread_id)  # noqa: SLF001 - the documented way to see another thread's stack
        self._frame: FrameType | None = frame

    @property
    def place(self) -> str:
        """The innermost function, with its file and line."""
        where = traceback.extract_stack(self._frame)[-1] if self._frame is not None else None
        return f"{where.name} ({where.filename}:{where.lineno})" if where else "an unknown place"

    @property
    def lines(self) -> str:
        """The last calls, as a traceback shows them."""
        return "".join(traceback.format_stack(self._frame)[-_SHOWN:]) if self._frame is not None else ""

    @property
    def debugged(self) -> bool:
        """Whether a person stands in a debugger there."""
        frame = self._frame
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _DEBUGGERS:
                return True
            frame = frame.f_back
        return False
