"""Reporter: writes the progress reports of a worker's attempts, coalesced and under their claims.

A flush is one statement for the counters of all changed reports, and one each for log lines and items if there are
any.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rowlock.errors import ClaimLost, DatabaseError, InvalidResult
from rowlock.flow.claim.refused_rows import RefusedRows
from rowlock.flow.locks.process_locks import locks_of
from rowlock.flow.progress.report import LOG_BYTES, LOG_LINES, ProgressReport
from rowlock.keep_running import keep_running
from rowlock.model import ids
from rowlock.model.job import Claim
from rowlock.model.redact import storable
from rowlock.outage_log import OutageLog
from rowlock.set_aside import SetAside
from rowlock.store.database import RACES, TRANSIENT, UNSERVED, UNSTORABLE
from rowlock.store.jobs import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.enqueue.workflow_additions import WorkflowAddition
    from rowlock.flow.enqueue.workflow_insert import WorkflowReceipt
    from rowlock.flow.locks.process_locks import LoopLocks
    from rowlock.flow.progress.report import ItemKey, ItemUpdate, ReportSnapshot
    from rowlock.model.progress import LogLine
    from rowlock.store.connections.worker_connection import WorkerConnection
    from rowlock.store.queries import Statements

logger = logging.getLogger("rowlock.progress")
EVERY: Final = 1.0
"""Seconds between two writes of one job's progress."""
LARGEST: Final = 1000
"""Rows per statement: outcomes are written over the same connection and must not wait for long."""
_STEP: Final = "progress"
"""The step of a job's life that log lines and reports name."""
_TRIMMED: Final = 0.9
"""The share of its limit that a job's log is trimmed to."""


@dataclass(frozen=True, slots=True)
class PendingReport:
    """A snapshot on its way to the database, and the futures to resolve when it is written."""

    report: ProgressReport
    snapshot: ReportSnapshot
    waiters: list[asyncio.Future[None]]

    @classmethod
    def of(cls, report: ProgressReport) -> PendingReport:
        """Take a snapshot of the report and its waiters."""
        waiters, report.waiters, report.writing = report.waiters, [], True
        return cls(report, report.snapshot(), waiters)


class Reporter:
    """The AttemptChannel of a worker: at most one flush a second, however many jobs and calls."""

    def __init__(
        self,
        link: WorkerConnection,
        worker_id: int,
        on_lost: Callable[[Claim], None],
        producer: Callable[[], Producer],
        set_aside: SetAside | None = None,
    ) -> None:
        """on_lost: called with a claim that turned out to be lost. producer: writes the steps a child process adds.

        set_aside: where jobs are noted whose progress the database does not take now.
        """
        self._refused = RefusedRows[int](SetAside(logger) if set_aside is None else set_aside, time.monotonic)
        self._link, self._worker_id, self._on_lost, self._producer = link, worker_id, on_lost, producer
        self._dirty: dict[Claim, ProgressReport] = {}
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._outage = OutageLog(logger, "progress waits for the database", "progress is written again")

    def note(self, report: ProgressReport) -> None:
        """Mark this report as changed; it is written within a second."""
        if self._closed:
            message = (
                f"Job {ids.encode(report.claim.job_id)} was returned to the queue; nothing it reports now is stored."
            )
            raise ClaimLost(message)
        report.dirty = True
        self._dirty[report.claim] = report
        self._changed.set()
        if self._task is None:
            writing = keep_running("progress", self._run, logger)
            self._task = asyncio.get_running_loop().create_task(writing, name="rowlock-progress")

    async def save(self, report: ProgressReport) -> None:
        """Write this report now and wait until it is committed; ClaimLost without the claim."""
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.note(report)
        report.waiters.append(saved)
        self._urgent.set()
        await saved

    @property
    def statements(self) -> Statements:
        """The named SQL statements, for those that run in the user's own transaction."""
        return self._link.database.statements

    @property
    def locks(self) -> LoopLocks:
        """The locks of the running loop."""
        return locks_of(self._link.database)

    async def load_checkpoint(self, claim: Claim) -> str | None:
        """The checkpoint as JSON text; None: nothing was saved."""
        return await progress.read_checkpoint(self._link.database, claim.job_id)

    async def load_cursors(self, claim: Claim) -> dict[str, int]:
        """By the name of a ctx.resume() loop: how many of its elements earlier attempts have done."""
        return await progress.read_cursors(self._link.database, claim.job_id)

    async def keep_items(self, report: ProgressReport, phase: str, *, resume: bool) -> list[str]:
        """The names of the items that earlier attempts finished; they are counted as this attempt's."""
        # The job's progress row must be this attempt's before items are counted in it.
        await self.save(report)
        return await progress.keep_items(self._link.database, report.claim, phase=phase, resume=resume)

    async def read_signal(self, claim: Claim, name: str) -> str | None:
        """The signal of that name as JSON text {payload, timed_out}; None: not sent yet."""
        received = await progress.read_signal(self._link.database, claim, name)
        if received is None:
            message = (
                f"This attempt does not hold job {ids.encode(claim.job_id)} any more; it cannot wait for a signal."
            )
            raise ClaimLost(message)
        return received.value

    async def step_name(self, claim: Claim) -> str | None:
        """The name of the job's workflow step; None: the job is in no workflow."""
        return await progress.step_name(self._link.database, claim.job_id)

    async def add_steps(self, producer: Producer | None, addition: WorkflowAddition) -> WorkflowReceipt:
        """Add steps to the job's workflow. producer: the one that prepared them; None: a child process did."""
        from rowlock.flow.enqueue.workflow_additions import write  # noqa: PLC0415 - few jobs add steps to a workflow

        return await write(producer or self._producer(), addition)

    async def flush(self) -> None:
        """Write every report that has changed, and wait for the flush under way."""
        async with self._flushing:
            later = frozenset(self._refused.passed_over(_STEP)) if _STEP in self._refused else frozenset[int]()
            dirty = sorted(self._dirty.values(), key=lambda report: report.claim)
            reports = [report for report in dirty if report.claim.job_id not in later]
            self._dirty = {report.claim: report for report in dirty if report.claim.job_id in later}
            if self._dirty:
                self._changed.set()
            writes = [PendingReport.of(report) for report in reports]
            if writes:
                await self._write(writes)

    async def _write(self, writes: Sequence[PendingReport]) -> None:
        try:
            kept = await self._write_counters(writes)
            held = [one for one in writes if one.report.claim in kept]
            await self._write_logs(held)
            lost = await self._write_items(held)
        except UNSTORABLE as error:
            await self._one_by_one(writes, error)
            return
        except (*UNSERVED, *RACES):
            self._put_back(writes)
            raise
        except Exception as error:  # noqa: BLE001 - one row may be to blame
            await self._apart(writes, error)
            return
        except BaseException:
            self._put_back(writes)
            raise
        for one in writes:
            self._conclude(one, kept=one.report.claim in kept - lost)
        if _STEP in self._refused:
            self._refused.written(_STEP, [one.report.claim.job_id for one in writes])

    async def _write_counters(self, writes: Sequence[PendingReport]) -> set[Claim]:
        return await progress.report(
            self._link,
            worker=self._worker_id,
            ids=[one.report.claim.job_id for one in writes],
            fences=[one.report.claim.fence for one in writes],
            phases=[one.snapshot.phase and storable(one.snapshot.phase) for one in writes],
            progress=[one.snapshot.progress_json() for one in writes],
            passed=[one.snapshot.phases_json() for one in writes],
            checkpoints=[one.snapshot.checkpoint for one in writes],
            cursors=[json.dumps(one.snapshot.cursors) if one.snapshot.cursors else None for one in writes],
        )

    async def _write_logs(self, held: Sequence[PendingReport]) -> None:
        lines = [(one.report.claim, line) for one in held for line in one.snapshot.lines]
        for start in range(0, len(lines), LARGEST):
            await self._write_lines(lines[start : start + LARGEST])

    async def _write_lines(self, lines: Sequence[tuple[Claim, LogLine]]) -> None:
        claims = list(dict.fromkeys(claim for claim, _ in lines))
        grown = await progress.write_logs(
            self._link,
            ids=[claim.job_id for claim in claims],
            fences=[claim.fence for claim in claims],
            line_ids=[claim.job_id for claim, _ in lines],
            numbers=[line.n for _, line in lines],
            moments=[line.at for _, line in lines],
            levels=[line.level for _, line in lines],
            loggers=[line.logger for _, line in lines],
            messages=[line.message for _, line in lines],
        )
        for log in grown:
            if log.lines > LOG_LINES or log.bytes > LOG_BYTES:
                most, size = int(LOG_LINES * _TRIMMED), int(LOG_BYTES * _TRIMMED)
                await progress.trim_log(self._link, log.job_id, lines=most, size=size)

    async def _write_items(self, held: Sequence[PendingReport]) -> set[Claim]:
        updates = [(one.report.claim, key, update) for one in held for key, update in one.snapshot.items.items()]
        lost = set[Claim]()
        for start in range(0, len(updates), LARGEST):
            lost |= await self._write_updates(updates[start : start + LARGEST])
        return lost

    async def _write_updates(self, updates: Sequence[tuple[Claim, ItemKey, ItemUpdate]]) -> set[Claim]:
        """Write items; returns the claims that turned out to be lost."""
        numbers = {target: no for no, target in enumerate(dict.fromkeys((key[0], by) for by, key, _ in updates), 1)}
        reached = await progress.write_items(
            self._link,
            ids=[of.job_id for of, _ in numbers],
            fences=[of.fence for of, _ in numbers],
            by_ids=[by.job_id for _, by in numbers],
            by_fences=[by.fence for _, by in numbers],
            targets=[numbers[key[0], by] for by, key, _ in updates],
            phases=[phase for _, (_, phase, _), _ in updates],
            names=[name for _, (_, _, name), _ in updates],
            states=[update.state for _, _, update in updates],
            started=[update.started_at for _, _, update in updates],
            ended=[update.ended_at for _, _, update in updates],
            reasons=[update.reason for _, _, update in updates],
            errors=[update.error for _, _, update in updates],
        )
        missed = [target for target, no in numbers.items() if no not in reached]
        for of, by in missed:
            if of != by:
                logger.info(
                    "job %s reported items of job %s, whose attempt is over", *map(ids.encode, (by.job_id, of.job_id))
                )
        return {by for of, by in missed if of == by}

    def _put_back(self, writes: Sequence[PendingReport]) -> None:
        """Keep snapshots that could not be written, and their waiters, for the next flush."""
        for one in writes:
            one.report.restore(one.snapshot)
            one.report.waiters = one.waiters + one.report.waiters
            one.report.writing = False
            self._dirty.setdefault(one.report.claim, one.report)
        self._changed.set()

    async def _apart(self, writes: Sequence[PendingReport], error: Exception) -> None:
        """Write each alone, so that a row that is held or refused keeps no other one; it is tried again later."""
        if len(writes) == 1:
            (one,) = writes
            self._put_back(writes)
            self._refused.refused(_STEP, one.report.claim.job_id, error)
            return
        for n, one in enumerate(writes, 1):
            try:
                await self._write([one])
            except BaseException:
                self._put_back(writes[n:])
                raise

    async def _one_by_one(self, writes: Sequence[PendingReport], error: Exception) -> None:
        """Write each alone, so that a bad report fails no other one; it is dropped, and its waiters raise."""
        if len(writes) > 1:
            for n, one in enumerate(writes, 1):
                try:
                    await self._write([one])
                except BaseException:
                    self._put_back(writes[n:])
                    raise
            return
        (one,) = writes
        # The encoding of the database may lack a character.
        plain = one.snapshot.in_ascii()
        if plain != replace(one.snapshot, lines=list(one.snapshot.lines)):
            await self._write([replace(one, snapshot=plain)])
            return
        logger.error("the progress of job %s cannot be stored: %s", ids.encode(one.report.claim.job_id), error)
        one.report.writing = False
        for future in one.waiters:
            if not future.done():
                future.set_exception(InvalidResult(f"The checkpoint cannot be stored: {error}"))

    def _conclude(self, one: PendingReport, *, kept: bool) -> None:
        claim = one.report.claim
        one.report.writing = False
        if not kept:
            self._on_lost(claim)
        for future in one.waiters:
            if future.done():
                continue
            if kept:
                future.set_result(None)
            else:
                future.set_exception(
                    ClaimLost(f"This attempt does not hold job {ids.encode(claim.job_id)} any more; nothing was saved.")
                )

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.flush()
                self._outage.recovered()
            except (DatabaseError, *TRANSIENT) as error:
                self._outage.failed(error)
            except Exception as error:  # noqa: BLE001 - handlers wait for their checkpoints, so this loop never ends
                self._outage.failed(error, unforeseen=True)
            try:
                async with asyncio.timeout(EVERY):
                    await self._urgent.wait()
            except TimeoutError:
                continue
            self._urgent.clear()

    async def close(self) -> None:
        """Stop writing. Unwritten reports are dropped: their jobs are over or back in the queue."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
