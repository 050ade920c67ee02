"""Crew: the attempts running in this process and the slots they take, from claim to acknowledged finish."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from rowlock.flow.executors.threads import Threads
from rowlock.flow.finish.finisher import PLAIN, Finished, Finisher, Flushed, Returned, write_of
from rowlock.flow.progress.job_logs import LogBook
from rowlock.flow.progress.reporter import Reporter
from rowlock.flow.run.attempt import Attempt, Surroundings, on_loop
from rowlock.flow.run.outputs import Outputs
from rowlock.flow.worker.job_log_lines import Teller
from rowlock.model.job import Claim
from rowlock.model.outcome import NO_RESULT, Interrupted, Lost, Unreadable
from rowlock.model.progress import LOGS_OFF
from rowlock.telemetry import Events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from random import Random

    from rowlock.flow.executors.process_pool import Children
    from rowlock.flow.finish.finisher import Ended
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.run.attempt import Place, Reason
    from rowlock.model.hook import Hook
    from rowlock.model.outcome import Outcome
    from rowlock.store.connections.worker_connection import WorkerConnection
    from rowlock.store.database import Record
    from rowlock.store.rows.jobs import Row
    from rowlock.telemetry import AttemptEvent

logger = logging.getLogger("rowlock.job")
_EAGER: Final = sys.version_info >= (3, 12)
_LONG_RUNNING: Final = 2.0
"""Seconds after which a claim is checked with every beat: a job that ends sooner finds out by its own last write."""


class Crew:
    """Runs claimed jobs and writes their outcomes. `room` is called when a slot is free again."""

    def __init__(
        self,
        link: WorkerConnection,
        worker_id: int,
        handlers: Mapping[str, Handler],
        *,
        random: Random,
        patience: float,
        children: Children,
        room: Callable[[Flushed], None],
        events: Events | None = None,
        job_logs: int = LOGS_OFF,
    ) -> None:
        """patience: seconds a handler that was told to stop may take before its job goes on without it."""
        self._handlers, self._room, self._patience = handlers, room, patience
        self._children, self._teller = children, Teller(events or Events())
        self._loop = asyncio.get_running_loop()
        self._finisher = Finisher(link, worker_id, self._on_flushed)
        self._reporter = Reporter(link, worker_id, lambda claim: self.tell(claim.job_id, "lost", claim.fence))
        # By claim, not by job: a lost attempt may still run when this very process claims its job anew.
        self._attempts: dict[Claim, Attempt] = {}
        self._stuck: set[Attempt] = set()
        self._threads = Threads()
        self._unflushed: set[Claim] = set()
        self._in_use: Counter[str] = Counter()
        self.returned = 0
        """Jobs given back to the queue, due at once."""
        self._stopping = asyncio.Event()
        self._book = LogBook(self._loop, job_logs, lambda row: self._attempts.get(Claim(row["id"], row["fence"])))
        outputs = Outputs(link.database)
        self._around = Surroundings(self._reporter, self._stopping, random, self._told_to_stop, self._book, outputs)
        self._empty = asyncio.Event()
        self._empty.set()

    def start(self) -> None:
        """Begin to write outcomes."""
        self._book.open()
        self._finisher.start()

    def free(self, lane: str, slots: int) -> int:
        """Slots of a lane that neither run a job nor wait for its flush."""
        return slots - self._in_use[lane]

    def reserve(self, lane: str, slots: int) -> None:
        """Keep so many slots of a lane for a claim under way; a negative number gives them back."""
        self._in_use[lane] += slots

    def run(self, rows: Iterable[Record]) -> None:
        """Start claimed jobs."""
        self.begin(self.take(rows))

    def take(self, rows: Iterable[Record]) -> list[Attempt]:
        """Take over claimed jobs and their slots; begin() starts them."""
        now = self._loop.time()
        taken = []
        for row in rows:
            attempt = Attempt(row, self._handlers[row["kind"]], self._around, now)
            if attempt.claim in self._attempts or attempt.claim in self._unflushed:
                self._disinherit(attempt.claim)
            self._attempts[attempt.claim] = attempt
            self._in_use[row["lane"]] += 1
            taken.append(attempt)
        if taken:
            self._empty.clear()
        return taken

    def _disinherit(self, claim: Claim) -> None:
        """The server has given out twice what this process holds: it has forgotten the first time, which ends here."""
        logger.warning(
            "the database has given job %d out again under fence %d: it has lost commits; the run before is dropped",
            *claim,
        )
        self._finisher.forget(claim)
        older = self._attempts.get(claim)
        if older is not None:
            self._teller.lost(older)
            older.stop("lost")
            self._keep_slot(older)
            self._on_outcome(older, Lost())

    def begin(self, attempts: Iterable[Attempt]) -> None:
        """Start what was taken; what was given back over its head meanwhile is left alone."""
        speaks = self._teller.speaks
        for attempt in attempts:
            if attempt.over:
                continue
            row = attempt.row
            if speaks:
                self._teller.started(row)
            coroutine = attempt.run(self._place(attempt.handler, row), self._on_outcome)
            if _EAGER:
                # A handler that does not suspend never becomes a scheduled task.
                attempt.task = asyncio.Task(coroutine, loop=self._loop, eager_start=True)  # type: ignore[call-arg]  # 3.12+
            else:
                attempt.task = self._loop.create_task(coroutine)

    def _place(self, handler: Handler, row: Row) -> Place:
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
        """Slots held by handlers that were told to stop, did not, and whose jobs went on without them."""
        return len(self._stuck)

    def give_back(self, row: Record) -> None:
        """Return a claimed job that is not to be started here any more."""
        self._in_use[row["lane"]] += 1
        self._teller.given_back(row)
        self._hand_over(Claim(row["id"], row["fence"]), write_of(Interrupted("shutdown")), row["lane"])

    def tell(self, job_id: int, reason: Reason, fence: int | None = None) -> None:
        """Stop the attempts of a job that still run here (or the one with that fence)."""
        for claim, attempt in list(self._attempts.items()):
            if claim.job_id != job_id or fence not in (None, claim.fence) or attempt.reason == reason:
                continue
            if reason == "lost":
                self._teller.lost(attempt)
            attempt.stop(reason)

    def held(self, now: float, *, everything: bool) -> list[Claim]:
        """Claims to be checked; called from the beat's thread, hence the copy."""
        return [
            claim
            for claim, attempt in list(self._attempts.items())
            if everything or now - attempt.since > _LONG_RUNNING
        ]

    def known(self) -> list[int]:
        """Every job this process has anything to do with; called from the beat's thread."""
        return [*(claim.job_id for claim in list(self._attempts)), *(claim.job_id for claim in list(self._unflushed))]

    def on_loop(self) -> list[Claim]:
        """Claims whose handlers run on the loop; called from the beat's thread."""
        attempts = list(self._attempts.items())
        return [claim for claim, attempt in attempts if self._place(attempt.handler, attempt.row) is on_loop]

    async def write_over(self, link: WorkerConnection) -> None:
        """Write the outcomes that wait, over another connection; called from the beat's thread."""
        await self._finisher.write_over(link)

    async def ended(self) -> None:
        """Wait until no attempt runs."""
        await self._empty.wait()

    async def done_with(self, claim: Claim) -> None:
        """Wait until this process has nothing to do with the claim any more: it ran and its outcome is written."""
        attempt = self._attempts.get(claim)
        if attempt is not None and attempt.task is not None:
            await asyncio.wait([attempt.task])
        if claim in self._unflushed:
            await self._finisher.drained()

    async def send_home(self, patience: float) -> list[int]:
        """Interrupt what still runs and wait for it and for the last flush; returns the jobs that were interrupted."""
        self._stopping.set()
        left = list(self._attempts.values())
        for attempt in left:
            attempt.stop("shutdown")
        tasks = [attempt.task for attempt in left if attempt.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        for attempt in list(self._attempts.values()):
            # A handler that will not end: its job goes back all the same, and the fence refuses whatever it still does.
            logger.warning(
                "%s %s does not end; its job is returned over its head", attempt.handler.name, attempt.row["id"]
            )
            self._on_outcome(attempt, Lost() if attempt.reason == "lost" else Interrupted("shutdown"))
        try:
            async with asyncio.timeout(patience):
                await self._finisher.drained()
        except TimeoutError:
            logger.warning("outcomes were not written in time; their jobs are run again after the stale timeout")
        return [attempt.row["id"] for attempt in left]

    async def close(self) -> None:
        """Write nothing more."""
        self._book.close()
        self._threads.close()
        await self._children.close()
        await self._reporter.close()
        await self._finisher.stop()

    def _told_to_stop(self, attempt: Attempt) -> None:
        # A child, of a suspect too, is killed after that time and needs a moment more; its slot is never stuck.
        in_child = self._place(attempt.handler, attempt.row) in (self._children.run, self._children.run_alone)
        self._loop.call_later(self._patience * 2 + 5 if in_child else self._patience, self._abandon, attempt)

    def _abandon(self, attempt: Attempt) -> None:
        """A handler that will not end: its job goes on without it, the fence refuses whatever it still does.

        It keeps its slot, as it keeps whatever it uses; the slot counts as stuck until it ends.
        """
        if attempt.over or attempt.task is None:
            return
        self._teller.stuck(attempt, self._patience)
        self._keep_slot(attempt)
        self._on_outcome(attempt, attempt.stopped())

    def _keep_slot(self, attempt: Attempt) -> None:
        """Until the handler has ended."""
        if attempt.task is not None:
            self._in_use[attempt.row["lane"]] += 1
            self._stuck.add(attempt)
            attempt.task.add_done_callback(lambda _: self._unstuck(attempt))

    def _unstuck(self, attempt: Attempt) -> None:
        self._stuck.discard(attempt)
        self._in_use[attempt.row["lane"]] -= 1
        self._room(Flushed())

    def _on_outcome(self, attempt: Attempt, outcome: Outcome) -> None:
        if attempt.over:
            return
        attempt.over = True
        claim = attempt.claim
        del self._attempts[claim]
        write = PLAIN if outcome is NO_RESULT else write_of(outcome)
        event = self._teller.ended(attempt, write, self._loop.time() - attempt.since) if self._teller.speaks else None
        self._hand_over(claim, write, attempt.row["lane"], attempt.handler.kind.hooks, event)
        if isinstance(outcome, Unreadable):
            self._teller.puzzled(attempt, outcome)
        if not self._attempts:
            self._empty.set()

    def _hand_over(
        self,
        claim: Claim,
        write: Ended | Returned | None,
        lane: str,
        hooks: Mapping[str, Hook] | None = None,
        event: AttemptEvent | None = None,
    ) -> None:
        if write is None:
            self._in_use[lane] -= 1
            self._teller.heard(event)
            self._room(Flushed())
        else:
            self._unflushed.add(claim)
            self._finisher.finish(Finished(claim, write, lane, hooks, event))

    def _on_flushed(self, flushed: Flushed) -> None:
        for finished in (*flushed.accepted, *flushed.lost):
            self._in_use[finished.lane] -= 1
            self._unflushed.discard(finished.claim)
        self.returned += sum(
            isinstance(finished.write, Returned) and not finished.write.delay and finished.write.signal is None
            for finished in flushed.accepted
        )
        self._teller.flushed(flushed)
        self._room(flushed)
