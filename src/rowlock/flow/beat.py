"""Beat: one statement that says "I live" and brings home everything a worker must hear.

It runs in a thread of its own with its own event loop and connection, so that a handler that blocks the worker's loop
does not look like a dead worker. The same thread watches that loop and names the function that blocks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import traceback
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseUnreachable
from rowlock.store.link import Link
from rowlock.telemetry import Events, LoopBlocked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from rowlock.model.job import Claim
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.beat")
EVERY: Final = 1.8
"""Seconds. What no message brought sooner (lane edits, drain, cancel) arrives with the beat: within two seconds."""
_DISOWN_EVERY: Final = 10
"""Beats."""
_TICK: Final = 0.25
_PATIENCE: Final = 3.0
"""Seconds for the thread to end."""
_ASLEEP: Final = timedelta(seconds=3 * EVERY)
_OLD_FRIENDS: Final = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Vitals:
    """What the worker says of itself. held: claims to be checked; None in complete: an answer may be under way."""

    hungry: bool
    draining: bool
    held: Sequence[Claim]
    complete: Sequence[int] | None
    doubtful: bool = False
    """The answer to a claim was lost: forgotten claims are looked for at once."""
    stuck: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """What the database answered."""

    now: datetime
    known: bool
    lanes_version: int
    sweep_epoch: int
    cancelled: Sequence[int]
    lost: Sequence[Claim]
    due: Sequence[str]
    watched: timedelta
    """How long this process has seen the database without a break."""
    disowned: bool = False
    """Forgotten claims were looked for."""
    drain: bool = False
    """A person asked this worker to leave."""
    slept: bool = False
    """The beat before was long ago: this process, its machine or the server stood still."""


class Beat:
    """The thread. `vitals` is called in it; `tell` must hand the news to the worker's own loop."""

    def __init__(
        self,
        database: Database,
        worker_id: int,
        *,
        vitals: Callable[[], Vitals],
        tell: Callable[[News], None],
        lag_limit: float,
        events: Events | None = None,
    ) -> None:
        self._database, self._worker_id = database, worker_id
        self._vitals, self._tell = vitals, tell
        self._watch = Watchdog(lag_limit, events or Events())
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poked: asyncio.Event | None = None
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._last: datetime | None = None
        """The database's clock at the last beat."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start beating for the worker that lives on `loop`, in the calling thread."""
        self._watch.watch(loop)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="rowlock-beat", daemon=True)
        self._thread.start()
        self._ready.wait()

    def poke(self) -> None:
        """Beat at once: there is news."""
        if self._loop is not None and self._poked is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._poked.set)

    async def stop(self) -> None:
        """End the thread; waits a moment for a beat under way."""
        self._stop.set()
        self.poke()
        until = asyncio.get_running_loop().time() + _PATIENCE
        # Not join() in a helper thread: while the interpreter shuts down none can be started any more.
        while (  # noqa: ASYNC110 - a thread's end has no event of this loop
            self._thread is not None and self._thread.is_alive() and asyncio.get_running_loop().time() < until
        ):
            await asyncio.sleep(0.01)

    async def _run(self) -> None:
        self._loop, self._poked = asyncio.get_running_loop(), asyncio.Event()
        watching = asyncio.create_task(self._watch.run(self._stop))
        self._ready.set()
        link = Link(self._database, "beat")
        since: float | None = None
        count = 0
        try:
            # A worker whose loop is gone has ended without saying so: it must fall silent, or nobody rescues its jobs.
            while not self._stop.is_set() and not self._watch.bereft:
                try:
                    watched = _OLD_FRIENDS if since is None else timedelta(seconds=self._loop.time() - since)
                    news = await self._beat(link, watched, disown=count % _DISOWN_EVERY == 0)
                    if news.slept:
                        since = self._loop.time()
                        news = replace(news, watched=timedelta(0))
                    self._tell(news)
                    count += 1
                except DatabaseUnreachable as error:
                    # Nobody is judged by what happened during an outage: the watch starts again.
                    logger.warning("no beat: %s", error)
                    since = self._loop.time() + EVERY
                except Exception:
                    logger.exception("a beat failed")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._poked.wait(), EVERY)
                self._poked.clear()
        finally:
            watching.cancel()
            await link.close()

    async def _beat(self, link: Link, watched: timedelta, *, disown: bool) -> News:
        before = self._last
        vitals = self._vitals()
        (row,) = await link.fetch(
            "beat",
            worker=self._worker_id,
            hungry=vitals.hungry,
            state="draining" if vitals.draining else "up",
            stuck=vitals.stuck,
            ids=[claim.job_id for claim in vitals.held],
            fences=[claim.fence for claim in vitals.held],
        )
        self._last = row["now"]
        disowned = (disown or vitals.doubtful) and before is not None and vitals.complete is not None
        if disowned and vitals.complete is not None:
            (given,) = await link.fetch("disown", worker=self._worker_id, held=list(vitals.complete), before=before)
            if given["ids"]:
                logger.warning("gave back %d claims whose answer was lost: %s", len(given["ids"]), given["ids"])
        lost = frozenset(row["lost"])
        return News(
            now=row["now"],
            known=row["known"],
            lanes_version=row["lanes_version"],
            sweep_epoch=row["sweep_epoch"] or 0,
            cancelled=row["cancelled"],
            lost=[claim for claim in vitals.held if claim.job_id in lost],
            due=row["due"],
            watched=watched,
            disowned=disowned,
            drain=row["told"] == "drain",
            slept=before is not None and row["now"] - before > _ASLEEP,
        )


class Watchdog:
    """Notices when an event loop does not come round, and says which function holds it."""

    def __init__(self, limit: float, events: Events) -> None:
        self._limit, self._events = limit, events
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._answered = threading.Event()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the loop that runs in the calling thread."""
        self._loop, self._thread_id = loop, threading.get_ident()

    @property
    def bereft(self) -> bool:
        """Whether the loop was closed."""
        return self._loop is not None and self._loop.is_closed()

    async def run(self, stop: threading.Event) -> None:
        """Ask the loop again and again; complain once for each time it does not answer."""
        while not stop.is_set() and self._loop is not None:
            self._answered.clear()
            try:
                self._loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:
                return  # the worker's loop is closed
            waited = 0.0
            complained = False
            while not self._answered.is_set() and not stop.is_set():
                await asyncio.sleep(min(_TICK, self._limit))
                waited += min(_TICK, self._limit)
                if waited >= self._limit and not complained and not self._answered.is_set():
                    complained = True
                    logger.warning("%s", self._complaint(waited))
            if complained:
                logger.warning("the event loop is back after about %.1f s", waited)
            await asyncio.sleep(_TICK)

    def _complaint(self, waited: float) -> str:
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - the documented way to see another thread's stack
        where = traceback.extract_stack(frame)[-1] if frame is not None else None
        place = f"{where.name} ({where.filename}:{where.lineno})" if where else "an unknown place"
        if self._events.active:
            self._events.emit(LoopBlocked(waited, place))
        stack = "".join(traceback.format_stack(frame)[-4:]) if frame is not None else ""
        return (
            f"the event loop has been blocked for {waited:.1f} s in {place}; other jobs of this process wait. "
            f"Await instead of blocking, or move the work off the loop.\n{stack}"
        )
