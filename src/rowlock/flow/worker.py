"""Worker: composes claim, run and finish; hears wake-ups and beats; starts, drains and stops."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseError, DatabaseUnreachable, SchemaBehind, SchemaMissing, UnknownLane
from rowlock.flow import wake
from rowlock.flow.beat import Beat, News, Vitals
from rowlock.flow.claim import Claimer, Cursors
from rowlock.flow.context import Context
from rowlock.flow.finish import Finisher, Flushed, write_of
from rowlock.flow.progress import Reporter
from rowlock.flow.run import Attempt
from rowlock.model.job import Claim
from rowlock.model.lane import DEFAULT_LANE, Lane
from rowlock.store import lanes as lane_rows
from rowlock.store import migrate
from rowlock.store.link import Link
from rowlock.store.notify import Listener

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rowlock.flow.handler import Handler
    from rowlock.model.outcome import Outcome
    from rowlock.settings import Settings
    from rowlock.store.database import Database, Record

logger = logging.getLogger("rowlock.worker")
_EAGER: Final = sys.version_info >= (3, 12)
_LONG_RUNNING: Final = 2.0
"""Seconds after which a claim is checked with every beat: a job that ends sooner finds out by its own last write."""
_IDLE_FROM: Final = 0.05
_POLL_ONLY: Final = 1.0
"""Seconds between polls at most when nothing can wake the worker."""
_BACKOFF: Final = (0.1, 0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How one worker differs from another. lanes None: every lane; slots: this process's own number for a lane."""

    name: str | None = None
    lanes: Sequence[str] | None = None
    slots: Mapping[str, int] | None = None
    version: str = "0"


Upkeep = "Callable[[Sequence[str], News], Awaitable[None]]"


class Worker:
    """Claims and runs jobs until stopped. Start and stop are safe to call twice; one event loop, one thread for the beat."""

    def __init__(
        self,
        database: Database,
        handlers: Mapping[str, Handler],
        settings: Settings,
        options: WorkerOptions,
        *,
        upkeep: Callable[[Sequence[str], News], Awaitable[None]] | None = None,
        random: Random | None = None,
    ) -> None:
        self.database, self.settings, self.options = database, settings, options
        self._handlers, self._upkeep = handlers, upkeep
        self._random = random or Random()  # noqa: S311 - jitter, not secrets
        self.id = 0
        self.name = options.name or f"{socket.gethostname()}:{os.getpid()}"
        self.lanes: dict[str, Lane] = {}
        self.draining = False
        self.stopped = asyncio.Event()
        self._lanes_version = -1
        self._sweep_epoch = -1
        self._attempts: dict[int, Attempt] = {}
        self._in_use: Counter[str] = Counter()
        self._look = asyncio.Event()
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._started = False

    # --- start and stop ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register, read the lanes, begin to claim. Waits while the database is away or its schema behind, and says so."""
        if self._started:
            return
        self._started = True
        self._loop = asyncio.get_running_loop()
        self._claim_link, self._finish_link = Link(self.database, "claim"), Link(self.database, "finish")
        await self._until_served(self._register)
        self._cursors = Cursors(self._loop.time)
        self._claimer = Claimer(self._claim_link, self.id, self._cursors, self._handlers.keys())
        self._finisher = Finisher(self._finish_link, self.id, self._on_flushed)
        self._reporter = Reporter(self._finish_link, self._on_claim_lost)
        self._waker = wake.Waker(self.database)
        self._listener = Listener(self.database, self._on_message, self._on_listening)
        self._beat = Beat(
            self.database,
            self.id,
            vitals=self._vitals,
            tell=lambda news: self._loop.call_soon_threadsafe(self._on_news, news) and None,
            lag_limit=self.settings.lag_limit.total_seconds(),
        )
        await self._until_served(self._read_lanes)
        await self._until_served(self._read_pairs)
        self._finisher.start()
        if self.settings.listen:
            self._listener.start()
        self._beat.start(self._loop)
        self._tasks.append(self._loop.create_task(self._claim_loop(), name="rowlock-claim"))
        logger.info("worker %s started: lanes %s", self.name, ", ".join(sorted(self.lanes)) or "none")

    async def stop(self, *, after: float | None = None) -> None:
        """Drain: claim nothing more, let running jobs end for `after` seconds (default: the setting), return the rest."""
        if not self._started or self.stopped.is_set():
            return
        self.draining = True
        self._look.set()
        patience = self.settings.shutdown_after.total_seconds() if after is None else after
        running = [attempt.task for attempt in self._attempts.values() if attempt.task is not None]
        if running:
            logger.info("worker %s is stopping: %d jobs still run", self.name, len(running))
            hurry = asyncio.ensure_future(self._stopping.wait())
            await asyncio.wait({asyncio.ensure_future(_all(running)), hurry}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            hurry.cancel()
        self._stopping.set()
        await self._return_the_rest()
        await self._close()

    def hurry(self) -> None:
        """A second signal: do not wait for running jobs any longer."""
        self._stopping.set()

    async def _return_the_rest(self) -> None:
        left = [attempt for attempt in self._attempts.values() if attempt.task is not None and not attempt.task.done()]
        for attempt in left:
            attempt.stop("shutdown")
        if left:
            logger.info("worker %s returns %d unfinished jobs: %s", self.name, len(left), [a.row["id"] for a in left])
            await asyncio.wait([attempt.task for attempt in left if attempt.task is not None], timeout=5)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._finisher.drained(), timeout=5)

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._reporter.close()
        await self._finisher.stop()
        await self._listener.stop()
        await asyncio.to_thread(self._beat.stop)
        with contextlib.suppress(DatabaseError, TimeoutError):
            await asyncio.wait_for(self._finish_link.fetch("worker_gone", worker=self.id), timeout=3)
        await self._claim_link.close()
        await self._finish_link.close()
        self.stopped.set()
        logger.info("worker %s stopped", self.name)

    async def _until_served(self, step: Callable[[], Awaitable[None]]) -> None:
        said = ""
        for failures in range(2**31):
            try:
                return await step()
            except (DatabaseUnreachable, SchemaMissing, SchemaBehind) as error:
                if str(error) != said:
                    said = str(error)
                    logger.warning("worker %s waits: %s", self.name, error)
                await asyncio.sleep(_BACKOFF[min(failures, len(_BACKOFF) - 1)])
        return None

    async def _register(self) -> None:
        async with self._claim_link.session() as connection:
            await migrate.require(connection, self.database.schema)
        kinds = sorted(self._handlers)
        await lane_rows.prepare(self._claim_link, self._handlers_kinds(), self.settings.lanes or (DEFAULT_LANE,))
        (row,) = await self._claim_link.fetch(
            "register_worker",
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self.options.version,
            lanes=list(self.options.lanes) if self.options.lanes is not None else None,
            kinds=kinds,
        )
        self.id = row["id"]
        if row["namesake"]:
            other = json.loads(row["namesake"])
            logger.warning(
                "another live worker is also called %s (%s, pid %s, since %s). Both work, as each has an id of its own; "
                "give them different names to tell them apart.",
                self.name,
                other["host"],
                other["pid"],
                other["since"],
            )

    # --- lanes and pairs -------------------------------------------------------------------------------------------------

    def _handlers_kinds(self) -> list[object]:
        return [handler.kind for handler in self._handlers.values()]

    async def _read_lanes(self) -> None:
        rows = await lane_rows.read(self._claim_link)
        by_name = {lane.name: lane for lane in rows}
        wanted = list(self.options.lanes) if self.options.lanes is not None else sorted(by_name)
        for name in wanted:
            if name not in by_name:
                message = f"There is no lane {name!r}; there are {', '.join(sorted(by_name)) or 'none'}. Create it with: rowlock lanes set {name}"
                raise UnknownLane(message)
        own = self.options.slots or {}
        self.lanes = {name: replace(by_name[name], slots=own.get(name, by_name[name].slots)) for name in wanted}
        self._claimer.serve(self.lanes, rows)
        self._cursors.everywhere()
        self._look.set()

    async def _read_pairs(self) -> None:
        rows = await self._claim_link.fetch("pairs", kinds=list(self._handlers))
        self._cursors.publish(((row["kind"], row["priority"], row["share"]), row["low_water"]) for row in rows)
        self._look.set()

    # --- what the worker hears -------------------------------------------------------------------------------------------

    def _on_message(self, message: dict[str, object]) -> None:
        lows = wake.heard(message)
        if lows is None:
            self._beat.poke()
            return
        known = {pair: low for pair, low in lows.items() if pair[0] in self._handlers}
        if lows and not known:
            return
        for pair, low in known.items():
            self._cursors.lower(pair, low)
        if not lows:
            self._cursors.everywhere()
        self._look_at(min(known.values(), default=None))

    def _look_at(self, due: object) -> None:
        """Look now; for a job that is due within a minute look again then, as no other message will come."""
        self._look.set()
        if due is not None and self._clock is not None:
            ahead = (due - self._clock[0]).total_seconds() - (self._loop.time() - self._clock[1])
            if 0 < ahead < _HORIZON:
                self._loop.call_later(ahead + 0.002, self._look.set)

    def _on_listening(self) -> None:
        # What was sent while nobody listened is unknown.
        self._cursors.everywhere()
        self._look.set()
        self._spawn(self._until_served(self._read_pairs))

    def _on_news(self, news: News) -> None:
        if self.stopped.is_set():
            return
        self._clock = (news.now, self._loop.time())
        for job_id in news.cancelled:
            self._tell(job_id, "cancel")
        for job_id in news.lost:
            self._tell(job_id, "lost")
        if not news.known:
            self._spawn(self._revive())
        if news.lanes_version != self._lanes_version:
            self._lanes_version = news.lanes_version
            self._spawn(self._until_served(self._read_lanes))
        if news.sweep_epoch != self._sweep_epoch:
            self._sweep_epoch = news.sweep_epoch
            self._spawn(self._until_served(self._read_pairs))
        if news.due and self._upkeep is not None and not self.draining:
            self._spawn(self._upkeep(news.due, news))
