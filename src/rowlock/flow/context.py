"""Context: what a handler sees of its job and its worker."""

from __future__ import annotations

import contextlib
import json
import logging
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic_core import to_json

from rowlock.errors import ClaimLost, InvalidOption
from rowlock.flow.progress import Report
from rowlock.model import stored
from rowlock.model.job import Claim, Job
from rowlock.model.state import State
from rowlock.store.caller import AsyncCaller, join
from rowlock.telemetry import JobLog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from rowlock.store.caller import SyncCaller
    from rowlock.store.queries import Statement, Statements
    from rowlock.store.rows import Row


logger = logging.getLogger("rowlock.handler")
NO_STATE: Final[Mapping[str, Any]] = MappingProxyType({})


class Line(Protocol):
    """How a context reaches its worker: directly, or from a child process through a pipe."""

    @property
    def statements(self) -> Statements:
        """The named statements, for those that run in the user's own transaction."""

    def note(self, report: Report) -> None:
        """Remember that this report has news."""

    async def save(self, report: Report) -> None:
        """Write this report now and wait for it."""

    async def load(self, claim: Claim) -> str | None:
        """The checkpoint, encoded; None: there is none."""

    async def flush(self) -> None:
        """Write what was noted."""


class Context:
    """Passed to a handler that asks for it. Every write through it carries the claim; a lost claim raises ClaimLost."""

    __slots__ = (
        "_job",
        "_line",
        "_log",
        "_lost",
        "_report",
        "_row",
        "_stopping",
        "_told",
        "claim",
        "deadline",
        "state",
    )

    def __init__(self, row: Row, claim: Claim, line: Line, stopping: asyncio.Event) -> None:
        self.claim = claim
        self.deadline: float | None = None
        """Loop time at which the timeout strikes; None: there is none."""
        self.state: Mapping[str, Any] = NO_STATE
        """What the worker's lifespans yielded."""
        self._log: JobLog | None = None
        self._row, self._line, self._stopping = row, line, stopping
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
    def log(self) -> JobLog:
        """A logger whose records carry the job."""
        if self._log is None:
            self._log = JobLog(logger, self._row)
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether the worker is shutting down or this attempt was told to stop."""
        return self._told or self._stopping.is_set()

    @property
    def lost(self) -> bool:
        """Whether the claim is gone."""
        return self._lost

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the job is. Coalesced: at most one write a second, the newest wins."""
        self.note(done, total, message)

    @contextlib.asynccontextmanager
    async def phase(self, name: str, total: float | None = None) -> AsyncIterator[Phase]:
        """Name what the job is doing now; counters start anew."""
        self.enter(name, total)
        yield Phase(self)

    async def save_checkpoint(self, value: object) -> None:
        """Store what a later attempt resumes from; returns once it is committed."""
        await self.save_encoded(to_json(value).decode())

    async def load_checkpoint(self) -> object:
        """What an earlier attempt saved; None: nothing."""
        text = await self._line.load(self.claim)
        return None if text is None else json.loads(text)

    @contextlib.asynccontextmanager
    async def guarded(self, session: object) -> AsyncIterator[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit.

        The block must be inside the session's transaction; whoever revokes the claim waits for that commit.
        """
        caller = join(session)
        rows = await caller.run_async(*self._guard()) if isinstance(caller, AsyncCaller) else caller.run(*self._guard())
        self._held(caller, rows)
        yield

    @contextlib.contextmanager
    def guarded_sync(self, session: object) -> Iterator[None]:
        """guarded() for blocking code with a blocking session."""
        caller = join(session)
        if isinstance(caller, AsyncCaller):
            message = "A blocking handler needs a blocking session or connection for ctx.guarded(); got an async one."
            raise InvalidOption(message)
        self._held(caller, caller.run(*self._guard()))
        yield

    def _guard(self) -> tuple[Statement, dict[str, object]]:
        return self._line.statements["guard"], {"id": self.claim.job_id, "fence": self.claim.fence}

    def _held(self, caller: SyncCaller | AsyncCaller, rows: Sequence[object]) -> None:
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

    # --- for the worker ----------------------------------------------------------------------------------------------

    def note(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """progress() without a coroutine."""
        report = self._reported()
        report.done = done
        if total is not None:
            report.total = total
        if message is not None:
            report.message = message
        self._line.note(report)

    def advance(self, by: float, message: str | None = None) -> None:
        """Count on in the present phase."""
        self.note(self._reported().done + by, message=message)

    def enter(self, phase: str | None, total: float | None = None) -> None:
        """Begin a phase."""
        report = self._reported()
        report.phase, report.done, report.total, report.message = phase, 0, total, None
        self._line.note(report)

    def adopt(self, phase: str | None, done: float, total: float | None, message: str | None) -> None:
        """Take over what the attempt reported in a child process."""
        report = self._reported()
        report.phase, report.done, report.total, report.message = phase, done, total, message
        self._line.note(report)

    async def save_encoded(self, checkpoint: str) -> None:
        """save_checkpoint() of what is encoded already."""
        report = self._reported()
        report.checkpoint = checkpoint
        await self._line.save(report)

    async def load_encoded(self) -> str | None:
        """load_checkpoint() without decoding."""
        return await self._line.load(self.claim)

    def tell(self, *, lost: bool) -> None:
        """The worker told this attempt to stop; lost: because its claim is gone."""
        self._told, self._lost = True, self._lost or lost

    async def settle(self) -> None:
        """Write the last progress before the attempt ends: afterwards its claim is used up."""
        if self._report is not None and self._report.dirty:
            await self._line.flush()

    def _reported(self) -> Report:
        if self._lost:
            message = f"Job {self.claim.job_id} is not this attempt's any more; nothing it reports is kept."
            raise ClaimLost(message)
        if self._report is None:
            self._report = Report(self.claim)
        return self._report


class Phase:
    """A named part of the work with its own counter."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    async def advance(self, by: float = 1, message: str | None = None) -> None:
        """Count on."""
        self._context.advance(by, message)


def claimed_job(row: Row) -> Job:
    """A Job from the columns a claim returns."""
    args = json.loads(row["args"])
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
        args=stored.shown(args),
        args_version=stored.version_of(args),
    )
