"""stub_context(): a context to call a handler with alone: no job, no worker, no database."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic_core import to_json
from typing_extensions import override

from rowlock.flow.enqueue.workflow_additions import Added, CurrentWorkflow
from rowlock.flow.locks.lock import HeldLock
from rowlock.flow.progress.attempt_io import AttemptIO
from rowlock.flow.progress.context import Context
from rowlock.flow.progress.sync_context import SyncContext
from rowlock.flow.progress.sync_io import SyncAttemptIO
from rowlock.model.job import Job
from rowlock.model.progress import Item, Progress
from rowlock.model.state import State
from rowlock.store.queries import Statements
from rowlock.telemetry import JobLog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from rowlock.flow.enqueue.workflow_insert import NamedStep
    from rowlock.flow.locks.lock import LockBackend, LockRequest
    from rowlock.flow.progress.report import ProgressReport
    from rowlock.model.job import Claim
    from rowlock.model.workflow import Edge

T = TypeVar("T")


class StubRecord:
    """Everything a handler did with its stub context, in order."""

    def __init__(self) -> None:
        self.reports: list[Progress] = []
        """Every report, with phases and counters as they were then."""
        self.checkpoints: list[Any] = []
        """Every value saved with ctx.checkpoint.save()."""
        self.checkpoint: Any = None
        """What a later attempt would resume from."""
        self.items: dict[str, Item] = {}
        """The last state of every item, by name."""
        self.logs: list[str] = []
        """Every message logged through ctx.log, formatted."""
        self.guarded: list[object] = []
        """Sessions passed to guarded()."""
        self.locked: list[tuple[str, str]] = []
        """Namespaces and keys passed to lock()."""
        self.cursor: dict[str, int] = {}
        """How many elements each ctx.resume() loop has done, by name."""
        self.signals: dict[str, Any] = {}
        """Payloads for ctx.wait_for(), by name; put them here before the call. Without one it raises Suspended."""
        self.added: list[tuple[str, str, dict[str, object]]] = []
        """Steps added with ctx.workflow.add() and ctx.spawn(): name, kind and arguments."""

    @property
    def phases(self) -> list[str]:
        """The phases in order, each once."""
        return list(dict.fromkeys(report.phase for report in self.reports if report.phase is not None))

    @property
    def progress(self) -> Progress | None:
        """The last report."""
        return self.reports[-1] if self.reports else None


class StubChannel:
    """The AttemptChannel and LockBackend of a stub context: writes everything into a StubRecord."""

    def __init__(self, record: StubRecord, checkpoint: str | None, cancel_after: int | None) -> None:
        """checkpoint: JSON text. cancel_after: see stub_context."""
        self.record, self.reports_left = record, cancel_after
        self.statements = Statements("rowlock")
        self._checkpoint = checkpoint
        record.checkpoint = None if checkpoint is None else json.loads(checkpoint)

    def note(self, report: ProgressReport) -> None:
        """Record the report as it is now."""
        record, snapshot = self.record, report.snapshot()
        for (_, phase, name), item in snapshot.items.items():
            error = None if item.error is None else json.loads(item.error)
            record.items[name] = Item(name, item.state, phase, item.started_at, item.ended_at, item.reason, error)
        record.cursor |= snapshot.cursors
        report.checkpoint = snapshot.checkpoint
        progress = Progress(
            snapshot.phase, snapshot.done, snapshot.total, snapshot.message, datetime.now(UTC), snapshot.phases
        )
        last = record.progress
        if last is not None and snapshot.phases and snapshot.phases[-1].ended_at and last.phases != progress.phases:
            # The end of a phase does not change its counter: it replaces the last report.
            record.reports[-1] = progress
            return
        record.reports.append(progress)
        if self.reports_left is not None:
            self.reports_left -= 1

    async def save(self, report: ProgressReport) -> None:
        """Record the checkpoint."""
        if report.checkpoint is not None:
            self._checkpoint = report.checkpoint
            self.record.checkpoint = json.loads(report.checkpoint)
            self.record.checkpoints.append(json.loads(report.checkpoint))

    async def flush(self) -> None:
        """Nothing to write."""

    async def load_checkpoint(self, _claim: Claim) -> str | None:
        """The last checkpoint."""
        return self._checkpoint

    async def load_cursors(self, _claim: Claim) -> dict[str, int]:
        """What ctx.resume() recorded."""
        return self.record.cursor

    async def keep_items(self, _report: ProgressReport, _phase: str, *, resume: bool) -> list[str]:  # noqa: ARG002 - as AttemptChannel has it
        """None: there was no earlier attempt."""
        return []

    async def read_signal(self, _claim: Claim, name: str) -> str | None:
        """The payload that the test put among the signals."""
        signals = self.record.signals
        return json.dumps({"payload": signals[name], "timed_out": False}) if name in signals else None

    async def step_name(self, claim: Claim) -> str | None:
        """None: the job is in no workflow."""

    async def add_steps(self, producer: object, addition: object) -> NoReturn:
        """Never called: StubCurrentWorkflow records the steps."""
        raise NotImplementedError

    @property
    def locks(self) -> StubChannel:
        """Every lock is free."""
        return self

    async def acquire(self, request: LockRequest) -> HeldLock:
        """Record the lock."""
        self.record.locked.append((request.namespace, request.name))
        return HeldLock(request)

    async def release(self, held: HeldLock) -> None:
        """Nothing to release."""


class StubCurrentWorkflow(CurrentWorkflow):
    """ctx.workflow of a stub context: records the steps."""

    __slots__ = ("_record",)

    def __init__(self, claim: Claim, kind: str, channel: StubChannel) -> None:
        super().__init__(claim, kind, channel)
        self._parent, self._record = kind, channel.record

    @override
    async def _add_steps(self, steps: Sequence[NamedStep], edges: Sequence[Edge], *, joins: bool) -> list[Added]:
        self._record.added += [(member.name, member.step.kind, dict(member.step.call)) for member in steps]
        return [Added(member.name, n, "created") for n, member in enumerate(steps, 1)]


class StubIO(AttemptIO):
    """The AttemptIO of a stub context; raises asyncio.CancelledError at the first report after cancel()."""

    __slots__ = ("_channel",)

    def __init__(self, job: Job, channel: StubChannel) -> None:
        row = {"id": job.id, "fence": job.fence, "kind": job.kind, "lane": job.lane, "attempt": job.attempt}
        row |= {"claimed_at": job.claimed_at, "args": "{}", "meta": None}
        super().__init__(row, channel, asyncio.Event())
        self._channel = channel
        self._job = job
        self._log = JobLog(_logger(channel.record.logs), row)
        self._current_workflow = StubCurrentWorkflow(self.claim, job.kind, channel)

    @property
    def record(self) -> StubRecord:
        """Everything the handler did."""
        return self._channel.record

    @property
    @override
    def cancelled(self) -> bool:
        left = self._channel.reports_left
        return super().cancelled or (left is not None and left <= 0)

    @override
    async def guard(self, session: object) -> None:
        self.guard_sync(session)

    @override
    def guard_sync(self, session: object) -> None:
        self.check_claim()
        self.record.guarded.append(session)

    @override
    def _changing(self) -> ProgressReport:
        if self.cancelled and not self.lost:
            raise asyncio.CancelledError
        return super()._changing()


class StubContext(Context):
    """A Context that records. cancel() and lose() do what a worker would; the handler's next call raises."""

    __slots__ = ("_stub",)

    def __init__(self, stub: StubIO) -> None:
        super().__init__(stub)
        self._stub = stub

    @property
    def record(self) -> StubRecord:
        """Everything the handler did."""
        return self._stub.record

    def cancel(self) -> None:
        """Ask the handler to stop: asyncio.CancelledError at its next report."""
        self._stub.request_stop(lost=False)

    def lose(self) -> None:
        """Take the claim away: ClaimLost at the next report."""
        self._stub.request_stop(lost=True)


class StubSyncContext(SyncContext):
    """A SyncContext that records; everything happens in the calling thread."""

    __slots__ = ("_stub",)

    def __init__(self, stub: StubIO) -> None:
        super().__init__(SyncAttemptIO(stub, _DirectCaller()))
        self._stub = stub

    @property
    def record(self) -> StubRecord:
        """Everything the handler did."""
        return self._stub.record

    def cancel(self) -> None:
        """Ask the handler to stop: Stopped at its next call."""
        self._stub.request_stop(lost=False)

    def lose(self) -> None:
        """Take the claim away: ClaimLost at its next call."""
        self._stub.request_stop(lost=True)


class _DirectCaller:
    """A LoopCaller without a loop."""

    def send(self, function: Callable[[], None]) -> None:
        function()

    def wait(self, coroutine: Coroutine[object, object, T]) -> T:
        # Nothing in a stub ever waits, so its coroutines end with their first step.
        try:
            coroutine.send(None)
        except StopIteration as end:
            value: T = end.value
            return value
        coroutine.close()
        message = "a stub context waited for something"
        raise AssertionError(message)

    def acquire(self, backend: Callable[[], LockBackend], request: LockRequest, check: Callable[[], None]) -> HeldLock:
        check()
        return self.wait(backend().acquire(request))


def stub_context(
    *,
    checkpoint: object = None,
    cancel_after: int | None = None,
    job: Job | None = None,
    **fields: Any,  # noqa: ANN401 - typed by Job
) -> StubContext:
    """A context to call a handler alone: ``await build_report(stub_context(), 7)``.

    checkpoint: what ctx.checkpoint.load() finds. cancel_after: reports after which the handler is asked to stop; 0: at
    once. fields: of the job it claims to run, such as attempt=3 or tenant="acme".
    """
    return StubContext(_stub_io(checkpoint, cancel_after, replace(job or _job(), **fields)))


def stub_sync_context(
    *,
    checkpoint: object = None,
    cancel_after: int | None = None,
    job: Job | None = None,
    **fields: Any,  # noqa: ANN401 - typed by Job
) -> StubSyncContext:
    """stub_context() for a blocking handler."""
    return StubSyncContext(_stub_io(checkpoint, cancel_after, replace(job or _job(), **fields)))


def _stub_io(checkpoint: object, cancel_after: int | None, job: Job) -> StubIO:
    text = None if checkpoint is None else to_json(checkpoint).decode()
    return StubIO(job, StubChannel(StubRecord(), text, cancel_after))


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
