"""The child's side: a process that runs one job at a time for its worker and dies with it.

The main thread calls blocking handlers, so that a signal can interrupt them; a loop in a second thread talks with the
worker, runs coroutine handlers, and ends the process when the worker is gone. It has no database of its own: progress,
checkpoints and log records travel through the pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import json
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
from typing import TYPE_CHECKING, Any, Final, Literal

from typing_extensions import override

from rowlock.errors import ConfigurationError, Stopped
from rowlock.flow.executors.child_locks import Borrower
from rowlock.flow.executors.child_messages import (
    Answer,
    Asked,
    Broken,
    Ended,
    Grows,
    Hello,
    LockGone,
    Logged,
    Message,
    Ready,
    Reported,
    Run,
    Stop,
    packed,
    receive,
)
from rowlock.flow.executors.os_process import die_with
from rowlock.flow.executors.threads import blocking, work_of
from rowlock.flow.progress.job_logs import LogBook
from rowlock.flow.run.attempt import Attempt, Surroundings, on_loop
from rowlock.store.queries import Statements
from rowlock.telemetry import JobLogFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowlock.flow.enqueue.workflow_growth import Growing
    from rowlock.flow.enqueue.workflow_insert import WorkflowReceipt
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.progress.report import Report
    from rowlock.flow.run.attempt import Reason
    from rowlock.model.job import Claim
    from rowlock.model.outcome import Outcome

_INTERRUPT: Final = signal.SIGUSR1
_REPORT_EVERY: Final = 0.05
"""Seconds: a handler that reports every microsecond must not flood the pipe."""
_SLACK: Final = 256 * 1024 * 1024
"""Bytes between the limit the worker watches and the one the system enforces: what can be taken between two looks."""


def main() -> None:
    """Entry of `python -m rowlock.flow.executors.child_main FD PARENT`."""
    pipe, parent = (int(argument) for argument in sys.argv[1:3])
    die_with(parent)
    Child(socket.socket(fileno=pipe)).serve()


class Child:
    """One child process."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._calling = False
        """Whether the main thread is inside a handler: only then may it be interrupted."""
        self._attempt: Attempt | None = None
        self._running: asyncio.Task[None] | None = None
        self._early: Reason | None = None
        """Told to stop before the attempt began."""

    def serve(self) -> None:
        """Work until the pipe is closed."""
        # Ctrl-C is the worker's, which tells us. Not SIG_IGN, which every program a handler starts would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(_INTERRUPT, self._on_interrupt)
        threading.Thread(target=self._talk, name="rowlock-pipe", daemon=True).start()
        while (work := self._work.get()) is not None:
            work()

    def _on_interrupt(self, *_: object) -> None:
        if self._calling:
            raise Stopped

    def _talk(self) -> None:
        try:
            asyncio.run(self._converse())
        finally:
            self._work.put(None)

    async def _converse(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._pipe)
        hello = await receive(reader)
        assert isinstance(hello, Hello)  # noqa: S101 - the protocol's first word
        _forward_logs(hello.levels, self._say_from_anywhere(asyncio.get_running_loop()))
        self._statements = _Lazy(hello.settings.schema)
        self._book = LogBook(asyncio.get_running_loop(), hello.settings.job_logs, lambda _: self._attempt)
        self._book.open()
        sys.path[:] = hello.path
        try:
            self._app = await self._in_main(lambda: _found(hello))
            async with _scope(self._app):
                self._say(Ready())
                await self._listen(reader)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - told to the worker, which says it to the user
            self._say(Broken(f"{type(error).__name__}: {error}"))
            await self._writer.drain()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                self._hear(await receive(reader))
        if self._running is not None and not self._running.done():
            # The worker is gone in the middle of a job: its group, with whatever the handler started, ends here.
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def _hear(self, message: Message) -> None:
        match message:
            case Run():
                self._early = None
                self._running = asyncio.ensure_future(self._run(message))
            case Stop(reason):
                if self._attempt is None:
                    self._early = reason
                else:
                    self._attempt.stop(reason)
            case Answer(number, value, error):
                if self._attempt is not None:
                    self._line.answer(number, value, error)
            case LockGone():
                if self._attempt is not None:
                    self._line.locks.gone(message)
            case _:
                raise TypeError(message)

    async def _run(self, order: Run) -> None:
        loop = asyncio.get_running_loop()
        try:
            handler: Handler = await self._in_main(lambda: _handler(self._app, order))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - told to the worker: the attempt fails with it
            self._say(Broken(f"{type(error).__name__}: {error}"))
            return
        self._line = _PipeLine(self._say, self._statements)
        around = Surroundings(self._line, asyncio.Event(), Random(), self._interrupt, self._book)  # noqa: S311 - jitter, not secrets
        attempt = Attempt(order.row, handler, around, loop.time())
        self._attempt = attempt
        if self._early is not None:
            attempt.stop(self._early)
        attempt.task = asyncio.current_task()
        limit = _limited(order.memory)
        await attempt.run(on_loop if handler.is_async else self._in_main_thread, self._on_outcome)
        _limited(None, limit)

    def _on_outcome(self, _attempt: Attempt, outcome: Outcome) -> None:
        self._attempt = None
        self._say(Ended(outcome))

    async def _in_main_thread(self, attempt: Attempt) -> Outcome:
        return await blocking(attempt, self._work.put, self._interruptible)

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

    def _interrupt(self, attempt: Attempt) -> None:
        if not attempt.handler.is_async:
            os.kill(os.getpid(), _INTERRUPT)

    def _say(self, message: Message) -> None:
        self._writer.write(packed(message))

    def _say_from_anywhere(self, loop: asyncio.AbstractEventLoop) -> Callable[[Message], None]:
        def say(message: Message) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._say, message)

        return say


class _Lazy:
    """The statements, read at first use: only ctx.guarded() needs them here."""

    def __init__(self, schema: str) -> None:
        self._schema = schema

    @cached_property
    def statements(self) -> Statements:
        return Statements(self._schema)


class _PipeLine:
    """A context's way to its worker from here."""

    def __init__(self, say: Callable[[Message], None], lazy: _Lazy) -> None:
        self._say, self._lazy = say, lazy
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self._noted: Report | None = None
        self._next = 0.0
        self.locks = Borrower(self)

    @property
    def statements(self) -> Statements:
        return self._lazy.statements

    def note(self, report: Report) -> None:
        report.dirty = True
        if self._noted is None:
            self._noted = report
            self._loop.call_at(self._next, self._send)

    def _send(self) -> None:
        report, self._noted = self._noted, None
        if report is not None:
            self._next = self._loop.time() + _REPORT_EVERY
            self._say(Reported(replace(report.take(), checkpoint=None)))

    async def save(self, report: Report) -> None:
        checkpoint = report.checkpoint
        self._noted = report
        self._send()
        await self._ask("save", checkpoint)

    async def load(self, _claim: Claim) -> str | None:
        return await self._ask("load")

    async def cursors(self, _claim: Claim) -> dict[str, int]:
        found: dict[str, int] = json.loads(await self._ask("cursors") or "{}")
        return found

    async def keep_items(self, report: Report, phase: str, *, resume: bool) -> list[str]:
        self._noted = report
        self._send()
        kept: list[str] = json.loads(await self._ask("keep_items", phase=phase, resume=resume) or "[]")
        return kept

    async def signal(self, _claim: Claim, name: str) -> str | None:
        return await self._ask("signal", phase=name)

    async def step_name(self, _claim: Claim) -> str | None:
        return await self._ask("step_name")

    async def grow(self, _producer: object, growing: Growing) -> WorkflowReceipt:
        found: WorkflowReceipt = await self.ask(lambda number: Grows(number, growing))
        return found

    async def flush(self) -> None:
        self._send()

    async def _ask(
        self,
        what: Literal["save", "load", "cursors", "keep_items", "signal", "step_name"],
        checkpoint: str | None = None,
        *,
        phase: str = "",
        resume: bool = False,
    ) -> str | None:
        text: str | None = await self.ask(lambda number: Asked(number, what, checkpoint, phase, resume))
        return text

    async def ask(self, message: Callable[[int], Message]) -> Any:  # noqa: ANN401 - what the worker answers
        number = next(self._numbers)
        waiting: asyncio.Future[object] = self._loop.create_future()
        self._waiting[number] = waiting
        self._say(message(number))
        return await waiting

    def tell(self, message: Callable[[int], Message]) -> int:
        number = next(self._numbers)
        self._say(message(number))
        return number

    def answer(self, number: int, value: object, error: Exception | None) -> None:
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


class _Forward(logging.handlers.QueueHandler):
    """Sends log records to the worker, which writes them where its own go."""

    def __init__(self, say: Callable[[Message], None]) -> None:
        super().__init__(queue.SimpleQueue())
        self._say_it = say
        self.addFilter(JobLogFilter())

    @override
    def enqueue(self, record: logging.LogRecord) -> None:
        self._say_it(Logged({key: value for key, value in vars(record).items() if _plain(value)}))


def _plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


def _forward_logs(levels: Mapping[str, int], say: Callable[[Message], None]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    # In place before the application is imported: its basicConfig() then adds no second way out.
    logging.getLogger().addHandler(_Forward(say))


def _found(hello: Hello) -> Any:  # noqa: ANN401 - the application, which this room does not know
    app: Any = importlib.import_module(hello.origin.module)
    for part in hello.origin.attribute.split("."):
        app = getattr(app, part)
    app.settings = hello.settings
    return app


def _handler(app: Any, order: Run) -> Handler:  # noqa: ANN401 - the application, which this room does not know
    importlib.import_module(order.module)
    handler: Handler | None = app.handlers.get(order.row["kind"])
    if handler is None:
        message = f"{order.module} does not declare the kind {order.row['kind']!r} when it is imported by a child."
        raise ConfigurationError(message)
    return handler


@contextlib.asynccontextmanager
async def _scope(app: Any) -> Any:  # noqa: ANN401 - the application, which this room does not know
    """What surrounds all jobs of a worker surrounds those of a child, too."""
    scope = getattr(app, "worker_scope", None)
    if scope is None:
        yield
    else:
        # No kind's dependencies beforehand: which ones a child will run shows when they come.
        async with scope(()):
            yield


def _limited(memory: int | None, limit: tuple[int, int] | None = None) -> tuple[int, int]:
    """Lower the soft limit on private memory for one job, or put the given one back; returns what it was."""
    was = resource.getrlimit(resource.RLIMIT_DATA)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, limit)
    elif memory is not None:
        wanted = memory + _SLACK
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if was[1] < 0 else min(wanted, was[1]), was[1]))
    return was


if __name__ == "__main__":
    main()
