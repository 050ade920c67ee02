"""Voice: how an attempt speaks to its worker. Everything it says carries its claim."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from rowlock.errors import ClaimLost, InvalidOption, SignalTimeout, Suspended
from rowlock.flow.locks.lock import Asker, Wish
from rowlock.flow.progress.job_logs import record_of, said
from rowlock.flow.progress.report import Report
from rowlock.flow.run.verdict import secrets_of
from rowlock.model import redact
from rowlock.model.duration import duration
from rowlock.model.job import Claim
from rowlock.model.options import checked_key, shown
from rowlock.model.progress import ATTEMPT_LINES, LOGS_OFF, ItemRef, LogLine
from rowlock.store.caller_transaction import AsyncCaller, join
from rowlock.telemetry import JobLog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence

    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.enqueue.workflow_growth import Growing
    from rowlock.flow.enqueue.workflow_insert import WorkflowReceipt
    from rowlock.flow.executors.child_messages import Asked
    from rowlock.flow.locks.lock import Hold, Keeper
    from rowlock.flow.progress.job_logs import LogBook, Said
    from rowlock.flow.progress.report import Moved, News
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.store.caller_transaction import Caller
    from rowlock.store.queries import Statement, Statements
    from rowlock.store.rows.jobs import Row

logger = logging.getLogger("rowlock.handler")
_SENTENCES: Final = 100
_LEVEL: Final = 32767
"""The highest level that is stored: logging takes any number."""
"""Failed items that are named in the job's own errors; the rows of the items have them all."""
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

    async def cursors(self, claim: Claim) -> dict[str, int]:
        """How far the loops of earlier attempts came."""

    async def keep_items(self, report: Report, phase: str, *, resume: bool) -> list[str]:
        """The items that earlier attempts finished and this one need not do."""

    async def signal(self, claim: Claim, name: str) -> str | None:
        """The signal of that name as JSON {payload, timed_out}; None: none has come. ClaimLost without the claim."""

    async def step_name(self, claim: Claim) -> str | None:
        """The name of the job's step; None: it is of no workflow."""

    async def grow(self, producer: Producer | None, growing: Growing) -> WorkflowReceipt:
        """Add steps to a workflow. producer: the one they were made for; None: that was in a child process."""

    async def flush(self) -> None:
        """Write what was noted."""

    @property
    def locks(self) -> Keeper:
        """Who gets locks, on the loop that asks."""


class Voice:
    """What a context is to the worker; users see its Context."""

    __slots__ = (
        "_began",
        "_book",
        "_cursors",
        "_log",
        "_lost",
        "_report",
        "_row",
        "_secrets",
        "_stopping",
        "_told",
        "claim",
        "deadline",
        "failed",
        "failures",
        "holds",
        "line",
        "log_level",
        "state",
    )

    def __init__(
        self,
        row: Row,
        claim: Claim,
        line: Line,
        stopping: asyncio.Event,
        *,
        book: LogBook | None = None,
        log_level: int = LOGS_OFF,
    ) -> None:
        self.claim = claim
        self.deadline: float | None = None
        """Loop time at which the timeout strikes; None: there is none."""
        self.state: Mapping[str, Any] = NO_STATE
        """What the worker's lifespans yielded."""
        self.log_level = log_level
        self.failures: list[str] = []
        """Items that failed, one sentence each: the job ends as completed_with_errors. The first ones only."""
        self.failed = 0
        self.holds: list[tuple[Hold, int | None]] = []
        """Locks of a blocking handler, each with the thread that is to be told; None: every one of the job's."""
        self._began = time.monotonic()
        self.line, self._row, self._stopping, self._book = line, row, stopping, book
        self._told = self._lost = False
        self._report: Report | None = None
        self._log: JobLog | None = None
        self._cursors: dict[str, int] | None = None
        self._secrets: frozenset[str] | None = None

    @property
    def log(self) -> JobLog:
        """A logger whose records carry the job, and are stored with it whatever logging is set up to do."""
        if self._log is None:
            self._log = JobLog(logger, self._row, self._keep if self._book is not None else None)
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether the worker is shutting down or this attempt was told to stop."""
        return self._told or self._stopping.is_set()

    @property
    def lost(self) -> bool:
        """Whether the claim is gone."""
        return self._lost

    def now(self, at: float | None = None) -> datetime:
        """The moment by the database's clock, as far as known: the claim's, and what has passed since."""
        claimed = self._row["claimed_at"] or datetime.now(UTC)
        return claimed + timedelta(seconds=(time.monotonic() if at is None else at) - self._began)

    def note(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """progress() without a coroutine."""
        report = self._reported()
        number, of = _number(done, "done"), None if total is None else _number(total, "total")
        report.count(self.now(), number, of, None if message is None else self.scrubbed(str(message)))
        self.line.note(report)

    def advance(self, by: float, message: str | None = None, number: int | None = None) -> None:
        """Count on in the present phase; number: unless that one is over, whose counter stands."""
        report = self._reported()
        if number in (None, report.entered):
            self.note(report.done + _number(by, "by"), message=message)

    def enter(self, phase: str, total: float | None = None, done: float = 0) -> int:
        """Begin a phase; its number."""
        report = self._reported()
        if report.inside:
            self.log.warning(
                "phase %r began inside %r, which counts as over: phases follow one another, and what runs side by side "
                "are items of one phase",
                *(phase, report.phase),
            )
        of = None if total is None else _number(total, "total")
        report.enter(self.now(), redact.storable(str(phase)), of, _number(done, "done"))
        self.line.note(report)
        return report.entered

    def leave(self, number: int, *, done: bool = True) -> None:
        """The block of a phase is over. done: the phase, too; one that failed stays open, as where the job stood."""
        if done:
            report = self._reported()
            report.leave(self.now(), number)
            self.line.note(report)
        elif self._report is not None and number == self._report.entered:
            self._report.inside = False

    def move(self, item: ItemRef, moved: Moved) -> None:
        """An item's newest state."""
        report = self._reported()
        report.spoken = True
        report.items[Claim(item.job_id, item.fence), item.phase, item.name] = moved
        self.line.note(report)

    def expect(self, items: int | None) -> None:
        """So many items more are to come: the counter of the phase is theirs."""
        report = self._reported()
        report.spoken = True
        if items is not None:
            report.items_total = (report.items_total or 0) + items
            report.total = items if report.total is None else report.total

    def fail(self, sentence: str) -> None:
        """An item failed and the job goes on."""
        self.failed += 1
        if len(self.failures) < _SENTENCES:
            self.failures.append(sentence)

    def _phase(self) -> str:
        return (self._report.phase if self._report is not None else None) or ""

    def reference(self, name: str) -> ItemRef:
        """An item of this attempt, in its present phase."""
        return ItemRef(self.claim.job_id, self.claim.fence, self._phase(), name)

    async def kept_items(self, *, resume: bool) -> frozenset[str]:
        """The items of the present phase that need not be done again; without an earlier attempt there are none."""
        if self.claim.fence == 1:
            return frozenset()
        return frozenset(await self.line.keep_items(self._reported(), self._phase(), resume=resume))

    async def answer(self, asked: Asked) -> object:
        """What a child process asks on behalf of this attempt."""
        match asked.what:
            case "save":
                report = self._reported()
                report.checkpoint, report.spoken = asked.checkpoint or report.checkpoint, True
                await self.line.save(report)
                return None
            case "load":
                return await self.line.load(self.claim)
            case "cursors":
                return json.dumps(await self.line.cursors(self.claim))
            case "keep_items":
                kept = await self.line.keep_items(self._reported(), asked.phase, resume=asked.resume)
                return json.dumps(kept)
            case "signal":
                return await self.line.signal(self.claim, asked.phase)
            case "step_name":
                return await self.line.step_name(self.claim)

    async def grown(self, growing: Growing) -> WorkflowReceipt:
        """What a child process adds on behalf of this attempt: under the claim this worker knows it by."""
        job, fence = self.claim
        return await self.line.grow(None, replace(growing, job=job, fence=fence))

    async def received(self, name: str, timeout: timedelta | str | float | None) -> Any:  # noqa: ANN401 - what was sent
        """The payload of a signal; Suspended when it has not come, SignalTimeout when it did not come in time."""
        limit = None if timeout is None else duration(timeout, name="timeout")
        text = await self.line.signal(self.claim, checked_key(name, "signal"))
        if text is None:
            raise Suspended(name, limit)
        found = json.loads(text)
        if found["timed_out"]:
            message = f"No signal {name!r} came in time for job {self.claim.job_id}."
            raise SignalTimeout(message)
        return found["payload"]

    async def cursor(self, name: str) -> int:
        """How many elements of a loop earlier attempts have done."""
        if self._cursors is None:
            self._cursors = {} if self.claim.fence == 1 else await self.line.cursors(self.claim)
        return self._cursors.get(name, 0)

    def reach(self, name: str, done: int) -> None:
        """So many elements of a loop are done."""
        report = self._reported()
        report.cursors[name], report.spoken = done, True
        self.line.note(report)

    def adopt(self, news: News) -> None:
        """Take over what the attempt reported in a child process."""
        report = self._reported()
        report.adopt(news)
        self.line.note(report)

    async def save_encoded(self, checkpoint: str) -> None:
        """Save a checkpoint that is encoded already."""
        report = self._reported()
        report.checkpoint, report.spoken = checkpoint, True
        await self.line.save(report)

    async def in_transaction(self, session: object, statement: Statement, what: str, **values: object) -> None:
        """Run a statement that checks and holds the claim in the user's own transaction."""
        caller, values = join(session), {**self._mine, **values}
        if isinstance(caller, AsyncCaller):
            self._held(caller, await caller.run_async(statement, values), what)
        else:
            self._held(caller, caller.run(statement, values), what)

    def in_transaction_sync(self, session: object, statement: Statement, what: str, **values: object) -> None:
        """in_transaction() for blocking code."""
        caller = join(session)
        if isinstance(caller, AsyncCaller):
            message = f"A blocking handler needs a blocking session or connection for {what}; got an async one."
            raise InvalidOption(message)
        self._held(caller, caller.run(statement, {**self._mine, **values}), what)

    @property
    def _mine(self) -> dict[str, object]:
        return {"id": self.claim.job_id, "fence": self.claim.fence, "worker": self._row["claimed_by"]}

    def _held(self, caller: Caller, rows: Sequence[object], what: str) -> None:
        if not caller.in_transaction:
            message = (
                f"{what} needs a session or connection with an open transaction: the claim is held until its commit."
            )
            raise InvalidOption(message)
        if not rows:
            message = (
                f"Job {self.claim.job_id} is not this attempt's any more. Roll back: "
                "nothing of this attempt is accepted."
            )
            raise ClaimLost(message)

    def hear(self, said: Said) -> None:
        """Keep a log line with the job."""
        if self._lost:
            return
        report = self._reported()
        n = self.claim.fence * ATTEMPT_LINES + next(report.places)
        text = redact.storable(self.scrubbed(said.text))
        report.lines.append(
            LogLine(n, self.now(said.at), min(said.level, _LEVEL), redact.storable(said.logger)[:200], text)
        )
        with contextlib.suppress(ClaimLost):
            self.line.note(report)

    def _keep(self, level: int, message: object, args: tuple[Any, ...], exc_info: object) -> None:
        if level >= self.log_level and self._book is not None:
            self._book.add(self, said(record_of(logger.name, level, message, args, exc_info)))

    def scrubbed(self, text: str) -> str:
        """The text without the secrets among the job's arguments."""
        return redact.scrub(text, self.secrets) if self.secrets else text

    @property
    def secrets(self) -> frozenset[str]:
        """The secret values among the job's arguments."""
        if self._secrets is None:
            self._secrets = secrets_of(self._row["args"])
        return self._secrets

    def wish(self, namespace: str, key: LockKey, item: str | None, *, wait: bool, timeout: Span | None) -> Wish:
        """A lock that this attempt, or one of its items, wants."""
        asker = Asker(self.claim.job_id, self.claim.fence, self._row["kind"], item)
        return Wish.of(namespace, key, asker, wait=wait, timeout=timeout)

    def tell(self, *, lost: bool) -> None:
        """The worker told this attempt to stop; lost: because its claim is gone."""
        self._told, self._lost = True, self._lost or lost

    async def settle(self) -> None:
        """Write the last progress before the attempt ends: afterwards its claim is used up."""
        if self._report is not None and (self._report.dirty or self._report.writing):
            await self.line.flush()

    def _reported(self) -> Report:
        if self._lost:
            message = f"Job {self.claim.job_id} is not this attempt's any more; nothing it reports is kept."
            raise ClaimLost(message)
        if self._report is None:
            self._report = Report(self.claim)
        return self._report


def _number(value: float, name: str) -> float:
    """A counter that can be written; refused here, where its handler is, and not in the batch of all jobs."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, str | bytes):
        message = f"{name} must be a number that a float can hold; got {shown(value)}."
        raise InvalidOption(message)
    return value if isinstance(value, int) else number
