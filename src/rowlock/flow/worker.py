"""Worker: composes claim, run and finish; hears wake-ups and beats; starts, drains and stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseUnreachable, WrongState
from rowlock.flow import wake
from rowlock.flow.beat import Beat, Vitals
from rowlock.flow.claim import Claimer, Cursors
from rowlock.flow.crew import Crew
from rowlock.flow.processes import Children, Terms
from rowlock.flow.register import BACKOFF, Registration, until_served
from rowlock.model.job import Claim
from rowlock.store import lanes
from rowlock.store.database import TRANSIENT
from rowlock.store.link import Link
from rowlock.store.notify import Listener
from rowlock.telemetry import Events, LaneChanged, WorkerDraining, WorkerStarted, WorkerStopped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from rowlock.flow.beat import News
    from rowlock.flow.finish import Flushed
    from rowlock.flow.handler import Handler
    from rowlock.flow.register import WorkerOptions
    from rowlock.model.lane import Lane
    from rowlock.settings import Settings
    from rowlock.store.database import Database, Record

logger = logging.getLogger("rowlock.worker")
_IDLE_FROM: Final = 0.05
_POLL_ONLY: Final = 1.0
"""Seconds between polls at most when nothing can wake the worker."""
_HORIZON: Final = 60.0
_LAST_CLAIM: Final = 5.0
"""Seconds a claim under way is waited for when the worker stops."""


class Worker:
    """Claims and runs jobs until stopped; start and stop are safe to call twice."""

    def __init__(
        self,
        database: Database,
        handlers: Mapping[str, Handler],
        settings: Settings,
        options: WorkerOptions,
        *,
        upkeep: Callable[[News], Awaitable[None]] | None = None,
        random: Random | None = None,
        scope: Callable[[Collection[str]], AbstractAsyncContextManager[object]] | None = None,
        events: Events | None = None,
    ) -> None:
        """scope: entered with the kinds the worker serves before its first claim, left after its last job."""
        self.database, self.settings, self.options = database, settings, options
        self._handlers, self._upkeep = handlers, upkeep
        self._scope, self._events = scope, events or Events()
        self._scopes = contextlib.AsyncExitStack()
        self._random = random or Random()  # noqa: S311 - jitter, not secrets
        self.id = 0
        self.name = options.name or f"{socket.gethostname()}:{os.getpid()}"
        self.lanes: dict[str, Lane] = {}
        self.draining = False
        self.stopped = asyncio.Event()
        self._lanes_version = self._sweep_epoch = -1
        self._look = asyncio.Event()
        self._hurry = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._clock: tuple[datetime, float] | None = None
        """The database's clock at a moment of the loop's."""
        self._check_all = False
        self._doubts = 0
        """Rounds of disowning still to come because the answer to a claim was lost."""
        self._started = self._closing = False
        self._claiming: asyncio.Task[None] | None = None

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register and begin to claim. Waits while the database is away or its schema behind, and says so."""
        if self._started:
            return
        self._started = True
        self._loop = asyncio.get_running_loop()
        self._claims, self._finishes = Link(self.database, "claim"), Link(self.database, "finish")
        self._children = Children(self.options.origin, self.database.schema, _terms(self.settings))
        self._registration = Registration(
            self._claims, self._handlers, self.name, self.options, self._children.isolates
        )
        self._starting = self._loop.create_task(self._begin())
        try:
            await asyncio.wait({self._starting})
            if not self._starting.cancelled():
                self._starting.result()
        except BaseException:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
            await self._leave()
            raise

    async def _begin(self) -> None:
        await until_served(self.name, self._register)
        self._cursors = Cursors(self._loop.time)
        self._claimer = Claimer(self._claims, self.id, self._cursors, self._handlers.keys(), self._database_now)
        self._crew = Crew(
            self._finishes,
            self.id,
            self._handlers,
            random=self._random,
            patience=self.settings.stop_patience.total_seconds(),
            children=self._children,
            room=self._on_flushed,
            events=self._events,
        )
        self._waker = wake.Waker(self.database)
        self._listener = Listener(self.database, self._on_message, self._on_listening)
        self._beat = Beat(
            self.database,
            self.id,
            vitals=self._vitals,
            tell=self._tell,
            lag_limit=self.settings.lag_limit.total_seconds(),
            events=self._events,
        )
        await until_served(self.name, self._read_lanes)
        await until_served(self.name, self._read_pairs)
        if self._scope is not None:
            kinds = self._claimer.kinds() if self.options.claims else ()
            await self._scopes.enter_async_context(self._scope(kinds))
        self._crew.start()
        if self.settings.listen and not self.options.alone:
            self._listener.start()
        if not self.options.alone:
            self._beat.start(self._loop)
        if self.options.claims:
            self._claiming = self._spawn(self._claim_loop())
        if self._events.active:
            self._events.emit(WorkerStarted(self.id, self.name, sorted(self.lanes)))
        logger.info("worker %s started with lanes %s", self.name, ", ".join(sorted(self.lanes)) or "(none)")

    async def stop(self, *, after: float | None = None) -> None:
        """Drain: claim nothing more, let running jobs end for `after` seconds, return the rest to the queue."""
        if not self._started or self.draining or self.stopped.is_set():
            await self.stopped.wait() if self._started else None
            return
        self.draining = True
        self._look.set()
        if self._events.active:
            self._events.emit(WorkerDraining(self.id, self.name))
        if not self._starting.done():
            # Stopped while it waited for the database: nothing runs yet.
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
            await self._leave()
            return
        try:
            await self._drain(self.settings.shutdown_after.total_seconds() if after is None else after)
        finally:
            await self._close()

    async def _drain(self, patience: float) -> None:
        if self._claiming is not None:
            # A claim under way may bring jobs: they are given back, not forgotten.
            await asyncio.wait({self._claiming}, timeout=min(patience, _LAST_CLAIM))
        ended, hurried = asyncio.ensure_future(self._crew.ended()), asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({ended, hurried}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            hurried.cancel()
        returned = await self._crew.send_home(patience=5)
        if returned:
            logger.info("worker %s returned %d unfinished jobs: %s", self.name, len(returned), returned)
        if self._crew.returned:
            # They are due at once, and workers with free slots elsewhere may be asleep.
            self._waker.look()

    def hurry(self) -> None:
        """A second signal: do not wait for running jobs any longer."""
        self._hurry.set()

    async def run_by_id(self, job_id: int) -> bool:
        """Claim this one job through the ordinary guard and run it to its end; False: it is not claimable now."""
        if self.options.alone:
            await self._read_lanes()
        rows = await self._claims.fetch("job_kind", id=job_id)
        if not rows or rows[0]["kind"] not in self._handlers:
            return False
        lane = self._claimer.lane_of(rows[0]["kind"])
        if lane is None or not self.lanes[lane].enabled:
            message = (
                f"Job {job_id} belongs to lane {lane!r}, which is drained. Resume it with: rowlock lanes resume {lane}"
            )
            raise WrongState(message)
        try:
            claimed = await self._claimer.claim_one(job_id, lane)
            for row in claimed:
                self._crew.run(row)
        finally:
            self._claimer.in_flight = False
        for row in claimed:
            await self._crew.done_with(Claim(row["id"], row["fence"]))
        return bool(claimed)

    async def _close(self) -> None:
        # Those who spawn end first, then what they spawned.
        self._closing = True
        await self._crew.close()
        await self._listener.stop()
        await self._beat.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._leave_scope()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._waker.flush(), timeout=1)
        await self._leave()

    async def _leave_scope(self) -> None:
        try:
            await self._scopes.aclose()
        except Exception:
            # Every job has ended: what is left is to stop.
            logger.exception("worker %s: the end of a lifespan or dependency failed", self.name)

    async def _leave(self) -> None:
        await self._leave_scope()
        if self.id:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._finishes.fetch("worker_gone", worker=self.id), timeout=3)
        await self._claims.close()
        await self._finishes.close()
        self.stopped.set()
        if self._events.active:
            self._events.emit(WorkerStopped(self.id, self.name))
        logger.info("worker %s stopped", self.name)

    async def _register(self) -> None:
        self.id, now = await self._registration.enter(self.settings)
        self._clock = (now, self._loop.time())

    # --- what to claim -----------------------------------------------------------------------------------------------

    async def _read_lanes(self) -> None:
        rows = await lanes.read(self._claims)
        by_name = {lane.name: lane for lane in rows}
        wanted = sorted(by_name) if self.options.lanes is None else list(self.options.lanes)
        missing = [name for name in wanted if name not in by_name]
        if missing and not self.lanes:
            raise lanes.unknown_lane(missing[0], by_name)
        own = self.options.slots or {}
        before = self.lanes
        self.lanes = {
            name: replace(by_name[name], slots=own.get(name, by_name[name].slots)) for name in wanted if name in by_name
        }
        if self._events.active and before:
            for name in sorted(before.keys() | self.lanes.keys()):
                if before.get(name) != self.lanes.get(name):
                    self._events.emit(LaneChanged(name, self.lanes.get(name)))
        self._claimer.serve(self.lanes, rows)
        self._cursors.everywhere()
        self._look.set()

    async def _read_pairs(self) -> None:
        rows = await self._claims.fetch("pairs", kinds=list(self._handlers))
        heads = (((row["kind"], row["priority"], row["share"]), row["low_water"]) for row in rows)
        if self._cursors.publish(heads):
            self._look.set()
        self._look_again_at([row["next_at"] for row in rows if row["next_at"] is not None])

    async def _claim_loop(self) -> None:
        idle = _IDLE_FROM
        while not self.draining:
            self._look.clear()
            try:
                rows = await self._claim_and_run()
            except (DatabaseUnreachable, *TRANSIENT) as error:
                logger.warning("worker %s cannot claim: %s", self.name, error)
                await self._pause(BACKOFF[2] * (0.5 + self._random.random()))
                continue
            except Exception:
                # Whatever it was, a worker that stopped claiming in silence would be worse.
                logger.exception("worker %s cannot claim", self.name)
                await self._pause(BACKOFF[-1])
                continue
            if self._claimer.more:
                # There is more: the next claim is under way while the jobs of this one have their first turn.
                idle = _IDLE_FROM
                if all(self._crew.free(name, lane.slots) <= 0 for name, lane in self.lanes.items()):
                    await self._look.wait()
                continue
            idle = _IDLE_FROM if rows else min(idle * 2, self._poll_seconds())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), idle)

    async def _claim_and_run(self) -> list[Record]:
        free = {name: self._crew.free(name, lane.slots) for name, lane in self.lanes.items() if lane.enabled}
        wanted = {name: n for name, n in free.items() if n > 0}
        if not wanted:
            self._claimer.more = False
            return []
        try:
            rows = await self._claimer.claim(wanted)
            for row in rows:
                if self.draining:
                    self._crew.give_back(row)
                else:
                    self._crew.run(row)
        except BaseException:
            self._doubts = 2
            raise
        finally:
            self._claimer.in_flight = False
        return rows

    async def _pause(self, seconds: float) -> None:
        """Sleep, unless the worker is to stop."""
        until = self._loop.time() + seconds
        while not self.draining and (left := until - self._loop.time()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), left)
            self._look.clear()

    def _poll_seconds(self) -> float:
        """How long to sleep at most: the shortest lane's interval, or a second while late commits may come."""
        shortest = min((lane.poll_every.total_seconds() for lane in self.lanes.values() if lane.enabled), default=5.0)
        listening = self.settings.listen and self._listener.listening.is_set()
        return min(shortest, _POLL_ONLY) if not listening or self._cursors.lagging else shortest

    # --- what the worker hears ---------------------------------------------------------------------------------------

    def _on_message(self, message: dict[str, object]) -> None:
        lows = wake.heard(message)
        if lows is None:
            self._check_all = True
            self._beat.poke()
            return
        known = {pair: low for pair, low in lows.items() if pair[0] in self._handlers}
        for pair, low in known.items():
            self._cursors.lower(pair, low)
        if not lows:
            self._cursors.everywhere()
        self._look_again_at(known.values())
        if known or not lows:
            self._look.set()

    def _database_now(self) -> datetime | None:
        """The database's clock as far as known; never ahead of it."""
        if self._clock is None:
            return None
        now, at = self._clock
        return now + timedelta(seconds=self._loop.time() - at)

    def _look_again_at(self, moments: Iterable[datetime]) -> None:
        """For jobs due within a minute look again at that moment: no other message will come."""
        if self._clock is None:
            return
        now, at = self._clock
        for moment in moments:
            ahead = (moment - now).total_seconds() - (self._loop.time() - at)
            if 0 < ahead < _HORIZON:
                self._loop.call_later(ahead + 0.002, self._look.set)

    def _on_listening(self) -> None:
        # What was sent while nobody listened is unknown.
        self._cursors.everywhere()
        self._look.set()
        self._spawn(until_served(self.name, self._read_pairs))

    def _on_flushed(self, flushed: Flushed) -> None:
        self._look.set()
        if flushed.again_at is not None:
            self._look_again_at([flushed.again_at])
        if flushed.hooks:
            for pair, low in flushed.hooks:
                self._cursors.lower(pair, low)
            self._waker.wake(flushed.hooks)
        if flushed.promoted:
            # Parked jobs became queued here; workers with free slots elsewhere may be asleep.
            self._waker.look()

    def _vitals(self) -> Vitals:
        """Called in the beat's thread."""
        everything, self._check_all = self._check_all, False
        hungry = any(self._crew.free(name, lane.slots) > 0 for name, lane in list(self.lanes.items()))
        known = None if self._claimer.in_flight else self._crew.known()
        held = self._crew.held(self._loop.time(), everything=everything)
        return Vitals(hungry, self.draining, held, known, self._doubts > 0, self._crew.stuck)

    def _tell(self, news: News) -> None:
        """Called in the beat's thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._on_news, news)

    def _on_news(self, news: News) -> None:
        if self._closing:
            return
        self._doubts -= 1 if news.disowned and self._doubts else 0
        self._clock = (news.now, self._loop.time())
        if news.drain and not self.draining:
            self._ordered = self._loop.create_task(self.stop())  # not one of _tasks: stop() ends those
        for job_id in news.cancelled:
            self._crew.tell(job_id, "cancel")
        for claim in news.lost:
            self._crew.tell(claim.job_id, "lost", claim.fence)
        if not news.known:
            self._spawn(until_served(self.name, self._revive))
        if news.lanes_version != self._lanes_version:
            self._lanes_version = news.lanes_version
            self._spawn(until_served(self.name, self._read_lanes))
        if news.sweep_epoch != self._sweep_epoch:
            self._sweep_epoch = news.sweep_epoch
            self._spawn(until_served(self.name, self._read_pairs))
        # Without its row this worker's own jobs look like orphans: it comes back first.
        if news.due and news.known and self._upkeep is not None and not self.draining:
            self._spawn(self._keep_up(news))

    async def _keep_up(self, news: News) -> None:
        if self._upkeep is not None:
            await self._upkeep(news)

    async def _revive(self) -> None:
        await self._registration.revive(self.id)

    def _spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # Steps that _close() cancels may end in whatever their driver makes of it; nothing is lost with them.
        if not task.cancelled() and task.exception() is not None and not self._closing:
            logger.error("worker %s: a background step failed", self.name, exc_info=task.exception())
            # It may have been the reading of lanes or pairs: the next beat has it done again.
            self._lanes_version = self._sweep_epoch = -1


def _terms(settings: Settings) -> Terms:
    return Terms(
        patience=settings.stop_patience.total_seconds(),
        jobs=settings.child_jobs,
        memory=settings.child_memory,
        suspects=max(2, os.cpu_count() or 2),
        max_deaths=settings.max_losses,
    )
