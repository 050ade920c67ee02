"""Context: what a handler sees of its job and its worker."""

from __future__ import annotations

import contextlib
import json
import logging
from typing import TYPE_CHECKING, cast

from pydantic_core import to_json

from rowlock.errors import ClaimLost, InvalidOption
from rowlock.flow.progress import Report
from rowlock.model import redact
from rowlock.model.job import Claim, Job
from rowlock.model.state import State
from rowlock.store.caller import AsyncCaller, join

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from rowlock.flow.progress import Reporter
    from rowlock.store.database import Database, Record


logger = logging.getLogger("rowlock.job")


class Context:
    """Passed to a handler that asks for it. Every write through it carries the claim; a lost claim raises ClaimLost."""

    __slots__ = (
        "_database",
        "_job",
        "_lost",
        "_report",
        "_reporter",
        "_row",
        "_stopping",
        "_told",
        "claim",
        "deadline",
        "log",
    )

    def __init__(self, row: Record, database: Database, reporter: Reporter, stopping: asyncio.Event) -> None:
        self.claim = Claim(row["id"], row["fence"])
        self.deadline: float | None = None
        """Loop time at which the timeout strikes; None: there is none."""
        self.log = logger
        self._row, self._database, self._reporter, self._stopping = row, database, reporter, stopping
        self._told = self._lost = False
        self._job: Job | None = None
        self._report: Report | None = None

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        if self._job is None:
            self._job = claimed_job(self._row)
        return self._job

    @property
    def cancelled(self) -> bool:
        """Whether the worker is shutting down or this attempt was told to stop."""
        return self._told or self._stopping.is_set()

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the job is. Coalesced: at most one write a second, the newest wins."""
        report = self._reported()
        report.done = done
        if total is not None:
            report.total = total
        if message is not None:
            report.message = message
        self._reporter.note(report)

    @contextlib.asynccontextmanager
    async def phase(self, name: str, total: float | None = None) -> AsyncIterator[Phase]:
        """Name what the job is doing now; counters start anew."""
        report = self._reported()
        report.phase, report.done, report.total, report.message = name, 0, total, None
        self._reporter.note(report)
        yield Phase(self, report)

    async def save_checkpoint(self, value: object) -> None:
        """Store what a later attempt resumes from; returns once it is committed."""
        report = self._reported()
        report.checkpoint = to_json(value).decode()
        await self._reporter.save(report)

    async def load_checkpoint(self) -> object:
        """What an earlier attempt saved; None: nothing."""
        rows = await self._database.fetch("checkpoint", id=self.claim.job_id)
        return json.loads(rows[0]["checkpoint"]) if rows and rows[0]["checkpoint"] is not None else None

    @contextlib.asynccontextmanager
    async def guarded(self, session: object) -> AsyncIterator[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit.

        The block must be inside the session's transaction; whoever revokes the claim waits for that commit.
        """
        caller = join(session)
        statement = self._database.statements["guard"]
        values = {"id": self.claim.job_id, "fence": self.claim.fence}
        rows = (
            await caller.run_async(statement, values)
            if isinstance(caller, AsyncCaller)
            else caller.run(statement, values)
        )
        if not caller.in_transaction:
            message = (
                "ctx.guarded() needs a session or connection with an open transaction: "
                "the claim is held until its commit."
            )
            raise InvalidOption(message)
        if not rows:
            message = (
                f"Job {self.claim.job_id} is not this attempt's any more. Roll back: "
                "nothing of this attempt is accepted."
            )
            raise ClaimLost(message)
        yield

    def tell(self, *, lost: bool) -> None:
        """The worker told this attempt to stop; lost: because its claim is gone."""
        self._told, self._lost = True, self._lost or lost

    async def settle(self) -> None:
        """Write the last progress before the attempt ends: afterwards its claim is used up."""
        if self._report is not None and self._report.dirty:
            await self._reporter.flush()

    def _reported(self) -> Report:
        if self._lost:
            message = f"Job {self.claim.job_id} is not this attempt's any more; nothing it reports is kept."
            raise ClaimLost(message)
        if self._report is None:
            self._report = Report(self.claim)
        return self._report


class Phase:
    """A named part of the work with its own counter."""

    __slots__ = ("_context", "_report")

    def __init__(self, context: Context, report: Report) -> None:
        self._context, self._report = context, report

    async def advance(self, by: float = 1, message: str | None = None) -> None:
        """Count on."""
        await self._context.progress(self._report.done + by, message=message)


def claimed_job(row: Record) -> Job:
    """A Job from the columns a claim returns."""
    return Job(
        id=row["id"],
        kind=row["kind"],
        state=State.RUNNING,
        priority=row["priority"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        losses=row["losses"],
        created_at=row["created_at"],
        run_after=row["run_after"],
        claimed_at=row["claimed_at"],
        fence=row["fence"],
        lane=row["lane"],
        tenant=row["tenant"],
        submitted_by=row["submitted_by"],
        gate_key=row["gate_key"],
        tags=tuple(row["tags"] or ()),
        refs=json.loads(row["refs"] or "{}"),
        meta=json.loads(row["meta"] or "{}"),
        args=cast("dict[str, object]", redact.redact(json.loads(row["args"]))),
    )
