"""Slots: the attempts that run in this process. The claim takes a slot, the acknowledged outcome frees it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from rowlock.flow.executors.threads import HandlerThreads
from rowlock.flow.finish.finisher import PLAIN, Finisher, FlushResult, PendingWrite, RequeueWrite, write_for
from rowlock.flow.progress.job_logs import JobLogCapture
from rowlock.flow.progress.reporter import Reporter
from rowlock.flow.run.attempt import AttemptServices, RunningAttempt, on_loop
from rowlock.flow.run.outputs import StepOutputs
from rowlock.flow.worker.heartbeat import HeldReport
from rowlock.flow.worker.job_log_lines import JobLogLines
from rowlock.model import ids
from rowlock.model.job import Claim
from rowlock.model.outcome import NO_RESULT, Interrupted, Lost, Unreadable
from rowlock.model.progress import LOGS_OFF
from rowlock.telemetry import Events

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from random import Random

    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.executors.process_pool import ChildPool
    from rowlock.flow.finish.finisher import FinalWrite
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.run.attempt import AttemptRunner, StopReason
    from rowlock.model.hook import Hook
    from rowlock.model.lane import Lane
    from rowlock.model.outcome import Outcome
    from rowlock.set_aside import SetAside
    from rowlock.store.connections.worker_connection import WorkerConnection
    from rowlock.store.database import Record
    from rowlock.store.rows.jobs import Row
    from rowlock.telemetry import AttemptEvent

logger = logging.getLogger("rowlock.job")
_EAGER: Final = sys.version_info >= (3, 12)
_SOON_OVER: Final = 0.1
"""Seconds in which most handlers that are told to stop have stopped."""
_LONG_RUNNING: Final = 2.0
"""Seconds after which every beat checks a claim; a shorter job learns of a lost claim by its own last write."""


class Slots:
    """Runs claimed jobs and writes their outcomes."""

    def __init__(
        self,
        link: WorkerConnection,
        worker_id: int,
        handlers: Mapping[str, Handler],
        *,
        random: Random,
        patience: float,
        children: ChildPool,
        producer: Callable[[], Producer],
        on_flushed: Callable[[FlushResult], None],
        on_held: Callable[[], None] = lambda: None,
        events: Events | None = None,
        job_logs: int = LOGS_OFF,
        set_aside: SetAside | None = None,
    ) -> None:
        """patience: seconds a handler may take to stop; on_flushed: called whenever slots may be free again.

        on_held: called when held() has changed, so that others see it soon.
        """
        self._handlers, self._notify, self._patience = handlers, on_flushed, patience
        self._on_held = on_held
        self._children, self._log_lines = children, JobLogLines(events or Events())
        self._loop = asyncio.get_running_loop()
        self._finisher = Finisher(link, worker_id, self._on_flushed, set_aside)
        self._reporter = Reporter(
            link, worker_id, lambda claim: self.stop_attempts(claim.job_id, "lost", claim.fence), producer, set_aside
        )
        # By claim, not by job: a lost attempt may still run when this very process claims its job again.
        self._attempts: dict[Claim, RunningAttempt] = {}
        self._stuck: set[RunningAttempt] = set()
        self._threads = HandlerThreads()
        self._unflushed: set[Claim] = set()
        self._in_use: Counter[str] = Counter()
        self.returned = 0
        """Jobs given back to the queue, due at once."""
        self._stopping = asyncio.Event()
        self._log_capture = JobLogCapture(
            self._loop, job_logs, lambda row: self._attempts.get(Claim(row["id"], row["fence"]))
        )
        outputs = StepOutputs(link.database)
        self._services = AttemptServices(
            self._reporter, self._stopping, random, self._on_stop_requested, self._log_capture, outputs
        )
        self._empty = asyncio.Event()
        self._empty.set()

    def start(self) -> None:
        """Begin to write outcomes."""
        self._log_capture.open()
        self._finisher.start()

    def free(self, lane: str, slots: int) -> int:
        """Slots of a lane without a running job and without an unwritten outcome."""
        return slots - self._in_use[lane]

    def reserve(self, lane: str, slots: int) -> None:
        """Keep so many slots of a lane for a claim under way; a negative number gives them back."""
        self._in_use[lane] += slots

    def run(self, rows: Iterable[Record], began: float) -> None:
        """Give slots to claimed jobs and start them. began: loop time at which their claim was sent."""
        self.start_attempts(self.occupy(rows, began))

    def occupy(self, rows: Iterable[Record], began: float) -> list[RunningAttempt]:
        """Give slots to claimed jobs; start_attempts() starts them. began: as of run()."""
        now = self._loop.time()
        attempts = []
        for row in rows:
            attempt = RunningAttempt(row, self._handlers[row["kind"]], self._services, now)
            if attempt.claim in self._attempts or attempt.claim in self._unflushed:
                self._drop_older(attempt.claim)
            self._attempts[attempt.claim] = attempt
            self._in_use[row["lane"]] += 1
            attempts.append(attempt)
        if attempts:
            self._empty.clear()
            self._log_lines.claimed(attempts, now - began)
        return attempts

    def _drop_older(self, claim: Claim) -> None:
        """End the older attempt of a claim that came twice: the server has lost the commit of the first claim."""
        logger.warning(
            "the database has given job %s out again under fence %d: it has lost commits; the run before is dropped",
            ids.encode(claim.job_id),
            claim.fence,
        )
        self._finisher.forget(claim)
        older = self._attempts.get(claim)
        if older is not None:
            self._log_lines.lost(older)
            older.stop("lost")
            self._keep_slot(older)
            self._on_outcome(older, Lost())

    def start_attempts(self, attempts: Iterable[RunningAttempt]) -> None:
        """Call the handlers, but not of attempts that were given back since occupy()."""
        logs = self._log_lines.wanted
        for attempt in attempts:
            if attempt.over:
                continue
            row = attempt.row
            if logs:
                self._log_lines.started(row)
            coroutine = attempt.run(self._place(attempt.handler, row), self._on_outcome)
            if _EAGER:
                # A handler that does not suspend never becomes a scheduled task.
                attempt.task = asyncio.Task(coroutine, loop=self._loop, eager_start=True)  # type: ignore[call-arg]  # 3.12+
            else:
                attempt.task = self._loop.create_task(coroutine)

    def _place(self, handler: Handler, row: Row) -> AttemptRunner:
        if row["losses"] and self._children.isolates(handler):
            return self._children.run_alone
        match handler.kind.executor:
            case "loop":
                return on_loop
            case "thread":
                return self._threads.run
            case "process":
                return self._children.run

    @property
    def stuck(self) -> int:
        """Slots of handlers that do not end although their attempts were stopped."""
        return len(self._stuck)

    def held(self) -> list[HeldReport]:
        """Slots whose handlers go on although their claims are over; called in the beat's thread."""
        now = self._loop.time()
        lost = [attempt for attempt in list(self._attempts.values()) if attempt.reason == "lost"]
        return [
            HeldReport(one.row["id"], one.row["kind"], one.row["lane"], round(now - (one.stopped_at or now), 1))
            # An attempt that is just being given up is in both.
            for one in dict.fromkeys((*lost, *list(self._stuck)))
        ]

    def stuck_lanes(self, lanes: Mapping[str, Lane]) -> list[str]:
        """Lanes in which nothing can run any more: every slot is held by a handler that does not end."""
        stuck = Counter(attempt.row["lane"] for attempt in self._stuck)
        return sorted(name for name, n in stuck.items() if name in lanes and n >= lanes[name].slots)

    def give_back(self, row: Record) -> None:
        """Return a claimed job that is not to be started here any more."""
        self._in_use[row["lane"]] += 1
        self._log_lines.given_back(row)
        self._finish(Claim(row["id"], row["fence"]), write_for(Interrupted("shutdown")), row["lane"])

    def stop_attempts(self, job_id: int, reason: StopReason, fence: int | None = None) -> None:
        """Stop the running attempts of a job, or only the one with that fence."""
        for claim, attempt in list(self._attempts.items()):
            if claim.job_id != job_id or fence not in (None, claim.fence) or attempt.reason == reason:
                continue
            if reason == "lost":
                self._log_lines.lost(attempt)
            attempt.stop(reason)

    def claims_to_check(self, now: float, *, everything: bool) -> list[Claim]:
        """Claims of long-running attempts, or of all; called in the beat's thread, hence the copy."""
        return [
            claim
            for claim, attempt in list(self._attempts.items())
            if everything or now - attempt.since > _LONG_RUNNING
        ]

    def runs_any_of(self, job_ids: Collection[int]) -> bool:
        """Whether an attempt of one of these jobs runs here."""
        return any(claim.job_id in job_ids for claim in self._attempts)

    def known_jobs(self) -> list[int]:
        """Jobs that run here or whose outcome is not written yet; called in the beat's thread."""
        return [*(claim.job_id for claim in list(self._attempts)), *(claim.job_id for claim in list(self._unflushed))]

    def claims_on_loop(self) -> list[Claim]:
        """Claims whose handlers run on the event loop; called in the beat's thread."""
        attempts = list(self._attempts.items())
        return [claim for claim, attempt in attempts if self._place(attempt.handler, attempt.row) is on_loop]

    async def write_over(self, link: WorkerConnection) -> None:
        """Write the outcomes that wait, over another connection; called in the beat's thread."""
        await self._finisher.write_over(link)

    async def wait_until_idle(self) -> None:
        """Wait until no attempt runs."""
        await self._empty.wait()

    async def wait_for(self, claim: Claim) -> None:
        """Wait until the attempt has ended and its outcome is written."""
        attempt = self._attempts.get(claim)
        if attempt is not None and attempt.task is not None:
            await asyncio.wait([attempt.task])
        if claim in self._unflushed:
            await self._finisher.drained()

    async def interrupt(self, patience: float) -> list[int]:
        """Interrupt all attempts and wait for them and for their outcomes; returns the ids of their jobs."""
        self._stopping.set()
        left = list(self._attempts.values())
        for attempt in left:
            attempt.stop("shutdown")
        tasks = [attempt.task for attempt in left if attempt.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        for attempt in list(self._attempts.values()):
            # Its job goes back all the same, and the fence refuses every later write of the handler.
            logger.warning(
                "%s %s does not end; its job is returned without it",
                attempt.handler.name,
                ids.encode(attempt.row["id"]),
            )
            self._on_outcome(attempt, Lost() if attempt.reason == "lost" else Interrupted("shutdown"))
        try:
            async with asyncio.timeout(patience):
                await self._finisher.drained()
        except TimeoutError:
            logger.warning(
                "outcomes were not written in time; their jobs are run again after the heartbeat timeout: %s",
                ids.listed(sorted(claim.job_id for claim in self._unflushed)),
            )
        return [attempt.row["id"] for attempt in left]

    async def close(self) -> None:
        """End threads and children, and stop writing progress and outcomes."""
        self._log_capture.close()
        self._threads.close()
        await self._children.close()
        await self._reporter.close()
        await self._finisher.stop()

    def _on_stop_requested(self, attempt: RunningAttempt) -> None:
        # A child process is killed after that time and needs a moment more; its slot is never stuck.
        in_child = self._place(attempt.handler, attempt.row) in (self._children.run, self._children.run_alone)
        if attempt.reason == "lost":
            # Its job has ended or runs elsewhere, so only this worker knows that its slot is taken.
            self._loop.call_later(_SOON_OVER, self._report_if_running, attempt)
        self._loop.call_later(self._patience * 2 + 5 if in_child else self._patience, self._abandon, attempt)

    def _report_if_running(self, attempt: RunningAttempt) -> None:
        if not attempt.over:
            self._on_held()

    def _abandon(self, attempt: RunningAttempt) -> None:
        """End the attempt of a handler that does not end; the fence refuses every later write of it.

        The handler keeps its slot, as it keeps its memory and connections; the slot counts as stuck until it ends.
        """
        if attempt.over or attempt.task is None:
            return
        self._log_lines.stuck(attempt, self._patience)
        self._keep_slot(attempt)
        self._on_outcome(attempt, attempt.stopped())

    def _keep_slot(self, attempt: RunningAttempt) -> None:
        """Count the slot as used and stuck until the handler ends."""
        if attempt.task is not None:
            self._in_use[attempt.row["lane"]] += 1
            self._stuck.add(attempt)
            attempt.task.add_done_callback(lambda _: self._unstuck(attempt))
            self._on_held()

    def _unstuck(self, attempt: RunningAttempt) -> None:
        self._stuck.discard(attempt)
        self._in_use[attempt.row["lane"]] -= 1
        self._notify(FlushResult())
        self._on_held()

    def _on_outcome(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        if attempt.over:
            return
        attempt.over = True
        claim = attempt.claim
        del self._attempts[claim]
        write = PLAIN if outcome is NO_RESULT else write_for(outcome)
        event = None
        if write is not PLAIN or self._log_lines.wanted:
            event = self._log_lines.ended(attempt, write, self._loop.time() - attempt.since)
        self._finish(claim, write, attempt.row["lane"], attempt.handler.kind.hooks, event)
        if isinstance(outcome, Unreadable):
            self._log_lines.unreadable(attempt, outcome)
        if not self._attempts:
            self._empty.set()

    def _finish(
        self,
        claim: Claim,
        write: FinalWrite | RequeueWrite | None,
        lane: str,
        hooks: Mapping[str, Hook] | None = None,
        event: AttemptEvent | None = None,
    ) -> None:
        if write is None:
            self._in_use[lane] -= 1
            self._log_lines.emit(event)
            self._notify(FlushResult())
        else:
            self._unflushed.add(claim)
            self._finisher.finish(PendingWrite(claim, write, lane, hooks, event))

    def _on_flushed(self, flushed: FlushResult) -> None:
        for write in (*flushed.accepted, *flushed.refused):
            self._in_use[write.lane] -= 1
            self._unflushed.discard(write.claim)
        self.returned += sum(
            isinstance(pending.write, RequeueWrite) and not pending.write.delay and pending.write.signal is None
            for pending in flushed.accepted
        )
        self._log_lines.flushed(flushed)
        self._notify(flushed)
