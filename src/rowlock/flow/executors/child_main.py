"""The program of a child process: it runs one job at a time for its worker and dies with it.

The main thread calls blocking handlers, so that a signal can interrupt them. An event loop in a second thread exchanges
messages with the worker, runs coroutine handlers, and ends the process when the worker is gone. The child has no
database connection: progress, checkpoints and log records travel through the pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import logging
import logging.handlers
import os
import queue
import resource
import signal
import socket
import sys
import threading
from dataclasses import replace
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from rowlock.errors import ConfigurationError, Stopped
from rowlock.flow.executors.child_locks import ChildLockClient
from rowlock.flow.executors.child_messages import (
    AddSteps,
    AttemptEnded,
    ChildFailed,
    ChildReady,
    ForwardedLog,
    KeepItems,
    LoadCheckpoint,
    LoadCursors,
    LockLostNotice,
    ProgressSnapshot,
    ReadSignal,
    ReadStepName,
    Reply,
    RunJob,
    SaveReport,
    StartChild,
    StopJob,
    receive_from_worker,
)
from rowlock.flow.executors.message_data import pack_for_worker
from rowlock.flow.executors.os_process import die_with
from rowlock.flow.executors.threads import run_blocking, work_of
from rowlock.flow.progress.job_logs import JobLogCapture
from rowlock.flow.run.attempt import AttemptServices, RunningAttempt, on_loop
from rowlock.store.queries import Statements
from rowlock.telemetry import JobLogFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowlock.flow.enqueue.workflow_growth import Growing
    from rowlock.flow.enqueue.workflow_insert import WorkflowReceipt
    from rowlock.flow.executors.child_messages import Request, ToChild, ToWorker
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.progress.report import ProgressReport
    from rowlock.flow.run.attempt import StopReason
    from rowlock.model.job import Claim
    from rowlock.model.outcome import Outcome

_INTERRUPT: Final = signal.SIGUSR1
_REPORT_EVERY: Final = 0.05
"""Seconds: a handler that reports every microsecond must not flood the pipe."""
_SLACK: Final = 256 * 1024 * 1024
"""Bytes between the limit that the worker watches and the one that the system enforces: growth between two looks."""


def main() -> None:
    """Entry of `python -m rowlock.flow.executors.child_main FD PARENT`."""
    pipe, parent = (int(argument) for argument in sys.argv[1:3])
    die_with(parent)
    ChildProgram(socket.socket(fileno=pipe)).serve()


class ChildProgram:
    """What this process does, from its start to its end."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._calling = False
        """Whether the main thread is inside a handler: only then may it be interrupted."""
        self._attempt: RunningAttempt | None = None
        self._running: asyncio.Task[None] | None = None
        self._early_stop: StopReason | None = None
        """Set when the job is to be stopped before its attempt began."""

    def serve(self) -> None:
        """Work until the pipe is closed."""
        # The worker handles Ctrl-C. Not SIG_IGN, which every program that a handler starts would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(_INTERRUPT, self._on_interrupt)
        threading.Thread(target=self._run_loop, name="rowlock-pipe", daemon=True).start()
        while (work := self._work.get()) is not None:
            work()

    def _on_interrupt(self, *_: object) -> None:
        if self._calling:
            raise Stopped

    def _run_loop(self) -> None:
        try:
            asyncio.run(self._converse())
        finally:
            self._work.put(None)

    async def _converse(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._pipe)
        setup = await receive_from_worker(reader)
        assert isinstance(setup, StartChild)  # noqa: S101 - the first message
        _forward_logs(setup.levels, self._send_from_thread(asyncio.get_running_loop()))
        self._statements = _LazyStatements(setup.settings.schema)
        self._log_capture = JobLogCapture(asyncio.get_running_loop(), setup.settings.job_logs, lambda _: self._attempt)
        self._log_capture.open()
        sys.path[:] = setup.path
        try:
            self._app = await self._in_main(lambda: _imported_app(setup))
            async with _scope(self._app):
                self._send(ChildReady())
                await self._listen(reader)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the worker reports it to the user
            self._send(ChildFailed(f"{type(error).__name__}: {error}"))
            await self._writer.drain()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                self._receive(await receive_from_worker(reader))
        if self._running is not None and not self._running.done():
            # The worker is gone in the middle of a job: kill this process and the programs that the handler started.
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def _receive(self, message: ToChild) -> None:
        match message:
            case RunJob():
                self._early_stop = None
                self._running = asyncio.ensure_future(self._run(message))
            case StopJob(reason):
                if self._attempt is None:
                    self._early_stop = reason
                else:
                    self._attempt.stop(reason)
            case Reply(number, value, error):
                if self._attempt is not None:
                    self._channel.resolve(number, value, error)
            case LockLostNotice():
                if self._attempt is not None:
                    self._channel.locks.lose(message)
            case _:
                raise TypeError(message)

    async def _run(self, order: RunJob) -> None:
        loop = asyncio.get_running_loop()
        try:
            handler: Handler = await self._in_main(lambda: _handler(self._app, order))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the attempt fails with it, in the worker
            self._send(ChildFailed(f"{type(error).__name__}: {error}"))
            return
        self._channel = PipeChannel(self._send, self._statements)
        random = Random()  # noqa: S311 - jitter, not secrets
        services = AttemptServices(self._channel, asyncio.Event(), random, self._interrupt, self._log_capture)
        attempt = RunningAttempt(order.row, handler, services, loop.time())
        self._attempt = attempt
        if self._early_stop is not None:
            attempt.stop(self._early_stop)
        attempt.task = asyncio.current_task()
        limit = _limited(order.memory)
        await attempt.run(on_loop if handler.is_async else self._in_main_thread, self._on_outcome)
        _limited(None, limit)

    def _on_outcome(self, _attempt: RunningAttempt, outcome: Outcome) -> None:
        self._attempt = None
        self._send(AttemptEnded(outcome))

    async def _in_main_thread(self, attempt: RunningAttempt) -> Outcome:
        return await run_blocking(attempt, self._work.put, self._interruptible)

    async def _in_main(self, function: Callable[[], object]) -> Any:  # noqa: ANN401 - the function's own
        ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._work.put(work_of(function, ended))
        return await ended

    def _interruptible(self, function: Callable[[], object]) -> object:
        self._calling = True
        try:
            return function()
        finally:
            self._calling = False

    def _interrupt(self, attempt: RunningAttempt) -> None:
        if not attempt.handler.is_async:
            os.kill(os.getpid(), _INTERRUPT)

    def _send(self, message: ToWorker) -> None:
        self._writer.write(pack_for_worker(message))

    def _send_from_thread(self, loop: asyncio.AbstractEventLoop) -> Callable[[ToWorker], None]:
        def send(message: ToWorker) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._send, message)

        return send


class _LazyStatements:
    """The SQL statements, read at first use: only ctx.guarded() and checkpoints in a session need them here."""

    def __init__(self, schema: str) -> None:
        self._schema = schema

    @cached_property
    def statements(self) -> Statements:
        return Statements(self._schema)


class PipeChannel:
    """The AttemptChannel of a child process: reports and requests go through the pipe to the worker."""

    def __init__(self, send: Callable[[ToWorker], None], lazy: _LazyStatements) -> None:
        self._send, self._lazy = send, lazy
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self._changed: ProgressReport | None = None
        self._next = 0.0
        """Loop time before which no report is sent."""
        self.locks = ChildLockClient(self)

    @property
    def statements(self) -> Statements:
        """See AttemptChannel."""
        return self._lazy.statements

    def note(self, report: ProgressReport) -> None:
        """See AttemptChannel."""
        report.dirty = True
        if self._changed is None:
            self._changed = report
            self._loop.call_at(self._next, self._send_report)

    def _send_report(self) -> None:
        report, self._changed = self._changed, None
        if report is not None:
            self._next = self._loop.time() + _REPORT_EVERY
            self._send(ProgressSnapshot(replace(report.snapshot(), checkpoint=None)))

    async def save(self, report: ProgressReport) -> None:
        """See AttemptChannel."""
        checkpoint = report.checkpoint
        self._changed = report
        self._send_report()
        await self.ask(lambda number: SaveReport(number, checkpoint))

    async def flush(self) -> None:
        """See AttemptChannel."""
        self._send_report()

    async def load_checkpoint(self, _claim: Claim) -> str | None:
        """See AttemptChannel."""
        checkpoint: str | None = await self.ask(LoadCheckpoint)
        return checkpoint

    async def load_cursors(self, _claim: Claim) -> dict[str, int]:
        """See AttemptChannel."""
        cursors: dict[str, int] = await self.ask(LoadCursors)
        return cursors

    async def keep_items(self, report: ProgressReport, phase: str, *, resume: bool) -> list[str]:
        """See AttemptChannel."""
        self._changed = report
        self._send_report()
        kept: list[str] = await self.ask(lambda number: KeepItems(number, phase, resume))
        return kept

    async def read_signal(self, _claim: Claim, name: str) -> str | None:
        """See AttemptChannel."""
        signal: str | None = await self.ask(lambda number: ReadSignal(number, name))
        return signal

    async def step_name(self, _claim: Claim) -> str | None:
        """See AttemptChannel."""
        name: str | None = await self.ask(ReadStepName)
        return name

    async def grow(self, _producer: object, growing: Growing) -> WorkflowReceipt:
        """See AttemptChannel."""
        placed: WorkflowReceipt = await self.ask(lambda number: AddSteps(number, growing))
        return placed

    async def ask(self, request: Callable[[int], Request]) -> Any:  # noqa: ANN401 - the value of the reply
        """Send a request and wait for its reply."""
        number = next(self._numbers)
        waiting: asyncio.Future[object] = self._loop.create_future()
        self._waiting[number] = waiting
        self._send(request(number))
        return await waiting

    def send(self, request: Callable[[int], Request]) -> None:
        """Send a request; its reply is ignored."""
        self._send(request(next(self._numbers)))

    def resolve(self, number: int, value: object, error: Exception | None) -> None:
        """The reply to a request came."""
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


class _ForwardingHandler(logging.handlers.QueueHandler):
    """Sends log records to the worker, which logs them as its own."""

    def __init__(self, send: Callable[[ToWorker], None]) -> None:
        super().__init__(queue.SimpleQueue())
        self._send = send
        self.addFilter(JobLogFilter())

    @override
    def enqueue(self, record: logging.LogRecord) -> None:
        self._send(ForwardedLog({key: value for key, value in vars(record).items() if _plain(value)}))


def _plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


def _forward_logs(levels: Mapping[str, int], send: Callable[[ToWorker], None]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    # Before the application is imported: its basicConfig() then adds no second handler.
    logging.getLogger().addHandler(_ForwardingHandler(send))


def _imported_app(setup: StartChild) -> Any:  # noqa: ANN401 - the application, whose class is in a layer above
    app: Any = importlib.import_module(setup.origin.module)
    for part in setup.origin.attribute.split("."):
        app = getattr(app, part)
    app.settings = setup.settings
    return app


def _handler(app: Any, order: RunJob) -> Handler:  # noqa: ANN401 - the application, whose class is in a layer above
    importlib.import_module(order.module)
    handler: Handler | None = app.handlers.get(order.row["kind"])
    if handler is None:
        message = f"{order.module} does not declare the kind {order.row['kind']!r} when it is imported by a child."
        raise ConfigurationError(message)
    return handler


@contextlib.asynccontextmanager
async def _scope(app: Any) -> Any:  # noqa: ANN401 - the application, whose class is in a layer above
    """Enter the application's lifespans, as a worker does."""
    scope = getattr(app, "worker_scope", None)
    if scope is None:
        yield
    else:
        # No dependencies beforehand: which kinds this child will run is not known yet.
        async with scope(()):
            yield


def _limited(memory: int | None, limit: tuple[int, int] | None = None) -> tuple[int, int]:
    """Lower the soft limit on private memory for one job, or restore the given limit; returns the one before."""
    was = resource.getrlimit(resource.RLIMIT_DATA)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, limit)
    elif memory is not None:
        wanted = memory + _SLACK
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if was[1] < 0 else min(wanted, was[1]), was[1]))
    return was


if __name__ == "__main__":
    main()
