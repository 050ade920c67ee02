"""Progress: what handlers report, coalesced and written under their claims."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rowlock.errors import ClaimLost, DatabaseUnreachable, InvalidResult
from rowlock.model.redact import storable
from rowlock.store.database import UNSTORABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.model.job import Claim
    from rowlock.store.link import Link
    from rowlock.store.queries import Statements

logger = logging.getLogger("rowlock.progress")
EVERY: Final = 1.0
"""Seconds between two writes of one job's progress."""
_MESSAGE_CHARACTERS: Final = 500


@dataclass(slots=True, eq=False)
class Report:
    """The newest news of one job; written is what the database has."""

    claim: Claim
    phase: str | None = None
    done: float = 0
    total: float | None = None
    message: str | None = None
    checkpoint: str | None = None
    dirty: bool = False
    saved: list[asyncio.Future[None]] = field(default_factory=list)

    def progress(self) -> str:
        """The counters as stored."""
        values: dict[str, object] = {"done": _number(self.done), "total": _number(self.total)}
        if self.message is not None:
            values["message"] = storable(self.message[:_MESSAGE_CHARACTERS])
        return json.dumps(values)


Saved = list[tuple[Report, list[asyncio.Future[None]]]]
"""Reports with those who wait for them."""


def _number(value: float | None) -> float | None:
    # JSON has no NaN and no infinity: one such counter would fail the reports of every job in the batch.
    return value if value is None or math.isfinite(value) else None


class Reporter:
    """Writes the reports of one worker: at most one statement a second, however many jobs and calls."""

    def __init__(self, link: Link, lost: Callable[[Claim], None]) -> None:
        self._link, self._lost = link, lost
        self._dirty: dict[Claim, Report] = {}
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

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

    async def load(self, claim: Claim) -> str | None:
        """The checkpoint of a job, encoded; None: there is none."""
        rows = await self._link.database.fetch("checkpoint", id=claim.job_id)
        return rows[0]["checkpoint"] if rows else None

    async def flush(self) -> None:
        """Write everything noted so far."""
        reports = sorted(self._dirty.values(), key=lambda report: report.claim)
        self._dirty = {}
        saved = [(report, report.saved) for report in reports]
        for report in reports:
            report.dirty, report.saved = False, []
        if saved:
            await self._write(saved)

    async def _write(self, saved: Saved) -> None:
        reports = [report for report, _ in saved]
        try:
            rows = await self._link.fetch(
                "report_progress",
                ids=[report.claim.job_id for report in reports],
                fences=[report.claim.fence for report in reports],
                phases=[report.phase and storable(report.phase) for report in reports],
                progress=[report.progress() for report in reports],
                checkpoints=[report.checkpoint for report in reports],
            )
        except UNSTORABLE as error:
            await self._one_by_one(saved, error)
            return
        except BaseException:
            self._keep(saved)
            raise
        kept = {(row["job_id"], row["fence"]) for row in rows}
        for report, futures in saved:
            self._answer(report, futures, kept=report.claim in kept)

    def _keep(self, saved: Saved) -> None:
        """Put unwritten reports back, with those who wait for them."""
        for report, futures in saved:
            report.saved = futures + report.saved
            report.dirty = True
            self._dirty.setdefault(report.claim, report)
        self._wanted.set()

    async def _one_by_one(self, saved: Saved, error: Exception) -> None:
        """One bad report never fails its neighbours; alone it is dropped, and whoever waits for it is told."""
        if len(saved) > 1:
            for n, one in enumerate(saved, 1):
                try:
                    await self._write([one])
                except BaseException:
                    self._keep(saved[n:])
                    raise
            return
        ((report, futures),) = saved
        logger.error("the progress of job %d cannot be stored: %s", report.claim.job_id, error)
        report.checkpoint = None
        for future in futures:
            if not future.done():
                future.set_exception(InvalidResult(f"What was saved cannot be stored: {error}"))

    def _answer(self, report: Report, futures: list[asyncio.Future[None]], *, kept: bool) -> None:
        if not kept:
            self._lost(report.claim)
        for future in futures:
            if future.done():
                continue
            if kept:
                future.set_result(None)
            else:
                future.set_exception(
                    ClaimLost(f"Job {report.claim.job_id} is not this attempt's any more; nothing was saved.")
                )

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.flush()
            except DatabaseUnreachable as error:
                logger.warning("progress waits for the database: %s", error)
            except Exception:
                # Whatever it was: handlers wait for their checkpoints, so this loop never ends.
                logger.exception("progress cannot be written yet")
            try:
                await asyncio.wait_for(self._urgent.wait(), EVERY)
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
