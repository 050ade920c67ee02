"""RunningAttempt: one claimed job being run, from its first step to its Outcome."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, assert_never, cast

from rowlock.errors import ClaimLost, DatabaseUnreachable, Stopped, Suspended, UnreadableArguments
from rowlock.flow.progress.attempt_io import AttemptIO
from rowlock.flow.progress.context import Context
from rowlock.flow.run.process_exits import raised_by_signal
from rowlock.flow.run.verdict import Verdict, with_failures
from rowlock.model import ids
from rowlock.model.job import Claim
from rowlock.model.outcome import NO_RESULT, Cancelled, Interrupted, Lost, Outcome, Waiting
from rowlock.telemetry import CURRENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from random import Random

    from rowlock.flow.kinds.handler import Call, Handler
    from rowlock.flow.progress.channel import AttemptChannel
    from rowlock.flow.progress.job_logs import CapturedRecord, JobLogCapture
    from rowlock.store.rows.jobs import Row

logger = logging.getLogger("rowlock.run")
StopReason = Literal["cancel", "lost", "shutdown", "timeout"]
_LAST_FLUSH_PAUSES: Final = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 2.0, 2.0)
"""Seconds before each try to write the last progress; while the database is away the outcome would wait as well."""


class AttemptRunner(Protocol):
    """Runs attempts on the loop, in a thread or in a child process. Cancelled when the attempt is asked to stop."""

    async def __call__(self, attempt: RunningAttempt) -> Outcome:
        """Run the attempt to its end and return its outcome."""


@dataclass(frozen=True, slots=True)
class AttemptServices:
    """What all attempts of a process share."""

    channel: AttemptChannel
    stopping: asyncio.Event
    """Set when the worker shuts down."""
    random: Random
    on_stop: Callable[[RunningAttempt], None]
    """Called when a handler is asked to stop; gives up on one that takes too long."""
    log_capture: JobLogCapture
    fill_outputs: Callable[[Row], Awaitable[Row]] | None = None
    """Replaces references to other steps in the arguments by their results; None: that is done already."""


class RunningAttempt:
    """A claimed job being run by this process."""

    __slots__ = (
        "_context",
        "_io",
        "_services",
        "_started",
        "_verdict",
        "claim",
        "handler",
        "over",
        "reason",
        "row",
        "since",
        "stopped_at",
        "task",
    )

    def __init__(self, row: Row, handler: Handler, services: AttemptServices, since: float) -> None:
        self.row, self.handler, self._services, self.since = row, handler, services, since
        self.claim = Claim(row["id"], row["fence"])
        self.task: asyncio.Task[None] | None = None
        self.reason: StopReason | None = None
        """Why the handler was asked to stop; None: it was not."""
        self.stopped_at: float | None = None
        """Loop time at which the handler was asked to stop first; None: it was not."""
        self.over = False
        """Whether its outcome is decided: its handler ended, or the worker gave up waiting for it."""
        self._started = False
        self._io: AttemptIO | None = None
        self._context: Context | None = None
        self._verdict: Verdict | None = None

    @property
    def io(self) -> AttemptIO:
        """Made at first use: most handlers neither ask for a context nor are asked to stop."""
        if self._io is None:
            services = self._services
            self._io = AttemptIO(
                self.row,
                services.channel,
                services.stopping,
                capture=services.log_capture,
                log_level=self.log_level,
                complete_args=self.handler.codec.completed,
                outcome_of=self.outcome_of,
            )
        return self._io

    @property
    def context(self) -> Context:
        """What handlers and middleware get; made at first use."""
        if self._context is None:
            self._context = Context(self.io)
        return self._context

    @property
    def log_level(self) -> int:
        """Records below this level are not stored with the job."""
        logs = self.handler.kind.logs
        return self._services.log_capture.level if logs is None else logs

    def add_log(self, record: CapturedRecord) -> None:
        """Store a log record with the job."""
        self.io.add_log(record)

    def completed(self, outcome: Outcome) -> Outcome:
        """The outcome of a handler that returned, with the items that failed on its way as errors."""
        if self._io is None or not self._io.failed_items:
            return outcome
        return with_failures(outcome, self._io.failed_items, self._io.failures)

    @property
    def verdict(self) -> Verdict:
        """Made at first use: a handler that returns nothing needs none."""
        if self._verdict is None:
            self._verdict = Verdict(self.row, self.handler, self._services.random)
        return self._verdict

    def stop(self, reason: StopReason) -> None:
        """Cancel the handler at its next await. The first reason counts, but a lost claim overrides it.

        A shutdown cancels again after an earlier reason: the handler may have swallowed that cancellation.
        """
        already = self.reason is not None and reason != "lost"
        if not already:
            self.reason = reason
            self.stopped_at = self.stopped_at or asyncio.get_running_loop().time()
            self.io.request_stop(lost=reason == "lost")
        # A task cancelled before its first step would never enter run(), and its outcome would be lost.
        if self.task is not None and self._started and (not already or reason == "shutdown"):
            self.task.cancel()
            self._services.on_stop(self)

    async def run(self, runner: AttemptRunner, done: Callable[[RunningAttempt, Outcome], None]) -> None:
        """Run the handler to its end and pass the outcome to `done`."""
        self._started = True
        try:
            if "$output" in self.row["args"] and self._services.fill_outputs is not None:
                self.row = await self._services.fill_outputs(self.row)
            outcome = self.stopped() if self.reason is not None else await runner(self)
        except asyncio.CancelledError as error:
            outcome = self.stopped(error)
        except DatabaseUnreachable as error:
            outcome = Interrupted(f"its inputs could not be read: {error}")
        except BaseException as error:
            if self._from_outside(error):
                # The process ends; the job goes back first.
                done(self, Interrupted(f"{type(error).__name__} in the handler"))
                raise
            outcome = self.raised(error)  # such as a child process that cannot be started
        if self._services.log_capture.pending:
            self._services.log_capture.drain()
        if self._io is not None:
            await self._settle(self._io)
        done(self, outcome)

    def _from_outside(self, error: BaseException) -> bool:
        """Whether a signal raised it, or Python closed the coroutine of an attempt whose loop is gone."""
        if isinstance(error, GeneratorExit):
            return self.task is not None and self.task is not _current_task()
        return raised_by_signal(error)

    async def _settle(self, io: AttemptIO) -> None:
        """Try for some seconds to write the last progress, before the outcome uses up the claim; never raises."""
        for pause in _LAST_FLUSH_PAUSES:
            try:
                if pause:
                    await asyncio.sleep(pause)
                return await io.settle()
            except DatabaseUnreachable as error:
                logger.debug("the last progress of job %s waits: %s", ids.encode(self.claim.job_id), error)
                if self.reason is not None:
                    break
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see above
                logger.debug("the last progress of job %s was not written: %r", ids.encode(self.claim.job_id), error)
                return None
        logger.warning("the last progress of job %s is lost: the database is away", ids.encode(self.claim.job_id))
        return None

    def outcome_of(self, error: BaseException) -> Outcome:
        """The outcome if the handler ends with this error now; a cancelled handler ends as its stop says."""
        return self.stopped(error) if isinstance(error, asyncio.CancelledError) else self.raised(error)

    def stopped(self, error: BaseException | None = None) -> Outcome:
        """The outcome of an attempt that was stopped."""
        match self.reason:
            case "cancel":
                return Cancelled({"reason": "cancelled while running"})
            case "lost":
                return Lost()
            case "shutdown":
                return Interrupted("shutdown")
            case "timeout":
                return self.verdict.raised(self.timeout_error())
            case None:
                # Something that the handler awaited was cancelled by other code: a failure like any other.
                stray = RuntimeError("the handler was cancelled, but not by its worker")
                stray.__cause__ = error
                return self.verdict.raised(stray)
            case _:
                assert_never(self.reason)

    def raised(self, error: BaseException) -> Outcome:
        """The outcome of an attempt whose handler raised, perhaps because it was asked to stop."""
        if isinstance(error, ClaimLost) or self.reason == "lost":
            return Lost()
        if isinstance(error, Suspended) and self.reason is None:
            return Waiting(error.signal, error.timeout)
        if isinstance(error, Stopped):
            return self.stopped(error)
        if self.reason == "cancel":
            return Cancelled({"reason": "cancelled while running", **self.verdict.error_fields(error)})
        return self.verdict.raised(error)

    def timeout_error(self) -> TimeoutError:
        """The error that the job's history shows for a timeout."""
        limit = self.handler.kind.timeout
        seconds = limit.total_seconds() if limit is not None else 0
        return TimeoutError(f"the attempt took longer than its timeout of {seconds:g} s")


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs
        return None


async def on_loop(attempt: RunningAttempt) -> Outcome:
    """Run a coroutine function on the worker's own loop."""
    function = cast("Callable[..., Awaitable[object]]", attempt.handler.function)
    return await in_process(attempt, lambda args, kwargs: function(*args, **kwargs), lambda: attempt.context)


async def in_process(attempt: RunningAttempt, call: Call, context: Callable[[], object]) -> Outcome:
    """Decode the arguments, call the handler, decide the outcome. context: makes the context for a handler with one."""
    handler = attempt.handler
    codec = handler.codec
    # Set in the attempt's own task, so also in the threads and tasks it starts: log records then carry the job.
    CURRENT.set(attempt.row)
    try:
        wanted = context() if codec.signature.context is not None else None
        args, kwargs = codec.bind(codec.decode(attempt.row["args"]), wanted)
        plain = handler.wrapper is None and handler.kind.timeout is None
    except UnreadableArguments as error:
        return attempt.verdict.unreadable(error)
    except Exception as error:  # noqa: BLE001 - a validator of the application
        return attempt.raised(error)
    try:
        value = await (call(args, kwargs) if plain else _call_wrapped(attempt, call, args, kwargs))
    except Exception as error:  # noqa: BLE001 - an exception decides the outcome
        # Others, such as sys.exit() or the panic of a native extension, are judged by RunningAttempt.run().
        return attempt.raised(error)
    return attempt.completed(NO_RESULT if value is None else attempt.verdict.returned(value))


async def _call_wrapped(
    attempt: RunningAttempt, call: Call, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> object:
    wrapper, limit = attempt.handler.wrapper, attempt.handler.kind.timeout
    called = call(args, kwargs) if wrapper is None else wrapper(attempt.context, args, kwargs, call)
    if limit is None:
        return await called
    loop = asyncio.get_running_loop()
    attempt.io.deadline = loop.time() + limit.total_seconds()
    timer = loop.call_later(limit.total_seconds(), attempt.stop, "timeout")
    try:
        return await called
    except asyncio.CancelledError as error:
        if attempt.reason != "timeout":
            raise
        raise attempt.timeout_error() from error
    finally:
        timer.cancel()
