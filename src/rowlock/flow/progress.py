"""Progress: what handlers report, coalesced and written under their claims."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rowlock.errors import ClaimLost, DatabaseUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.model.job import Claim
    from rowlock.store.link import Link

logger = logging.getLogger("rowlock.progress")
EVERY: Final = 1.0
"""Seconds between two writes of one job's progress."""
_MESSAGE_CHARACTERS: Final = 500


@dataclass(slots=True)
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
        values: dict[str, object] = {"done": self.done, "total": self.total}
        if self.message is not None:
            values["message"] = self.message[:_MESSAGE_CHARACTERS]
        return json.dumps(values)


class Reporter:
    """Writes the reports of one worker: at most one statement a second, however many jobs and calls."""

    def __init__(self, link: Link, lost: Callable[[Claim], None]) -> None:
        self._link, self._lost = link, lost
        self._dirty: dict[int, Report] = {}
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def note(self, report: Report) -> None:
        """Remember that this report has news; it is written within a second."""
        report.dirty = True
        self._dirty[report.claim.job_id] = report
        self._wanted.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rowlock-progress")

    async def save(self, report: Report) -> None:
        """Write this report now and wait for it; ClaimLost when the claim is gone."""
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        report.saved.append(saved)
        self.note(report)
        self._urgent.set()
        await saved

    async def flush(self) -> None:
        """Write everything noted so far."""
        reports = sorted(self._dirty.values(), key=lambda report: report.claim.job_id)
        self._dirty = {}
        for report in reports:
            report.dirty = False
        if not reports:
            return
        saved = [(report, report.saved) for report in reports]
        for report in reports:
            report.saved = []
        try:
            rows = await self._link.fetch(
                "report_progress",
                ids=[report.claim.job_id for report in reports],
                fences=[report.claim.fence for report in reports],
                phases=[report.phase for report in reports],
                progress=[report.progress() for report in reports],
                checkpoints=[report.checkpoint for report in reports],
            )
        except DatabaseUnreachable:
            for report, futures in saved:
                report.saved = futures + report.saved
                self._dirty.setdefault(report.claim.job_id, report)
            raise
        kept = {row["job_id"] for row in rows}
        for report, futures in saved:
            self._answer(report, futures, kept=report.claim.job_id in kept)

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
                self._wanted.set()
            try:
                await asyncio.wait_for(self._urgent.wait(), EVERY)
            except TimeoutError:
                continue
            self._urgent.clear()

    async def close(self) -> None:
        """Stop writing; what is unwritten is dropped, as its jobs are over or given back."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
