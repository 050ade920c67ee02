"""Worker: composes claim, run and finish; hears wake-ups and beats; starts, drains and stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from random import Random
from typing import TYPE_CHECKING, Final

from rowlock.errors import WrongState
from rowlock.flow.claim.claimer import Claimer
from rowlock.flow.claim.cursors import Cursors
from rowlock.flow.claim.db_clock import Clock
from rowlock.flow.claim.due_timer import Alarm
from rowlock.flow.enqueue import wake
from rowlock.flow.executors.process_pool import Children, Terms
from rowlock.flow.worker.background import Steps
from rowlock.flow.worker.claim_loop import Rounds
from rowlock.flow.worker.fast_path import Chain
from rowlock.flow.worker.heartbeat import Beat, Holders, Vitals
from rowlock.flow.worker.loop_blocker import culprit
from rowlock.flow.worker.recycling import Wear
from rowlock.flow.worker.registration import Registration, served, until_served
from rowlock.flow.worker.slots import Crew
from rowlock.model.job import Claim
from rowlock.store import lanes
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.jobs import workers
from rowlock.store.jobs.claim import kind_of, read_pairs
from rowlock.store.notify import Listener
from rowlock.telemetry import Events, LaneChanged, WorkerDraining, WorkerStarted, WorkerStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from rowlock.errors import SchemaAhead
    from rowlock.flow.finish.finisher import Flushed
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.worker.heartbeat import News
    from rowlock.flow.worker.registration import WorkerOptions
    from rowlock.flow.worker.successor import Successor
    from rowlock.model.lane import Lane
    from rowlock.settings import Settings
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.worker")
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
        upkeep: Callable[[News], Coroutine[object, object, None]] | None = None,
        successor: Successor | None = None,
        random: Random | None = None,
        scope: Callable[[Collection[str]], AbstractAsyncContextManager[object]] | None = None,
        events: Events | None = None,
    ) -> None:
        """scope: entered with the kinds the worker serves before its first claim, left after its last job.

        successor: what can put a fresh process in this one's place.
        """
        self.database, self.settings, self.options = database, settings, options
        self._handlers, self._upkeep, self._successor = handlers, upkeep, successor
        self._scope, self._events = scope, events or Events()
        self._scopes = contextlib.AsyncExitStack()
        self._random = random or Random()  # noqa: S311 - jitter, not secrets
        self.id = 0
        self.name = options.name or f"{socket.gethostname()}:{os.getpid()}"
        self.lanes: dict[str, Lane] = {}
        self.draining = self.dismissed = False
        """dismissed: an operator has ordered it to drain, or it is outdated: not for these tables any more."""
        self.stopped = asyncio.Event()
        self._lanes_version = self._sweep_epoch = -1
        self._look, self._hurry = asyncio.Event(), asyncio.Event()
        self._check_all = self._started = self._closing = False
        self.outdated: SchemaAhead | None = None
        self._claiming: asyncio.Task[None] | None = None
        self._wear = Wear(settings, successor)

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register and begin to claim. Waits while the database is away or its schema behind, and says so."""
        if self._started:
            return
        self._started = True
        self._loop = asyncio.get_running_loop()
        self._clock, self._steps = Clock(self._loop.time), Steps(self._on_failed_step)
        self._alarm = Alarm(self._loop, self._clock, self._look)
        self._claims, self._finishes = (
            WorkerConnection(self.database, "claim"),
            WorkerConnection(self.database, "finish"),
        )
        self._children = Children(self.options.origin, self.settings, Terms.of(self.settings))
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
        self._claimer = Claimer(
            self._claims, self.id, self._cursors, self._handlers.keys(), self._clock.now, later=self._alarm.at
        )
        self._crew = Crew(
            self._finishes,
            self.id,
            self._handlers,
            random=self._random,
            patience=self.settings.stop_patience.total_seconds(),
            children=self._children,
            room=self._on_flushed,
            events=self._events,
            job_logs=self.settings.job_logs,
        )
        self._rounds = Rounds(
            self._claimer,
            self._crew,
            self._wear,
            name=self.name,
            lanes=lambda: self.lanes,
            wakeable=self._wakeable,
            look=self._look,
            random=self._random,
        )
        self._waker = wake.Waker(self.database)
        self._chain = Chain(
            *(self._claimer, self._crew, self._rounds, self._clock), spawn=self._steps.spawn, tell=self._tell_of
        )
        self._chain.on = self.options.claims
        self._listener = Listener(self.database, self._on_message, self._on_listening)
        self._beat = Beat(
            self.database,
            self.id,
            vitals=self._vitals,
            tell=self._tell,
            holders=self._holders,
            settings=self.settings,
            successor=self._successor,
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
            self._claiming = self._steps.spawn(self._rounds.run())
        if self._successor is not None:
            self._successor.entered(self.id)
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
        self._rounds.draining = True
        try:
            await self._drain(self.settings.shutdown_after.total_seconds() if after is None else after)
        finally:
            await self._close()

    async def _drain(self, patience: float) -> None:
        if self._claiming is not None:
            # A claim under way may bring jobs: they are given back, not forgotten.
            await asyncio.wait({self._claiming}, timeout=min(patience, _LAST_CLAIM))
        await self._chain.settled(min(patience, _LAST_CLAIM))
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

    def dismiss(self) -> None:
        """Drain and stop for good, by an operator's order or as outdated; `stopped` tells whoever runs this worker."""
        logger.info("worker %s was told to drain", self.name)
        self.dismissed = True
        self._leaving = self._loop.create_task(self.stop())  # not one of the steps: stop() ends those

    async def run_by_id(self, job_id: int) -> bool:
        """Claim this one job through the ordinary guard and run it to its end; False: it is not claimable now."""
        if self.options.alone:
            await self._read_lanes()
        kind = await kind_of(self._claims, job_id)
        if kind is None or kind not in self._handlers:
            return False
        lane = self._claimer.lane_of(kind)
        if lane is None or not self.lanes[lane].enabled:
            message = (
                f"Job {job_id} belongs to lane {lane!r}, which is drained. Resume it with: rowlock lanes resume {lane}"
            )
            raise WrongState(message)
        try:
            claimed = await self._claimer.claim_one(job_id, lane)
            self._crew.run(claimed)
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
        await self._steps.end()
        await self._leave_scope()
        await self._waker.flush(within=1)
        await self._leave()

    async def _leave_scope(self) -> None:
        try:
            await self._scopes.aclose()
        except Exception:  # every job has ended: what is left is to stop
            logger.exception("worker %s: the end of a lifespan or dependency failed", self.name)

    async def _leave(self) -> None:
        await self._leave_scope()
        if self.id:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(3):
                    await workers.leave(self._finishes, self.id)
        await asyncio.gather(self._claims.close(), self._finishes.close())
        self.stopped.set()
        if self._events.active:
            self._events.emit(WorkerStopped(self.id, self.name))
        logger.info("worker %s stopped", self.name)

    async def _register(self) -> None:
        self.id, now = await self._registration.enter(self.settings)
        self._clock.hear(now)

    # --- what to claim -----------------------------------------------------------------------------------------------

    async def _read_lanes(self) -> None:
        rows = await lanes.read(self._claims)
        before, self.lanes = self.lanes, served(rows, self.options, first=not self.lanes)
        if self._events.active and before:
            for name in sorted(before.keys() | self.lanes.keys()):
                if before.get(name) != self.lanes.get(name):
                    self._events.emit(LaneChanged(name, self.lanes.get(name)))
        self._claimer.serve(self.lanes, rows)
        self._cursors.everywhere()
        self._look.set()

    async def _read_pairs(self) -> None:
        rows = await read_pairs(self._claims, list(self._handlers))
        heads = (((row["kind"], row["priority"], row["share"]), row["low_water"]) for row in rows)
        if self._cursors.publish(heads):
            self._look.set()
        self._alarm.at([row["next_at"] for row in rows if row["next_at"] is not None])

    def _wakeable(self) -> bool:
        """Whether a message comes for every job; while late commits may come, none does."""
        return self.settings.listen and self._listener.listening.is_set() and not self._cursors.lagging

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
        self._alarm.at(known.values())
        if known or not lows:
            self._look.set()

    def _on_listening(self) -> None:
        # What was sent while nobody listened is unknown.
        self._cursors.everywhere()
        self._look.set()
        self._steps.spawn(until_served(self.name, self._read_pairs))

    def _on_flushed(self, flushed: Flushed) -> None:
        self._look.set()
        if flushed.again_at is not None:
            self._alarm.at([flushed.again_at])
        if flushed.hooks:
            self._tell_of(flushed.hooks)
        if flushed.released:
            self._chain.follow(flushed.released)
        if flushed.elsewhere is not None:
            self._waker.look_in(flushed.elsewhere.total_seconds())
        if flushed.promoted:
            # Parked jobs became queued here; workers with free slots elsewhere may be asleep.
            self._waker.look()

    def _tell_of(self, lows: Iterable[tuple[wake.Pair, datetime]]) -> None:
        """There are jobs here for anybody."""
        told = list(lows)
        for pair, low in told:
            self._cursors.lower(pair, low)
        self._waker.wake(told)
        self._look.set()

    def _vitals(self) -> Vitals:
        """Called in the beat's thread."""
        everything, self._check_all = self._check_all, False
        hungry = any(self._crew.free(name, lane.slots) > 0 for name, lane in list(self.lanes.items()))
        known = None if self._claimer.in_flight or self._chain.in_flight else self._crew.known()
        held = self._crew.held(self._loop.time(), everything=everything)
        return Vitals(hungry, self.draining, held, known, self._rounds.doubts > 0, self._crew.stuck)

    def _holders(self) -> Holders:
        """Called in the beat's thread, while the loop is blocked."""
        claim = culprit(self._loop)
        # Outside of any job's task (a callback, a signal handler) each job of this loop may be the one that set it up.
        suspects = self._crew.on_loop() if claim is None else [claim]
        return Holders(suspects, self._crew.write_over)

    def _tell(self, news: News) -> None:
        """Called in the beat's thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._on_news, news)

    def _on_news(self, news: News) -> None:
        if self._closing:
            return
        self._rounds.doubts -= 1 if news.disowned and self._rounds.doubts else 0
        self._clock.hear(news.now)
        self._wear.check(self._crew.stuck)
        self.outdated = self.outdated or self._registration.outdated(news.schema_since)
        if (news.drain or self.outdated) and not self.draining:
            self.dismiss()
        for job_id in news.cancelled:
            self._crew.tell(job_id, "cancel")
        for claim in news.lost:
            self._crew.tell(claim.job_id, "lost", claim.fence)
        if not news.known:
            self._steps.spawn(until_served(self.name, lambda: self._registration.revive(self.id)))
        if news.lanes_version != self._lanes_version:
            self._lanes_version = news.lanes_version
            self._steps.spawn(until_served(self.name, self._read_lanes))
        if news.sweep_epoch != self._sweep_epoch:
            self._sweep_epoch = news.sweep_epoch
            self._steps.spawn(until_served(self.name, self._read_pairs))
        # Without its row this worker's own jobs look like orphans: it comes back first.
        if news.due and news.known and self._upkeep is not None and not self.draining:
            self._steps.spawn(self._upkeep(news))

    def _on_failed_step(self, error: BaseException) -> None:
        logger.error("worker %s: a background step failed", self.name, exc_info=error)
        # It may have been the reading of lanes or pairs: the next beat has it done again.
        self._lanes_version = self._sweep_epoch = -1
