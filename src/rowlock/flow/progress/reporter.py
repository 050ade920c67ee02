"""Progress: what handlers report, coalesced and written under their claims.

A flush is one statement for the counters of all jobs with news, and one each for lines and items, if there are any.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.bridge import Bridge
from rowlock.errors import ClaimLost, DatabaseError, InvalidResult
from rowlock.flow.enqueue.producer import Producer
from rowlock.flow.locks.process_locks import room_of
from rowlock.flow.progress.report import LOG_BYTES, LOG_LINES, Report
from rowlock.model.job import Claim
from rowlock.model.redact import storable
from rowlock.outage_log import OutageLog
from rowlock.store.database import TRANSIENT, UNSTORABLE
from rowlock.store.jobs import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock.flow.enqueue.workflow_growth import Growing
    from rowlock.flow.enqueue.workflow_insert import WorkflowReceipt
    from rowlock.flow.locks.process_locks import Room
    from rowlock.flow.progress.report import ItemKey, Moved, News
    from rowlock.model.progress import LogLine
    from rowlock.store.connections.worker_connection import WorkerConnection
    from rowlock.store.queries import Statements

logger = logging.getLogger("rowlock.progress")
EVERY: Final = 1.0
"""Seconds between two writes of one job's progress."""
LARGEST: Final = 1000
"""Rows of one statement: outcomes are written over the same connection and must not wait for long."""
_TRIMMED: Final = 0.9
"""What is left of a log's limit when it was cut."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The news of a report on their way, and who waits for them."""

    report: Report
    news: News
    saved: list[asyncio.Future[None]]

    @classmethod
    def of(cls, report: Report) -> Taken:
        """Take what there is."""
        saved, report.saved, report.writing = report.saved, [], True
        return cls(report, report.take(), saved)


class Reporter:
    """Writes the reports of one worker: at most one flush a second, however many jobs and calls."""

    def __init__(self, link: WorkerConnection, worker_id: int, lost: Callable[[Claim], None]) -> None:
        self._link, self._worker_id, self._lost = link, worker_id, lost
        self._dirty: dict[Claim, Report] = {}
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._producer: Producer | None = None
        self._outage = OutageLog(logger, "progress waits for the database", "progress is written again")

    def note(self, report: Report) -> None:
        """Remember that this report has news; it is written within a second."""
        if self._closed:
            message = f"Job {report.claim.job_id} was returned to the queue; nothing this attempt reports is kept."
            raise ClaimLost(message)
        report.dirty = True
        self._dirty[report.claim] = report
        self._wanted.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rowlock-progress")

    async def save(self, report: Report) -> None:
        """Write this report now and wait for it; ClaimLost when the claim is gone."""
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.note(report)
        report.saved.append(saved)
        self._urgent.set()
        await saved

    @property
    def statements(self) -> Statements:
        """The named statements, for those that run in the user's own transaction."""
        return self._link.database.statements

    @property
    def locks(self) -> Room:
        """Who gets locks."""
        return room_of(self._link.database)

    async def load(self, claim: Claim) -> str | None:
        """The checkpoint of a job, encoded; None: there is none."""
        return await progress.read_checkpoint(self._link.database, claim.job_id)

    async def cursors(self, claim: Claim) -> dict[str, int]:
        """How far the loops of earlier attempts came, by name."""
        return await progress.read_cursors(self._link.database, claim.job_id)

    async def keep_items(self, report: Report, phase: str, *, resume: bool) -> list[str]:
        """The items of the phase that earlier attempts finished and this one need not do; they count as its own."""
        # The job's progress row must be this attempt's before items are counted in it.
        await self.save(report)
        return await progress.keep_items(self._link.database, report.claim, phase=phase, resume=resume)

    async def signal(self, claim: Claim, name: str) -> str | None:
        """The signal of that name as JSON; None: none has come."""
        received = await progress.read_signal(self._link.database, claim, name)
        if received is None:
            message = f"Job {claim.job_id} is not this attempt's any more; it waits for nothing."
            raise ClaimLost(message)
        return received.value

    async def step_name(self, claim: Claim) -> str | None:
        """The name of the job's step; None: it is of no workflow."""
        return await progress.step_name(self._link.database, claim.job_id)

    async def grow(self, producer: Producer | None, growing: Growing) -> WorkflowReceipt:
        """Add steps to a workflow; those that were made in a child are written by a producer of this worker's own."""
        if producer is None:
            producer = self._producer = self._producer or Producer(lambda: self._link.database, Bridge())
        from rowlock.flow.enqueue.workflow_growth import write  # noqa: PLC0415 - few jobs add steps to a workflow

        return await write(producer, growing)

    async def flush(self) -> None:
        """Write everything noted so far; also waits for what is being written."""
        async with self._turn:
            reports = sorted(self._dirty.values(), key=lambda report: report.claim)
            self._dirty = {}
            taken = [Taken.of(report) for report in reports]
            if taken:
                await self._write(taken)

    async def _write(self, taken: Sequence[Taken]) -> None:
        try:
            kept = await self._write_counters(taken)
            held = [one for one in taken if one.report.claim in kept]
            await self._write_logs(held)
            lost = await self._write_items(held)
        except UNSTORABLE as error:
            await self._one_by_one(taken, error)
            return
        except BaseException:
            self._put_back(taken)
            raise
        for one in taken:
            self._answer(one, kept=one.report.claim in kept - lost)

    async def _write_counters(self, taken: Sequence[Taken]) -> set[Claim]:
        return await progress.report(
            self._link,
            worker=self._worker_id,
            ids=[one.report.claim.job_id for one in taken],
            fences=[one.report.claim.fence for one in taken],
            phases=[one.news.phase and storable(one.news.phase) for one in taken],
            progress=[one.news.progress() for one in taken],
            passed=[one.news.passed() for one in taken],
            checkpoints=[one.news.checkpoint for one in taken],
            cursors=[json.dumps(one.news.cursors) if one.news.cursors else None for one in taken],
        )

    async def _write_logs(self, held: Sequence[Taken]) -> None:
        lines = [(one.report.claim, line) for one in held for line in one.news.lines]
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

    async def _write_items(self, held: Sequence[Taken]) -> set[Claim]:
        moves = [(one.report.claim, key, moved) for one in held for key, moved in one.news.items.items()]
        lost = set[Claim]()
        for start in range(0, len(moves), LARGEST):
            lost |= await self._write_moves(moves[start : start + LARGEST])
        return lost

    async def _write_moves(self, moves: Sequence[tuple[Claim, ItemKey, Moved]]) -> set[Claim]:
        """Write items; returns the claims that turned out to be lost."""
        numbers = {target: no for no, target in enumerate(dict.fromkeys((key[0], by) for by, key, _ in moves), 1)}
        reached = await progress.write_items(
            self._link,
            ids=[of.job_id for of, _ in numbers],
            fences=[of.fence for of, _ in numbers],
            by_ids=[by.job_id for _, by in numbers],
            by_fences=[by.fence for _, by in numbers],
            targets=[numbers[key[0], by] for by, key, _ in moves],
            phases=[phase for _, (_, phase, _), _ in moves],
            names=[name for _, (_, _, name), _ in moves],
            states=[moved.state for _, _, moved in moves],
            started=[moved.started_at for _, _, moved in moves],
            ended=[moved.ended_at for _, _, moved in moves],
            reasons=[moved.reason for _, _, moved in moves],
            errors=[moved.error for _, _, moved in moves],
        )
        missed = [target for target, no in numbers.items() if no not in reached]
        for of, by in missed:
            if of != by:
                logger.info("job %d: the attempt of job %d whose items it had is over", by.job_id, of.job_id)
        return {by for of, by in missed if of == by}

    def _put_back(self, taken: Sequence[Taken]) -> None:
        """Keep unwritten news, with those who wait for them."""
        for one in taken:
            one.report.put_back(one.news)
            one.report.saved = one.saved + one.report.saved
            one.report.writing = False
            self._dirty.setdefault(one.report.claim, one.report)
        self._wanted.set()

    async def _one_by_one(self, taken: Sequence[Taken], error: Exception) -> None:
        """One bad report never fails its neighbours; alone it is dropped, and whoever waits for it is told."""
        if len(taken) > 1:
            for n, one in enumerate(taken, 1):
                try:
                    await self._write([one])
                except BaseException:
                    self._put_back(taken[n:])
                    raise
            return
        (one,) = taken
        logger.error("the progress of job %d cannot be stored: %s", one.report.claim.job_id, error)
        one.report.writing = False
        for future in one.saved:
            if not future.done():
                future.set_exception(InvalidResult(f"What was saved cannot be stored: {error}"))

    def _answer(self, one: Taken, *, kept: bool) -> None:
        claim = one.report.claim
        one.report.writing = False
        if not kept:
            self._lost(claim)
        for future in one.saved:
            if future.done():
                continue
            if kept:
                future.set_result(None)
            else:
                future.set_exception(
                    ClaimLost(f"Job {claim.job_id} is not this attempt's any more; nothing was saved.")
                )

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
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
        """Stop writing; what is unwritten is dropped, as its jobs are over or given back."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
