"""Watchdog: notices that a handler blocks the event loop, logs which function it is, and replaces the process in time.

It runs in the heartbeat's thread, on the event loop of that thread, as the loop it watches cannot watch itself.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
import traceback
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.flow.worker.health import SignsOfLife
from rowlock.model import ids
from rowlock.model.job import Claim
from rowlock.model.notify_messages import LOOK_EVERYWHERE
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.jobs import workers
from rowlock.store.jobs.wake import wake
from rowlock.telemetry import CURRENT, Events, LoopBlocked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import FrameType

    from rowlock.flow.worker.process_replacement import ProcessReplacement
    from rowlock.settings import Settings
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.beat")
_TICK: Final = 0.25
"""Seconds between two questions to the loop."""
_REPORT_EVERY: Final = 4
"""Ticks between two signs of life for the supervisor."""
_GIVE_BACK_WITHIN: Final = 5.0
"""Seconds to give the claims of a blocked worker back; then its process is replaced all the same."""
_DEBUGGERS: Final = frozenset({"bdb", "pdb", "pydevd", "debugpy"})
_SHOWN: Final = 4
"""Calls of a stack that are logged."""


@dataclass(frozen=True, slots=True)
class LoopSuspects:
    """The claims whose handlers may block the loop, and a way to write the outcomes that wait on that loop."""

    claims: Sequence[Claim]
    write_outcomes: Callable[[WorkerConnection], Awaitable[None]]


class Watchdog:
    """Watches the event loop of one worker."""

    def __init__(
        self,
        database: Database,
        worker_id: int,
        *,
        suspects: Callable[[], LoopSuspects],
        settings: Settings,
        replacement: ProcessReplacement | None = None,
        events: Events | None = None,
        signs: SignsOfLife | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """suspects: called in the watchdog's thread while the loop is blocked. Without a replacement it only logs."""
        self._database, self._worker_id, self._suspects = database, worker_id, suspects
        self._settings, self._replacement, self._events = settings, replacement, events or Events()
        self._lag = settings.lag_limit.total_seconds()
        self._tick = min(_TICK, self._lag)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._answered = threading.Event()
        self._signs, self._monotonic = signs or SignsOfLife(), monotonic
        self._ticks = 0
        self._debugged = False
        """A person stands in a debugger, which is no fault."""
        self.replacing = False
        """The process is about to be replaced: a beat would say that the worker is up again."""

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the loop that runs in the calling thread."""
        self._loop, self._thread_id = loop, threading.get_ident()

    @property
    def loop_closed(self) -> bool:
        """Whether the watched loop was closed: its worker has ended without a word."""
        return self._loop is not None and self._loop.is_closed()

    async def run(self, stop: threading.Event) -> None:
        """Ask the loop again and again for an answer; log once for each time that it is late."""
        while not stop.is_set() and self._loop is not None:
            self._answered.clear()
            try:
                self._loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:
                return  # the worker's loop is closed
            waited = 0.0
            logged = False
            while not self._answered.is_set() and not stop.is_set():
                # Counted, not measured: a process that was stopped meanwhile did not block its loop.
                waited += await self._pause(waited)
                if waited >= self._lag and not logged and not self._answered.is_set():
                    logged = True
                    self._log_blocked(waited)
                await self._replace_if_due(waited)
            if logged:
                logger.warning("the event loop is back after about %.1f s", waited)
            await self._pause(0.0)

    async def _pause(self, waited: float) -> float:
        self._ticks += 1
        blocked = 0.0 if self._debugged else waited
        self._signs.ticked_at, self._signs.blocked_for = self._monotonic(), blocked
        if self._replacement is not None and self._ticks % _REPORT_EVERY == 0:
            self._replacement.report_alive(blocked)
        await asyncio.sleep(self._tick)
        return self._tick

    def _log_blocked(self, waited: float) -> None:
        stack = ThreadStack(self._thread_id)
        if self._events.active:
            self._events.emit(LoopBlocked(waited, stack.place))
        logger.warning(
            "the event loop has been blocked for %.1f s in %s; other jobs of this process wait. "
            "Await ctx.progress() or another call of ctx between two pieces of the work, or move it off the loop: "
            "a plain def runs in a thread, executor='process' in a child process.\n%s",
            waited,
            stack.place,
            stack.lines,
        )

    async def _replace_if_due(self, waited: float) -> None:
        limit = self._settings.blocked_limit
        if limit and self._replacement is not None and self._replacement.leaving:
            limit = min(limit, self._settings.shutdown_after)
        if not limit or self._replacement is None or waited < limit.total_seconds() or self._answered.is_set():
            return
        stack = ThreadStack(self._thread_id)
        self._debugged = stack.in_debugger
        if not self._debugged:
            await self._replace(stack, self._replacement)

    async def _replace(self, stack: ThreadStack, replacement: ProcessReplacement) -> None:
        """Count the loss against the suspects, give all other claims back, and have this process replaced."""
        self.replacing = True
        suspects = self._suspects()
        blamed = ", ".join(ids.encode(claim.job_id) for claim in suspects.claims) or "none of its jobs"
        logger.error("the event loop stays blocked by job %s in %s: the worker is replaced", blamed, stack.place)
        # Not the beat's own connection, which may be in the middle of a statement.
        link = WorkerConnection(self._database, "beat")
        try:
            async with asyncio.timeout(_GIVE_BACK_WITHIN):
                await suspects.write_outcomes(link)
                given = await workers.unblock(
                    link,
                    worker=self._worker_id,
                    ids=[claim.job_id for claim in suspects.claims],
                    fences=[claim.fence for claim in suspects.claims],
                    place=stack.place,
                    max_losses=self._settings.max_losses,
                    channel=self._database.channel,
                )
                await wake(link, channel=self._database.channel, payload=LOOK_EVERYWHERE)
            logger.warning("gave back %d claims: %s", len(given), ids.listed(given))
        except Exception:
            logger.exception("the claims of this worker are not given back; they are rescued later")
        await link.close()
        replacement.replace_now()


class ThreadStack:
    """The calls that a thread is in at this moment."""

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
    def in_debugger(self) -> bool:
        """Whether a person stands in a debugger there."""
        frame = self._frame
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _DEBUGGERS:
                return True
            frame = frame.f_back
        return False


def claim_on_loop(loop: asyncio.AbstractEventLoop) -> Claim | None:
    """The claim whose handler the loop runs at this moment, seen from another thread; None: no handler."""
    task = asyncio.current_task(loop)
    context = _context(task) if task is not None else None
    row = context.get(CURRENT) if context is not None else None
    return Claim(row["id"], row["fence"]) if row is not None else None


def _context(task: asyncio.Task[object]) -> Context | None:
    if sys.version_info >= (3, 12):
        return task.get_context()
    # Python 3.11 has no accessor; the collector knows what the task refers to.
    return next((found for found in gc.get_referents(task) if isinstance(found, Context)), None)
