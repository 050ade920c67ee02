"""Beat: one statement that says "I live" and brings home everything a worker must hear.

It runs in a thread of its own with its own event loop and connection, so that a handler that blocks the worker's loop
does not look like a dead worker. The same thread watches that loop and names the function that blocks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseError
from rowlock.flow.enqueue import wake
from rowlock.flow.worker.loop_blocker import Stack
from rowlock.outage_log import Trouble
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.database import TRANSIENT
from rowlock.store.jobs import workers
from rowlock.telemetry import Events, LoopBlocked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from rowlock.flow.worker.successor import Successor
    from rowlock.model.job import Claim
    from rowlock.settings import Settings
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.beat")
EVERY: Final = 1.9
"""Seconds. What no message brought sooner (lane edits, drain, cancel) arrives with the beat: within two seconds."""
_LATE: Final = 0.002
_SHORTEST: Final = 0.02
"""Seconds from one beat to the next at least: it comes sooner when a schedule is due before."""
_SOON: Final = 0.1
_MOST_SOON: Final = 4
_DISOWN_EVERY: Final = 30
"""Beats."""
_TICK: Final = 0.25
_PATIENCE: Final = 3.0
"""Seconds for the thread to end."""
_ASLEEP: Final = timedelta(seconds=3 * EVERY)
_OLD_FRIENDS: Final = timedelta(days=365)
_LOOK_SHARE: Final = 20
"""Looking for due duties takes a twentieth of the time at most, as each of the duties does."""
_LOOK_WITHIN: Final = 5.0
"""Seconds after which it looks again, whatever it costs: on a busy machine the time says little, and rescues wait."""
_SIGN_EVERY: Final = 4
"""Ticks."""
_LAST_WORDS: Final = 5.0
"""Seconds in which the claims of a blocked worker must be given back; then its process is replaced all the same."""


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
    schema_since: int = 0
    """The oldest code that runs on the tables, by the version it was made for."""
    slept: bool = False
    """The beat before was long ago: this process, its machine or the server stood still."""


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds the loop. suspects: their claims; write_over: writes the outcomes that wait over another connection."""

    suspects: Sequence[Claim]
    write_over: Callable[[WorkerConnection], Awaitable[None]]


class Beat:
    """The thread. `vitals` is called in it; `tell` must hand the news to the worker's own loop."""

    def __init__(
        self,
        database: Database,
        worker_id: int,
        *,
        vitals: Callable[[], Vitals],
        tell: Callable[[News], None],
        holders: Callable[[], Holders],
        settings: Settings,
        successor: Successor | None = None,
        events: Events | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._worker_id, self._monotonic = database, worker_id, monotonic
        self._vitals, self._tell, self._holders, self._successor = vitals, tell, holders, successor
        self._max_losses = settings.max_losses
        self._watch = Watchdog(settings, self._replace, successor, events or Events())
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poked: asyncio.Event | None = None
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._replacing = False
        self._trouble = Trouble(logger, "no beat", "the worker beats again")
        self._pause, self._overdue = EVERY, 0
        """overdue: beats in a row that saw a schedule due."""
        self._last: datetime | None = None
        """The database's clock at the last beat."""
        self._look_at = 0.0
        self._connections, self._doubtful = 0, False
        """doubtful: over a new connection may be another server, one that has forgotten what this worker finished."""

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
        link = WorkerConnection(self._database, "beat")
        since: float | None = None
        count = 0
        try:
            # A worker whose loop is gone has ended without saying so: it must fall silent, or nobody rescues its jobs.
            while not self._stop.is_set() and not self._watch.bereft and not self._replacing:
                try:
                    watched = _OLD_FRIENDS if since is None else timedelta(seconds=self._loop.time() - since)
                    news = await self._beat(link, watched, disown=count % _DISOWN_EVERY == 0)
                    if news.slept:
                        since = self._loop.time()
                        news = replace(news, watched=timedelta(0))
                    self._tell(news)
                    self._trouble.over()
                    count += 1
                except (DatabaseError, *TRANSIENT) as error:
                    # Nobody is judged by what happened during an outage: the watch starts again.
                    self._trouble.met(error)
                    since = self._loop.time() + EVERY
                except Exception as error:  # noqa: BLE001 - a thread that ended would look like a dead worker
                    self._trouble.met(error, unforeseen=True)
                pause, self._pause = self._pause, EVERY
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._poked.wait()
                self._poked.clear()
        finally:
            if self._replacing:
                await asyncio.wait([watching])
            watching.cancel()
            await link.close()

    async def _beat(self, link: WorkerConnection, watched: timedelta, *, disown: bool) -> News:
        before = self._last
        vitals, began = self._vitals(), self._monotonic()
        look = began >= self._look_at
        answer = await workers.beat(
            link,
            worker=self._worker_id,
            hungry=vitals.hungry,
            draining=vitals.draining,
            stuck=vitals.stuck,
            ids=[claim.job_id for claim in vitals.held],
            fences=[claim.fence for claim in vitals.held],
            look=look,
        )
        if look:
            self._look_at = began + min(_LOOK_WITHIN, _LOOK_SHARE * answer.spent / 1000)
        self._last = answer.now
        self._overdue = self._overdue + 1 if "schedules" in answer.due else 0
        self._pause = _until_next(answer.schedule_in, self._overdue)
        fresh, self._connections = link.reconnects != self._connections, link.reconnects
        # `before` must be of the clock that stamps the claims, so not in the first beat over a new connection.
        asked = (disown or vitals.doubtful or self._doubtful) and not fresh
        disowned = asked and before is not None and vitals.complete is not None
        if fresh and before is not None:
            self._doubtful, self._pause = True, min(self._pause, _SOON)
        elif disowned:
            self._doubtful = False
        if disowned and vitals.complete is not None and before is not None:
            given = await workers.disown(
                link,
                worker=self._worker_id,
                held=list(vitals.complete),
                before=before,
                channel=self._database.channel,
            )
            if given:
                logger.warning("gave back %d claims whose answer was lost: %s", len(given), given)
        lost = frozenset(answer.lost)
        return News(
            now=answer.now,
            known=answer.known,
            lanes_version=answer.lanes_version,
            sweep_epoch=answer.sweep_epoch,
            cancelled=answer.cancelled,
            lost=[claim for claim in vitals.held if claim.job_id in lost],
            due=answer.due,
            watched=watched,
            disowned=disowned,
            drain=answer.drain,
            schema_since=answer.schema_since,
            slept=before is not None and answer.now - before > _ASLEEP,
        )

    async def _replace(self, stack: Stack) -> None:
        """Blame the culprit, give everything else back, and have this process replaced."""
        self._replacing = True  # a beat would say that the worker is up again
        holders = self._holders()
        blamed = ", ".join(str(claim.job_id) for claim in holders.suspects) or "none of its jobs"
        logger.error("the event loop stays blocked by job %s in %s: the worker is replaced", blamed, stack.place)
        # Not the beat's own connection, which may be in the middle of something.
        link = WorkerConnection(self._database, "beat")
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await holders.write_over(link)
                given = await workers.unblock(
                    link,
                    worker=self._worker_id,
                    ids=[claim.job_id for claim in holders.suspects],
                    fences=[claim.fence for claim in holders.suspects],
                    place=stack.place,
                    max_losses=self._max_losses,
                    channel=self._database.channel,
                )
                await workers.wake(link, channel=self._database.channel, payload=wake.payload({}))
            logger.warning("gave back %d claims: %s", len(given), given)
        except Exception:
            logger.exception("the claims of this worker are not given back; they are rescued later")
        await link.close()
        if self._successor is not None:
            self._successor.take_over()


def _until_next(schedule_in: float | None, overdue: int) -> float:
    """Seconds to the next beat: at the moment of a slot, and soon after it, when it was fired and the next is known.

    What stays due although every worker saw it is not worth more than the usual beats.
    """
    pause = EVERY if schedule_in is None else min(EVERY, max(_SHORTEST, schedule_in + _LATE))
    return min(pause, _SOON * 2 ** (overdue - 1)) if 0 < overdue <= _MOST_SOON else pause


class Watchdog:
    """Notices when an event loop does not come round, says which function holds it, and acts when that lasts."""

    def __init__(
        self,
        settings: Settings,
        act: Callable[[Stack], Awaitable[None]],
        successor: Successor | None,
        events: Events,
    ) -> None:
        """act: called once a process that has a successor was blocked for too long."""
        self._settings, self._act, self._successor, self._events = settings, act, successor, events
        self._lag = settings.lag_limit.total_seconds()
        self._tick = min(_TICK, self._lag)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._answered = threading.Event()
        self._ticks = 0
        self._debugged = False
        """A person stands in a debugger: that is no fault."""

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
                # Counted, not measured: a process that was stopped meanwhile did not block its loop.
                waited += await self._pause(waited)
                if waited >= self._lag and not complained and not self._answered.is_set():
                    complained = True
                    logger.warning("%s", self._complaint(waited))
                await self._act_if_due(waited)
            if complained:
                logger.warning("the event loop is back after about %.1f s", waited)
            await self._pause(0.0)

    async def _pause(self, waited: float) -> float:
        self._ticks += 1
        if self._successor is not None and self._ticks % _SIGN_EVERY == 0:
            self._successor.sign(0.0 if self._debugged else waited)
        await asyncio.sleep(self._tick)
        return self._tick

    async def _act_if_due(self, waited: float) -> None:
        limit = self._settings.blocked_limit
        if limit and self._successor is not None and self._successor.leaving:
            limit = min(limit, self._settings.shutdown_after)
        if not limit or self._successor is None or waited < limit.total_seconds() or self._answered.is_set():
            return
        stack = Stack(self._thread_id)
        self._debugged = stack.debugged
        if not self._debugged:
            await self._act(stack)

    def _complaint(self, waited: float) -> str:
        stack = Stack(self._thread_id)
        if self._events.active:
            self._events.emit(LoopBlocked(waited, stack.place))
        return (
            f"the event loop has been blocked for {waited:.1f} s in {stack.place}; other jobs of this process wait. "
            f"Await instead of blocking, or move the work off the loop.\n{stack.lines}"
        )
