"""Worker: composes claim, run and finish; acts on messages and on the answers to its beats; starts and drains."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from random import Random
from typing import TYPE_CHECKING, Final, assert_never

from rowlock.errors import JobNotFound, WorkerFailed, WrongState
from rowlock.flow.claim.claimer import Claimer
from rowlock.flow.claim.cursors import Cursors
from rowlock.flow.claim.db_clock import DatabaseClock
from rowlock.flow.claim.due_timer import DueTimer
from rowlock.flow.enqueue.wake import Waker
from rowlock.flow.executors.child_limits import ChildLimits
from rowlock.flow.executors.process_pool import ChildPool
from rowlock.flow.kinds.handler import find_handler
from rowlock.flow.worker.background import BackgroundTasks
from rowlock.flow.worker.chain_fast_path import FastPath
from rowlock.flow.worker.claim_loop import ClaimLoop
from rowlock.flow.worker.health import HUNG_AFTER, SignsOfLife, WorkerHealth, WorkerPhase
from rowlock.flow.worker.heartbeat import EVERY, BeatReport, Heartbeat
from rowlock.flow.worker.memory import MemoryGauge
from rowlock.flow.worker.recycling import Recycling
from rowlock.flow.worker.registration import Registration, served, until_served
from rowlock.flow.worker.slots import Slots
from rowlock.flow.worker.watchdog import LoopSuspects, Watchdog, claim_on_loop
from rowlock.keep_running import keep_running
from rowlock.model import ids
from rowlock.model.job import Claim
from rowlock.model.notify_messages import (
    AwaitedEnds,
    CancelRequested,
    ClaimsRevoked,
    DrainRequested,
    LanesEdited,
    LockReleased,
    SchedulesEdited,
    WakeUp,
)
from rowlock.model.queue_pair import pair_of
from rowlock.set_aside import SetAside
from rowlock.store import lanes
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.jobs import workers
from rowlock.store.jobs.claim import kind_of, read_pairs
from rowlock.store.notify import NotificationListener
from rowlock.telemetry import Events, LaneChanged, WorkerDraining, WorkerStarted, WorkerStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from rowlock.errors import SchemaAhead
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.enqueue.wake import CarrierWaker
    from rowlock.flow.finish.finisher import FlushResult
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.worker.heartbeat import CompletedBeat
    from rowlock.flow.worker.process_replacement import ProcessReplacement
    from rowlock.flow.worker.registration import WorkerOptions
    from rowlock.model.lane import Lane
    from rowlock.model.notify_messages import Message
    from rowlock.model.queue_pair import Pair, PairStart
    from rowlock.settings import Settings
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.worker")
_FINISH_LOCK_WAIT: Final = 0.5
"""Seconds that outcomes wait for a lock before the row that is held is set aside."""
_HUNGRY_EVERY: Final = 0.1
"""Seconds between two early beats of a worker that is full and idle by turns; meanwhile it polls."""
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
        producer: Callable[[], Producer],
        upkeep: Callable[[CompletedBeat], Coroutine[object, object, None]] | None = None,
        replacement: ProcessReplacement | None = None,
        random: Random | None = None,
        scope: Callable[[Collection[str]], AbstractAsyncContextManager[object]] | None = None,
        events: Events | None = None,
        set_aside: SetAside | None = None,
        outbox: CarrierWaker | None = None,
        carried: Callable[[str, str], bool] = lambda _kind, _lane: False,
    ) -> None:
        """scope: entered with the kinds that the worker serves before its first claim, left after its last job.

        upkeep: called with the answer to each beat that names due duties; replacement: None inside another program.
        producer: writes the steps that jobs in child processes add to their workflows.
        set_aside: the jobs that upkeep has set aside, to which those of this worker are added.
        outbox, carried: tells carriers of jobs, and whether one brings the jobs of a kind in a lane.
        """
        self.set_aside = SetAside(logger) if set_aside is None else set_aside
        database.warnings.note_in(self.set_aside)
        self.database, self.settings, self.options = database, settings, options
        self._handlers, self._upkeep, self._replacement = handlers, upkeep, replacement
        self._outbox, self._carried = outbox, carried
        self._scope, self._events, self._producer = scope, events or Events(), producer
        self._scopes = contextlib.AsyncExitStack()
        self._random = random or Random()  # noqa: S311 - jitter, not secrets
        self.id = 0
        self.name = options.name or f"{socket.gethostname()}:{os.getpid()}"
        self.lanes: dict[str, Lane] = {}
        self.draining = self.dismissed = False
        """dismissed: an operator has ordered it to drain, or it is outdated: not for these tables any more."""
        self.stopped = asyncio.Event()
        self._lanes_version = self._sweep_epoch = self._lanes_read = -1
        """lanes_read: the version that run_by_id() has read; the beat notes the newest before it is read."""
        self._claim_now, self._hurry = asyncio.Event(), asyncio.Event()
        self._check_all = self._started = self._closing = False
        self._hungry, self._hungry_again = True, 0.0
        """Whether the last beat reported a free slot, and the loop time from which an early beat may say so again."""
        self.outdated: SchemaAhead | None = None
        self.failure: WorkerFailed | None = None
        """Why the worker left by itself: a part of it failed for good, and its process must be replaced."""
        self._claiming: asyncio.Task[None] | None = None
        self._recycling, self._memory, self._signs = Recycling(settings, replacement), MemoryGauge(), SignsOfLife()

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register and begin to claim. While the database is away or its schema behind it waits, and logs why."""
        if self._started:
            return
        self._started = True
        self._loop = asyncio.get_running_loop()
        self._clock, self._background = DatabaseClock(self._loop.time), BackgroundTasks(self._on_task_failure)
        self._due_timer = DueTimer(self._loop, self._clock, self._claim_now)
        self._claims = WorkerConnection(self.database, "claim")
        self._finishes = WorkerConnection(self.database, "finish", lock_wait=_FINISH_LOCK_WAIT)
        self._children = ChildPool(self.options.origin, self.settings, ChildLimits.of(self.settings))
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
        self._build()
        await until_served(self.name, self._read_lanes)
        await until_served(self.name, self._read_pairs)
        if self._scope is not None:
            kinds = self._claimer.kinds() if self.options.claims else ()
            await self._scopes.enter_async_context(self._scope(kinds))
        self._slots.start()
        if self.settings.listen and not self.options.alone:
            self._listener.start()
        if not self.options.alone:
            self._heartbeat.start(self._loop)
        if self.options.claims:
            self._claiming = self._background.spawn(keep_running("claim", self._claim_loop.run, logger))
        if self._replacement is not None:
            self._replacement.registered(self.id)
        if self._events.active:
            self._events.emit(WorkerStarted(self.id, self.name, sorted(self.lanes)))
        logger.info("worker %s started with lanes %s", self.name, ", ".join(sorted(self.lanes)) or "(none)")

    def _build(self) -> None:
        """Make the parts, which need the worker's id."""
        self._build_claims()
        self._build_waking()
        self._build_heartbeat()

    def _build_claims(self) -> None:
        """Make what claims jobs, and the slots that they run in."""
        self._cursors = Cursors(self._loop.time)
        self._claimer = Claimer(
            self._claims,
            self.id,
            self._cursors,
            self._handlers.keys(),
            self._clock.now,
            later=self._due_timer.at,
            set_aside=self.set_aside,
            carried=self._carried,
        )
        self._slots = Slots(
            self._finishes,
            self.id,
            self._handlers,
            random=self._random,
            patience=self.settings.stop_patience.total_seconds(),
            children=self._children,
            producer=self._producer,
            on_flushed=self._on_flushed,
            on_held=self._report_now,
            events=self._events,
            job_logs=self.settings.job_logs,
            set_aside=self.set_aside,
        )
        self._claim_loop = ClaimLoop(
            self._claimer,
            self._slots,
            self._recycling,
            name=self.name,
            lanes=lambda: self.lanes,
            wakeable=self._wakeable,
            claim_now=self._claim_now,
            random=self._random,
            on_idle=self._report_hungry,
        )

    def _build_waking(self) -> None:
        """Make what tells this worker and others of new jobs."""
        self._waker = Waker(self.database, self._outbox)
        self._fast_path = FastPath(
            *(self._claimer, self._slots, self._claim_loop, self._clock),
            spawn=self._background.spawn,
            announce=self._announce,
        )
        self._fast_path.enabled = self.options.claims
        self._listener = NotificationListener(self.database, self._on_message, self._on_listening)

    def _build_heartbeat(self) -> None:
        """Make the heartbeat, and the watchdog that looks after the event loop beside it."""
        watchdog = Watchdog(
            self.database,
            self.id,
            suspects=self._loop_suspects,
            settings=self.settings,
            replacement=self._replacement,
            events=self._events,
            signs=self._signs,
        )
        self._heartbeat = Heartbeat(
            self.database,
            self.id,
            report=self._beat_report,
            on_beat=self._pass_beat,
            watchdog=watchdog,
            on_death=self._on_heartbeat_death,
            signs=self._signs,
        )

    @property
    def has_stuck_handlers(self) -> bool:
        """Whether handlers were told to stop and go on."""
        return bool(self.id and self._slots.held())

    async def stop(self, *, after: float | None = None) -> None:
        """Drain: claim nothing more, let running jobs end for `after` seconds, return the rest to the queue."""
        if not self._started or self.draining or self.stopped.is_set():
            await self.stopped.wait() if self._started else None
            return
        self.draining = True
        self._claim_now.set()
        if self._events.active:
            self._events.emit(WorkerDraining(self.id, self.name))
        if not self._starting.done():
            # Stopped while it waited for the database: nothing runs yet.
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
            await self._leave()
            return
        self._claim_loop.draining = True
        try:
            await self._drain(self.settings.shutdown_after.total_seconds() if after is None else after)
        finally:
            await self._close()

    async def _drain(self, patience: float) -> None:
        if self._claiming is not None:
            # A claim under way may bring jobs: they are given back, not forgotten.
            await asyncio.wait({self._claiming}, timeout=min(patience, _LAST_CLAIM))
        await self._fast_path.wait_for_claims(min(patience, _LAST_CLAIM))
        ended, hurried = asyncio.ensure_future(self._slots.wait_until_idle()), asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({ended, hurried}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            hurried.cancel()
        returned = await self._slots.interrupt(patience=5)
        if returned:
            logger.info("worker %s returned %d unfinished jobs: %s", self.name, len(returned), ids.listed(returned))
        if self._slots.returned:
            # They are due at once, and workers with free slots elsewhere may be asleep.
            self._waker.look()

    def hurry(self) -> None:
        """Do not wait for running jobs any longer; called after a second signal."""
        self._hurry.set()

    def dismiss(self) -> None:
        """Drain and stop for good, by an operator's order or as outdated; the owner of the worker awaits `stopped`."""
        logger.info("worker %s was told to drain", self.name)
        self.dismissed = True
        self._leaving = self._loop.create_task(self.stop())  # not in the background tasks: stop() cancels those

    async def run_by_id(self, job_id: int) -> bool:
        """Claim one job through the ordinary guard and run it to its end; False: it is not claimable now.

        WrongState: its lane is drained, or this worker is. UnknownKind: the code here does not declare its kind.
        """
        found = await kind_of(self._claims, job_id)
        if found is None:
            raise JobNotFound(f"There is no job {ids.encode(job_id)}. Finished jobs are removed after their retention.")
        find_handler(self._handlers, found.kind)
        if self.draining or self.stopped.is_set() or self.options.upkeep_only:
            raise WrongState(f"Job {ids.encode(job_id)} was not run: worker {self.name} runs no jobs (any more).")
        # A kind without a lane may have been declared since the lanes were read.
        if found.lanes_version != self._lanes_read or self._claimer.lane_of(found.kind) is None:
            await self._read_lanes()
            self._lanes_read = found.lanes_version
        lane = self._claimer.lane_of(found.kind)
        if lane is None or not self.lanes[lane].enabled:
            raise WrongState(_not_served(job_id, found.kind, lane))
        began = self._loop.time()
        with self._claimer.in_flight.sending():
            claimed = await self._claimer.claim_one(job_id, lane)
            self._slots.run(claimed, began)
        for row in claimed:
            await self._ended(Claim(row["id"], row["fence"]))
        return bool(claimed)

    async def _ended(self, claim: Claim) -> None:
        """Wait for the end of an attempt. If the caller is cancelled meanwhile, its job goes back to the queue."""
        try:
            await self._slots.wait_for(claim)
        except asyncio.CancelledError:
            self._slots.stop_attempts(claim.job_id, "shutdown", claim.fence)
            raise

    async def _close(self) -> None:
        # First the parts that start background tasks, then the tasks.
        self._closing = True
        await self._slots.close()
        await self._listener.stop()
        await self._heartbeat.stop()
        await self._background.close()
        await self._leave_scope()
        await self._waker.flush(within=1)
        await self._leave()

    async def _leave_scope(self) -> None:
        try:
            await self._scopes.aclose()
        except Exception:  # every job has ended; the worker stops all the same
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
        self._clock.set(now)

    def health(self, now: float) -> WorkerHealth:
        """How this worker is, for probes. now: of the monotonic clock; may be called in any thread."""
        if self.stopped.is_set():
            return WorkerHealth(WorkerPhase.DRAINED, 0, not_ready="it has finished draining")
        hung = self._signs.hung(now, self.settings.blocked_limit or HUNG_AFTER)
        begun = self._signs.answered_at is not None
        running = len(self._slots.known_jobs()) if begun else 0
        if self.draining:
            return WorkerHealth(WorkerPhase.DRAINING, running, hung, "it drains")
        not_ready = self._signs.unanswered(now, 3 * EVERY)
        if not_ready is None and self.options.claims and not self.lanes:
            not_ready = "it serves no lane"
        return WorkerHealth(WorkerPhase.RUNNING if begun else WorkerPhase.STARTING, running, hung, not_ready)

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
        self._claim_now.set()

    async def _read_pairs(self) -> None:
        rows = await read_pairs(self._claims, list(self._handlers))
        heads = ((pair_of(row), row["low_water"]) for row in rows)
        if self._cursors.publish(heads):
            self._claim_now.set()
        self._due_timer.at([row["next_at"] for row in rows if row["next_at"] is not None])

    def _wakeable(self) -> bool:
        """Whether a message comes for every job. While late commits may come, none comes for those."""
        return self.settings.listen and self._listener.listening.is_set() and not self._cursors.lagging

    # --- messages, flushes and beats ---------------------------------------------------------------------------------

    def _on_message(self, message: Message) -> None:
        """Beat at once if the message concerns this worker: the answer to the beat says what to do."""
        match message:
            case WakeUp(starts):
                self._on_wake_up(starts)
            case CancelRequested(job_ids) | ClaimsRevoked(job_ids):
                # The answer to a claim under way may bring one of these jobs.
                if self._claimer.in_flight or self._slots.runs_any_of(job_ids):
                    self._check_all = True
                    self._heartbeat.beat_now()
            case DrainRequested(worker_ids):
                if worker_ids is None or self.id in worker_ids:
                    self._heartbeat.beat_now()
            case LanesEdited():
                self._heartbeat.beat_now()
            case SchedulesEdited():
                if self._upkeep is not None:
                    self._heartbeat.beat_now()
            case AwaitedEnds() | LockReleased():
                pass
            case _:
                assert_never(message)

    def _on_wake_up(self, starts: Mapping[Pair, datetime]) -> None:
        if self._outbox is not None:
            # Sent by a process that does not deliver, such as a transaction whose commit nobody saw.
            self._outbox.note(starts.items()) if starts else self._outbox.look_soon()
        if not starts:
            self._cursors.everywhere()
            self._claim_now.set()
            return
        # Of kinds of other lanes, too: an edit may bring them here, and their cursors must be low by then.
        known = {pair: start for pair, start in starts.items() if pair[0] in self._handlers}
        for pair, start in known.items():
            self._cursors.lower(pair, start)
        if here := [start for pair, start in known.items() if self._claimer.lane_of(pair[0]) is not None]:
            self._due_timer.at(here)
            self._claim_now.set()

    def _on_listening(self) -> None:
        # Messages sent while the listener was away are lost.
        self._cursors.everywhere()
        self._claim_now.set()
        self._background.spawn(until_served(self.name, self._read_pairs))

    def _on_flushed(self, flushed: FlushResult) -> None:
        self._claim_now.set()
        if flushed.again_at is not None:
            self._due_timer.at([flushed.again_at])
            if self._outbox is not None:
                self._outbox.look_in(self._clock.seconds_until(flushed.again_at))
        elif self._outbox is not None and any(lane.is_careful for lane in self.lanes.values()):
            # A place in a lane with a limit is free for the next message.
            self._outbox.look_soon()
        if flushed.hooks:
            self._announce(flushed.hooks)
        if flushed.released:
            self._fast_path.follow(flushed.released)
        if flushed.elsewhere is not None:
            self._waker.look_in(flushed.elsewhere.total_seconds())
        if flushed.promoted:
            # Parked jobs became queued here; workers with free slots elsewhere may be asleep.
            self._waker.look()

    def _announce(self, starts: Iterable[PairStart]) -> None:
        """Wake every worker, this one included, for new jobs of these pairs."""
        starts = list(starts)
        for pair, start in starts:
            self._cursors.lower(pair, start)
        self._waker.wake(starts)
        self._claim_now.set()

    def _beat_report(self) -> BeatReport:
        """The state of this worker; called in the heartbeat's thread."""
        everything, self._check_all = self._check_all, False
        hungry = self._wants_messages()
        in_flight = self._claimer.in_flight
        known = None if in_flight else self._slots.known_jobs()
        claims = self._slots.claims_to_check(self._loop.time(), everything=everything)
        stuck, held, self._hungry = self._slots.stuck, self._slots.held(), hungry
        aside = self.set_aside.report()
        return BeatReport(
            hungry, self.draining, claims, known, in_flight.answer_lost, stuck, aside, held, self._memory.bytes()
        )

    def _wants_messages(self) -> bool:
        """Whether it is worth to wake this worker: it can claim a job, or tell a carrier of one."""
        if not self.options.claims:
            return self.options.upkeep_only and self._outbox is not None
        return any(self._slots.free(name, lane.slots) > 0 for name, lane in list(self.lanes.items()))

    def _report_hungry(self) -> None:
        """Beat at once if the last beat said that no slot is free: until the next one nobody would wake this worker."""
        now = self._loop.time()
        if not self._hungry and now >= self._hungry_again:
            self._hungry_again = now + _HUNGRY_EVERY
            self._heartbeat.beat_now()

    def _report_now(self) -> None:
        self._heartbeat.beat_now()

    def _loop_suspects(self) -> LoopSuspects:
        """The claims that may block the loop; called in the heartbeat's thread, while the loop is blocked."""
        claim = claim_on_loop(self._loop)
        # Outside of any job's task (a callback, a signal handler) each job of this loop may have set that up.
        suspects = self._slots.claims_on_loop() if claim is None else [claim]
        return LoopSuspects(suspects, self._slots.write_over)

    def _pass_beat(self, beat: CompletedBeat) -> None:
        """Pass the beat to the worker's loop; called in the heartbeat's thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._on_beat, beat)

    def _on_heartbeat_death(self, error: Exception) -> None:
        """Leave in order; called in the heartbeat's thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._fail, error)

    def _fail(self, error: Exception) -> None:
        if self._closing or self.draining:
            return
        logger.critical("worker %s leaves: its heartbeat does not start any more: %s", self.name, error)
        self.failure = WorkerFailed(f"The heartbeat of worker {self.name} failed for good: {error!r}.")
        self._leaving = self._loop.create_task(self.stop())

    def _on_beat(self, beat: CompletedBeat) -> None:
        if self._closing:
            return
        if beat.disowned:
            self._claimer.in_flight.checked()
        self._clock.set(beat.now)
        self._recycling.check(self._slots.stuck, self._slots.stuck_lanes(self.lanes))
        self.outdated = self.outdated or self._registration.outdated(beat.schema_since)
        if (beat.drain or self.outdated) and not self.draining:
            self.dismiss()
        for job_id in beat.cancelled:
            self._slots.stop_attempts(job_id, "cancel")
        for claim in beat.lost:
            self._slots.stop_attempts(claim.job_id, "lost", claim.fence)
        if not beat.known:
            self._background.spawn(until_served(self.name, lambda: self._registration.revive(self.id)))
        if beat.lanes_version != self._lanes_version:
            self._lanes_version = beat.lanes_version
            self._background.spawn(until_served(self.name, self._read_lanes))
        if beat.sweep_epoch != self._sweep_epoch:
            self._sweep_epoch = beat.sweep_epoch
            self._background.spawn(until_served(self.name, self._read_pairs))
        # Without its row this worker's own jobs look like orphans: it comes back first.
        if (beat.due or self._outbox is not None) and beat.known and self._upkeep is not None and not self.draining:
            self._background.spawn(self._upkeep(beat))

    def _on_task_failure(self, error: BaseException) -> None:
        logger.error("worker %s: a background task failed", self.name, exc_info=error)
        # It may have been the reading of lanes or pairs: the next beat has it done again.
        self._lanes_version = self._sweep_epoch = -1


def _not_served(job_id: int, kind: str, lane: str | None) -> str:
    if lane is None:
        return f"Job {ids.encode(job_id)} was not run: no lane has the kind {kind!r}, and none has '*'."
    hint = f"Resume it with: rowlock lanes resume {lane}"
    return f"Job {ids.encode(job_id)} belongs to lane {lane!r}, which is drained. {hint}"
