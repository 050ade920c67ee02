"""stub_context: a context to call a handler with, alone: no job, no worker, no database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic_core import to_json
from typing_extensions import override

from rowlock.errors import ClaimLost
from rowlock.flow.enqueue.workflow_growth import Added, Growth
from rowlock.flow.locks.lock import Hold
from rowlock.flow.progress.context import Context
from rowlock.flow.progress.sync_context import SyncContext
from rowlock.model.job import Claim, Job
from rowlock.model.progress import Item, Progress
from rowlock.model.state import State
from rowlock.store.queries import Statements
from rowlock.telemetry import JobLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence

    from rowlock.flow.enqueue.workflow_insert import NamedStep
    from rowlock.flow.locks.lock import Wish
    from rowlock.flow.progress.report import Report
    from rowlock.model.workflow import Edge

T = TypeVar("T")


class Record:
    """What a handler said to its stub context, in order."""

    def __init__(self, checkpoint: str | None, patience: int | None) -> None:
        self.reports: list[Progress] = []
        """Everything reported, phases and counters as they stood then."""
        self.checkpoints: list[Any] = []
        """Everything saved with ctx.checkpoint.save()."""
        self.items: dict[str, Item] = {}
        """Every item as it stood last, by name."""
        self.logs: list[str] = []
        """Everything logged through ctx.log, formatted."""
        self.guarded: list[object] = []
        """Sessions given to guarded()."""
        self.locked: list[tuple[str, str]] = []
        """Namespaces and keys given to lock()."""
        self.cursor: dict[str, int] = {}
        """How far ctx.resume() came, by name."""
        self.signals: dict[str, Any] = {}
        """What ctx.wait_for() finds, by name; without it, it raises Suspended."""
        self.added: list[tuple[str, str, dict[str, object]]] = []
        """Steps added with ctx.workflow.add() and ctx.spawn(): name, kind and arguments."""
        self.stored = checkpoint
        self.patience = patience
        self.statements = Statements("rowlock")

    @property
    def phases(self) -> list[str]:
        """The phases in order, each once."""
        return list(dict.fromkeys(report.phase for report in self.reports if report.phase is not None))

    @property
    def progress(self) -> Progress | None:
        """The last report."""
        return self.reports[-1] if self.reports else None

    @property
    def checkpoint(self) -> Any:  # noqa: ANN401 - whatever was saved
        """What a later attempt would resume from."""
        return None if self.stored is None else json.loads(self.stored)

    def note(self, report: Report) -> None:
        """The engine's side: there is news."""
        now = datetime.now(UTC)
        news = report.take()
        for (_, phase, name), moved in news.items.items():
            error = None if moved.error is None else json.loads(moved.error)
            self.items[name] = Item(name, moved.state, phase, moved.started_at, moved.ended_at, moved.reason, error)
        self.cursor |= news.cursors
        report.checkpoint = news.checkpoint
        told = Progress(news.phase, news.done, news.total, news.message, now, news.phases)
        last = self.reports[-1] if self.reports else None
        if last is not None and told.phases and told.phases[-1].ended_at is not None and last.phases != told.phases:
            # The end of a phase says nothing new of its counter.
            self.reports[-1] = told
            return
        self.reports.append(told)
        if self.patience is not None:
            self.patience -= 1

    async def save(self, report: Report) -> None:
        """The engine's side: store the checkpoint."""
        if report.checkpoint is not None:
            self.stored = report.checkpoint
            self.checkpoints.append(json.loads(report.checkpoint))

    async def load(self, _claim: Claim) -> str | None:
        """The engine's side: what was stored."""
        return self.stored

    async def cursors(self, _claim: Claim) -> dict[str, int]:
        """The engine's side: how far loops came."""
        return self.cursor

    async def keep_items(self, _report: Report, _phase: str, *, resume: bool) -> list[str]:  # noqa: ARG002 - as Line has it
        """The engine's side: there was no earlier attempt."""
        return []

    async def signal(self, _claim: Claim, name: str) -> str | None:
        """The engine's side: what the test put among the signals."""
        if name not in self.signals:
            return None
        return json.dumps({"payload": self.signals[name], "timed_out": False})

    async def flush(self) -> None:
        """The engine's side: nothing to write."""

    @property
    def locks(self) -> Record:
        """The engine's side: locks, of which every one is free."""
        return self

    async def acquire(self, wish: Wish) -> Hold:
        """The engine's side: the lock is got at once, and noted."""
        self.locked.append((wish.namespace, wish.name))
        return Hold(wish)

    async def release(self, hold: Hold) -> None:
        """The engine's side: the lock is given back."""

    async def step_name(self, claim: Claim) -> str | None:
        """The engine's side: the job is of no workflow."""

    async def grow(self, producer: object, growing: object) -> NoReturn:
        """The engine's side: never asked, what is added is written down before."""
        raise NotImplementedError


class StubGrowth(Growth):
    """ctx.workflow of a handler that is called without a database: what it adds is written down."""

    __slots__ = ("_record",)

    def __init__(self, claim: Claim, kind: str, record: Record) -> None:
        super().__init__(claim, kind, record)
        self._parent, self._record = kind, record

    @override
    async def _grow(self, steps: Sequence[NamedStep], edges: Sequence[Edge], *, joins: bool) -> list[Added]:
        self._record.added += [(member.name, member.step.kind, dict(member.step.call)) for member in steps]
        return [Added(member.name, n, "created") for n, member in enumerate(steps, 1)]


class StubContext(Context):
    """A Context that records. cancel() and lose() do what a worker would, at the handler's next word to it."""

    def __init__(self, job: Job, record: Record) -> None:
        row = {"id": job.id, "fence": job.fence, "kind": job.kind, "lane": job.lane, "attempt": job.attempt}
        row |= {"claimed_at": job.claimed_at, "args": "{}"}
        super().__init__(row, Claim(job.id, job.fence), record, asyncio.Event())
        self._job = job
        self.record = record
        self._log = JobLog(_logger(record.logs), row)
        self._growth = StubGrowth(self.claim, job.kind, record)

    def cancel(self) -> None:
        """Tell the handler to stop: asyncio.CancelledError (Stopped in a blocking one) at its next report."""
        self.tell(lost=False)

    def lose(self) -> None:
        """Take the claim away: ClaimLost at the next report."""
        self.tell(lost=True)

    @contextlib.asynccontextmanager
    @override
    async def guarded(self, session: object) -> AsyncIterator[None]:
        """Holds while the claim was not taken away; the session is only noted."""
        with self.guarded_sync(session):
            yield

    @contextlib.contextmanager
    @override
    def guarded_sync(self, session: object) -> Iterator[None]:
        if self._lost:
            message = f"Job {self.claim.job_id} is not this attempt's any more. Roll back."
            raise ClaimLost(message)
        self.record.guarded.append(session)
        yield

    @property
    @override
    def cancelled(self) -> bool:
        """Whether it was cancelled, or its cancel_after has come."""
        patience = self.record.patience
        return super().cancelled or (patience is not None and patience <= 0)

    @override
    def _reported(self) -> Report:
        if self.cancelled and not self._lost:
            raise asyncio.CancelledError
        return super()._reported()


class StubSyncContext(SyncContext):
    """A SyncContext that records; everything happens in the calling thread."""

    __slots__ = ("_stub",)

    def __init__(self, stub: StubContext) -> None:
        self._context = self._stub = stub

    @property
    def record(self) -> Record:
        """What the handler said."""
        return self._stub.record

    def cancel(self) -> None:
        """Tell the handler to stop: Stopped at its next word to the context."""
        self._stub.cancel()

    def lose(self) -> None:
        """Take the claim away: ClaimLost at its next word to the context."""
        self._stub.lose()

    @override
    def _tell(self, what: Callable[..., None], *args: object) -> None:
        what(*args)

    @override
    def _taken(self, wish: Wish) -> Hold:
        return self._wait(self.record.acquire(wish))

    @override
    def _wait(self, coroutine: Coroutine[object, object, T]) -> T:
        # Nothing of a stub ever waits, so its coroutines end with their first step.
        try:
            coroutine.send(None)
        except StopIteration as end:
            value: T = end.value
            return value
        coroutine.close()
        message = "a stub context waited for something"
        raise AssertionError(message)


def stub_context(
    *,
    checkpoint: object = None,
    cancel_after: int | None = None,
    job: Job | None = None,
    **fields: Any,  # noqa: ANN401 - typed by Job
) -> StubContext:
    """A context to call a handler alone: ``await build_report(stub_context(), 7)``.

    checkpoint: what ctx.checkpoint.load() finds. cancel_after: reports after which the handler is told to stop; 0: at
    once. fields: of the job it claims to run, such as attempt=3 or tenant="acme".
    """
    stored = None if checkpoint is None else to_json(checkpoint).decode()
    return StubContext(replace(job or _job(), **fields), Record(stored, cancel_after))


def stub_sync_context(
    *,
    checkpoint: object = None,
    cancel_after: int | None = None,
    job: Job | None = None,
    **fields: Any,  # noqa: ANN401 - typed by Job
) -> StubSyncContext:
    """stub_context() for a blocking handler."""
    return StubSyncContext(stub_context(checkpoint=checkpoint, cancel_after=cancel_after, job=job, **fields))


def _job() -> Job:
    now = datetime.now(UTC)
    return Job(
        id=1, kind="stub", state=State.RUNNING, priority=0, attempt=1, max_attempts=5, created_at=now, run_after=now,
        claimed_at=now, fence=1,
    )  # fmt: skip


def _logger(lines: list[str]) -> logging.Logger:
    class Lines(logging.Handler):
        @override
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.Logger("rowlock.handler", logging.DEBUG)  # noqa: LOG001 - one of its own, so that tests do not mix
    logger.parent = logging.getLogger("rowlock.handler")
    logger.addHandler(Lines())
    return logger
