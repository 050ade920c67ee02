"""Heartbeat: one statement that says "this worker lives" and brings back every order and change that concerns it.

It runs in a thread of its own with its own event loop and connection, so that a handler that blocks the worker's loop
does not look like a dead worker. The watchdog runs in the same thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowlock.errors import DatabaseError, WriteRefused
from rowlock.flow.worker.health import SignsOfLife
from rowlock.keep_running import keep_running
from rowlock.model import ids
from rowlock.outage_log import OutageLog
from rowlock.store.batch_halving import in_halves
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.database import TRANSIENT
from rowlock.store.jobs import workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from rowlock.flow.worker.watchdog import Watchdog
    from rowlock.model.job import Claim
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.beat")
EVERY: Final = 1.9
"""Seconds. Orders and edits that no message brought sooner arrive with the beat: within two seconds."""
_LATE: Final = 0.002
"""Seconds after a schedule is due at which the beat comes."""
_SHORTEST: Final = 0.02
"""Seconds between two beats at least, however soon a schedule is due."""
_SOON: Final = 0.1
"""Seconds to the next beat after one that saw a schedule due, doubled with each such beat."""
_MOST_SOON: Final = 4
"""Beats in a row that come sooner because a schedule is due."""
_APART_FOR: Final = 1.0
"""Seconds of a beat in which unknown claims are given back in parts, when one row makes that fail."""
_DISOWN_EVERY: Final = 30
"""Beats between two looks for claims that this process does not know of."""
_RESTARTS: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Seconds after which a heartbeat that failed starts again; after the last one the worker leaves."""
_JOIN_WITHIN: Final = 3.0
"""Seconds for the thread to end."""
_SLEPT: Final = timedelta(seconds=3 * EVERY)
"""A longer pause between two beats means that this process, its machine or the server stood still."""
_UNBROKEN: Final = timedelta(days=365)
"""How long the database counts as watched while no outage was seen: longer than any timeout."""
_LOOK_SHARE: Final = 20
"""Looking for due duties takes a twentieth of the time at most, as each of the duties does."""
_LOOK_WITHIN: Final = 5.0
"""Seconds after which it looks again whatever that costs: rescues wait for it."""


class HeldReport(NamedTuple):
    """A slot whose handler goes on although its claim is over. seconds: since it was told to stop."""

    job_id: int
    kind: str
    lane: str
    seconds: float


@dataclass(frozen=True, slots=True)
class BeatReport:
    """What a worker reports about itself with a beat."""

    hungry: bool
    """A lane has a free slot."""
    draining: bool
    claims: Sequence[Claim]
    """Claims to be checked."""
    known_jobs: Sequence[int] | None
    """Every job this process holds; None: the answer to a claim is under way, so the list would not be complete."""
    answer_lost: bool = False
    """The answer to a claim was lost: claims that this process does not know of are looked for at once."""
    stuck: int = 0
    """Slots of handlers that do not end."""
    set_aside: str | None = None
    """Jobs of which the database does not take a write now, as JSON; None: there are none."""
    held: Sequence[HeldReport] = ()
    """Those slots, and those of handlers that were just told that their claim is lost."""
    memory: int | None = None
    """Bytes that the process takes; None: not known."""


@dataclass(frozen=True, slots=True)
class CompletedBeat:
    """The database's answer to a beat, and what the heartbeat knows beside it."""

    now: datetime
    known: bool
    """Whether the worker's row is there."""
    lanes_version: int
    sweep_epoch: int
    cancelled: Sequence[int]
    """Jobs of this worker that are to be cancelled."""
    lost: Sequence[Claim]
    """Claims of this worker that are no longer valid."""
    due: Sequence[str]
    """Duties of upkeep that are due."""
    watched: timedelta
    """How long this process has seen the database without a break."""
    disowned: bool = False
    """Claims that this process does not know of were looked for."""
    drain: bool = False
    """A person has ordered this worker to drain."""
    schema_since: int = 0
    """The oldest code that runs on the tables, by the version it was made for."""
    slept: bool = False
    """The beat before was long ago: this process, its machine or the server stood still."""


class Heartbeat:
    """The thread that beats for one worker."""

    def __init__(
        self,
        database: Database,
        worker_id: int,
        *,
        report: Callable[[], BeatReport],
        on_beat: Callable[[CompletedBeat], None],
        watchdog: Watchdog,
        on_death: Callable[[Exception], None] = lambda _: None,
        signs: SignsOfLife | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """All are called in the thread. on_death: the thread has failed for good."""
        self._database, self._worker_id, self._monotonic = database, worker_id, monotonic
        self._report, self._on_beat, self._watchdog, self._on_death = report, on_beat, watchdog, on_death
        self._signs = signs or SignsOfLife()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beat_now: asyncio.Event | None = None
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._outage = OutageLog(logger, "no beat", "the worker beats again")
        self._disowning = OutageLog(logger, "unknown claims cannot be given back", "unknown claims are given back")
        self._pause, self._overdue = EVERY, 0
        """overdue: beats in a row that saw a schedule due."""
        self._last: datetime | None = None
        """The database's clock at the last beat."""
        self._look_at = 0.0
        self._connections, self._doubtful = 0, False
        """doubtful: a new connection may lead to another server, one that has lost outcomes of this worker."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start beating for the worker on `loop`, which runs in the calling thread."""
        self._watchdog.watch(loop)
        self._thread = threading.Thread(target=self._main, name="rowlock-beat", daemon=True)
        self._thread.start()
        self._ready.wait()

    def _main(self) -> None:
        """The thread. A beat that fails is tried again inside; what ends the thread is started again a few times."""
        for pause in _RESTARTS:
            try:
                asyncio.run(self._run())
            except Exception as error:
                failure: Exception = error
                logger.exception("the heartbeat failed and starts again in %s s", pause)
            else:
                return
            finally:
                self._ready.set()
            if self._stop.wait(pause):
                return
        # A worker that cannot beat loses its jobs to others and must not claim more of them.
        self._on_death(failure)

    def beat_now(self) -> None:
        """Beat at once instead of at the usual time."""
        if self._loop is not None and self._beat_now is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._beat_now.set)

    async def stop(self) -> None:
        """End the thread; waits a moment for a beat under way."""
        self._stop.set()
        self.beat_now()
        until = asyncio.get_running_loop().time() + _JOIN_WITHIN
        # Not join() in a helper thread: while the interpreter shuts down none can be started any more.
        while (  # noqa: ASYNC110 - a thread's end has no event of this loop
            self._thread is not None and self._thread.is_alive() and asyncio.get_running_loop().time() < until
        ):
            await asyncio.sleep(0.01)

    async def _run(self) -> None:
        self._loop, self._beat_now = asyncio.get_running_loop(), asyncio.Event()
        watching = asyncio.create_task(keep_running("watchdog", lambda: self._watchdog.run(self._stop), logger))
        self._ready.set()
        link = WorkerConnection(self._database, "beat")
        since: float | None = None
        count = 0
        try:
            # A worker whose loop is closed has ended without a word: it must fall silent, or its jobs are not rescued.
            while not self._stop.is_set() and not self._watchdog.loop_closed and not self._watchdog.replacing:
                try:
                    watched = _UNBROKEN if since is None else timedelta(seconds=self._loop.time() - since)
                    beat = await self._beat(link, watched, disown=count % _DISOWN_EVERY == 0)
                    if beat.slept:
                        since = self._loop.time()
                        beat = replace(beat, watched=timedelta(0))
                    self._on_beat(beat)
                    self._outage.recovered()
                    count += 1
                except (DatabaseError, *TRANSIENT) as error:
                    # No worker counts as lost because of an outage: the time without a break starts again.
                    self._outage.failed(error)
                    since = self._loop.time() + EVERY
                except Exception as error:  # noqa: BLE001 - a thread that ended would look like a dead worker
                    self._outage.failed(error, unforeseen=True)
                pause, self._pause = self._pause, EVERY
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._beat_now.wait()
                self._beat_now.clear()
        finally:
            if self._watchdog.replacing:
                await asyncio.wait([watching])
            watching.cancel()
            await link.close()

    async def _beat(self, link: WorkerConnection, watched: timedelta, *, disown: bool) -> CompletedBeat:
        before = self._last
        report, began = self._report(), self._monotonic()
        look = began >= self._look_at
        answer = await workers.beat(
            link,
            worker=self._worker_id,
            hungry=report.hungry,
            draining=report.draining,
            stuck=report.stuck,
            set_aside=report.set_aside,
            held=json.dumps([list(slot) for slot in report.held]) if report.held else None,
            memory=report.memory,
            ids=[claim.job_id for claim in report.claims],
            fences=[claim.fence for claim in report.claims],
            look=look,
        )
        if look:
            self._look_at = began + min(_LOOK_WITHIN, _LOOK_SHARE * answer.spent / 1000)
        self._last, self._signs.answered_at = answer.now, self._monotonic()
        self._overdue = self._overdue + 1 if "schedules" in answer.due else 0
        self._pause = _until_next(answer.schedule_in, self._overdue)
        disowned = await self._disown(link, report, before, asked=disown)
        lost = frozenset(answer.lost)
        return CompletedBeat(
            now=answer.now,
            known=answer.known,
            lanes_version=answer.lanes_version,
            sweep_epoch=answer.sweep_epoch,
            cancelled=answer.cancelled,
            lost=[claim for claim in report.claims if claim.job_id in lost],
            due=answer.due,
            watched=watched,
            disowned=disowned,
            drain=answer.drain,
            schema_since=answer.schema_since,
            slept=before is not None and answer.now - before > _SLEPT,
        )

    async def _disown(
        self, link: WorkerConnection, report: BeatReport, before: datetime | None, *, asked: bool
    ) -> bool:
        """Give back claims from before the last beat that this process does not know of; False: not looked for."""
        fresh, self._connections = link.reconnects != self._connections, link.reconnects
        if fresh:
            # `before` must be of the clock that stamps the claims, so not in the first beat over a new connection.
            if before is not None:
                self._doubtful, self._pause = True, min(self._pause, _SOON)
            return False
        if not (asked or report.answer_lost or self._doubtful) or before is None or report.known_jobs is None:
            return False
        self._doubtful = False
        given, held = list[int](), list(report.known_jobs)

        async def give_back(only: list[int] | None) -> None:
            given.extend(
                await workers.disown(
                    link,
                    worker=self._worker_id,
                    held=held,
                    before=before,
                    channel=self._database.channel,
                    only=only,
                )
            )

        try:
            await give_back(None)
        except (WriteRefused, *TRANSIENT) as error:
            # The worker has beaten, and its orders must be heard: a row that is refused waits for the next look.
            self._doubtful = True
            self._disowning.failed(error)
            until = self._monotonic() + _APART_FOR
            unknown = [job for job in await workers.claimed_by(link, self._worker_id) if job not in report.known_jobs]
            await in_halves(unknown, give_back, may_go_on=lambda: self._monotonic() < until)
        else:
            self._disowning.recovered()
        if given:
            logger.warning("gave back %d claims whose answer was lost: %s", len(given), ids.listed(given))
        return not self._doubtful


def _until_next(schedule_in: float | None, overdue: int) -> float:
    """Seconds to the next beat: at the moment of a slot, and soon after it, when it was fired and the next is known.

    A schedule that stays due although every worker has seen it is worth the usual beats only.
    """
    pause = EVERY if schedule_in is None else min(EVERY, max(_SHORTEST, schedule_in + _LATE))
    return min(pause, _SOON * 2 ** (overdue - 1)) if 0 < overdue <= _MOST_SOON else pause
