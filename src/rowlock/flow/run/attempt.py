"""Run: one attempt -> one Outcome."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, assert_never, cast

from rowlock.errors import ClaimLost, DatabaseUnreachable, Stopped, Suspended, UnreadableArguments
from rowlock.flow.progress.context import Context
from rowlock.flow.run.verdict import Verdict, with_failures
from rowlock.model.job import Claim
from rowlock.model.outcome import NO_RESULT, Cancelled, Interrupted, Lost, Outcome, Waiting
from rowlock.telemetry import CURRENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from random import Random

    from rowlock.flow.kinds.handler import Call, Handler
    from rowlock.flow.progress.attempt_io import Line
    from rowlock.flow.progress.job_logs import LogBook, Said
    from rowlock.store.rows.jobs import Row

logger = logging.getLogger("rowlock.run")
Reason = Literal["cancel", "lost", "shutdown", "timeout"]
_LAST_WORDS: Final = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 2.0, 2.0)
"""Seconds before each try to write the last progress: while the database is away the outcome would wait as well."""


class Place(Protocol):
    """Where an attempt is run; answers with its outcome. Cancelled when the attempt is told to stop."""

    async def __call__(self, attempt: Attempt) -> Outcome:
        """Run the attempt to its end."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all attempts of a process share. overdue: told when a handler is asked to stop; decides how long it may."""

    line: Line
    stopping: asyncio.Event
    random: Random
    overdue: Callable[[Attempt], None]
    book: LogBook
    outputs: Callable[[Row], Awaitable[Row]] | None = None
    """Puts the results of other steps where the arguments name them; None: it is done already."""


class Attempt:
    """A claimed job being run by this process."""

    __slots__ = (
        "_around",
        "_begun",
        "_context",
        "_verdict",
        "claim",
        "handler",
        "over",
        "reason",
        "row",
        "since",
        "task",
    )

    def __init__(self, row: Row, handler: Handler, around: Surroundings, since: float) -> None:
        self.row, self.handler, self._around, self.since = row, handler, around, since
        self.claim = Claim(row["id"], row["fence"])
        self.task: asyncio.Task[None] | None = None
        self.reason: Reason | None = None
        """Why the handler was told to stop."""
        self.over = False
        """Its outcome was handed over, by the handler's end or over its head."""
        self._begun = False
        self._context: Context | None = None
        self._verdict: Verdict | None = None

    @property
    def context(self) -> Context:
        """Made at first use: most handlers neither ask for it nor are told anything."""
        if self._context is None:
            around = self._around
            self._context = Context(
                self.row,
                self.claim,
                around.line,
                around.stopping,
                book=around.book,
                log_level=self.log_level,
                completed=self.handler.codec.completed,
            )
        return self._context

    @property
    def log_level(self) -> int:
        """Below it nothing that is logged is kept with the job."""
        logs = self.handler.kind.logs
        return self._around.book.level if logs is None else logs

    def hear(self, said: Said) -> None:
        """Keep a log line with the job."""
        self.context.hear(said)

    def concluded(self, outcome: Outcome) -> Outcome:
        """The outcome of a handler that returned: items that failed on its way are errors."""
        if self._context is None or not self._context.failed:
            return outcome
        return with_failures(outcome, self._context.failed, self._context.failures)

    @property
    def verdict(self) -> Verdict:
        """Made at first use: a handler that returns nothing needs none."""
        if self._verdict is None:
            self._verdict = Verdict(self.row, self.handler, self._around.random)
        return self._verdict

    def stop(self, reason: Reason) -> None:
        """Cancel the handler at its next await. The first reason counts, but a lost claim ends all others.

        A shutdown cancels again whatever was told before: the handler may have swallowed it.
        """
        told = self.reason is not None and reason != "lost"
        if not told:
            self.reason = reason
            self.context.tell(lost=reason == "lost")
        # A task cancelled before its first step never enters run(), and its outcome would be nobody's.
        if self.task is not None and self._begun and (not told or reason == "shutdown"):
            self.task.cancel()
            self._around.overdue(self)

    async def run(self, place: Place, done: Callable[[Attempt, Outcome], None]) -> None:
        """Run the handler to its end, whatever that is, and hand over the outcome."""
        self._begun = True
        try:
            if "$output" in self.row["args"] and self._around.outputs is not None:
                self.row = await self._around.outputs(self.row)
            outcome = self.stopped() if self.reason is not None else await place(self)
        except asyncio.CancelledError as error:
            outcome = self.stopped(error)
        except DatabaseUnreachable as error:
            outcome = Interrupted(f"its inputs could not be read: {error}")
        except Exception as error:  # noqa: BLE001 - no place to run it in, such as a child that cannot be started
            outcome = self.raised(error)
        except BaseException as error:
            # KeyboardInterrupt ends the process; the job goes back first.
            done(self, Interrupted(f"{type(error).__name__} in the handler"))
            raise
        if self._around.book.waiting:
            self._around.book.drain()
        if self._context is not None:
            await self._settle(self._context)
        done(self, outcome)

    async def _settle(self, context: Context) -> None:
        """Write the last progress, as the outcome uses up the claim. It is worth a moment, but never an outcome."""
        for pause in _LAST_WORDS:
            try:
                if pause:
                    await asyncio.sleep(pause)
                return await context.settle()
            except DatabaseUnreachable as error:
                logger.debug("the last progress of job %s waits: %s", self.row["id"], error)
                if self.reason is not None:
                    break
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see above
                logger.debug("the last progress of job %s was not written: %r", self.row["id"], error)
                return None
        logger.warning("the last progress of job %s is lost: the database is away", self.row["id"])
        return None

    def stopped(self, error: BaseException | None = None) -> Outcome:
        """What becomes of an attempt that was stopped, by whoever."""
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
                # Something the handler awaited was cancelled by somebody else: a failure like any other.
                stray = RuntimeError("the handler was cancelled, but not by its worker")
                stray.__cause__ = error
                return self.verdict.raised(stray)
            case _:
                assert_never(self.reason)

    def raised(self, error: BaseException) -> Outcome:
        """What becomes of an attempt whose handler raised, perhaps because it was stopped."""
        if isinstance(error, ClaimLost) or self.reason == "lost":
            return Lost()
        if isinstance(error, Suspended) and self.reason is None:
            return Waiting(error.signal, error.timeout)
        if isinstance(error, Stopped):
            return self.stopped(error)
        if self.reason == "cancel":
            return Cancelled({"reason": "cancelled while running", **self.verdict.described(error)})
        return self.verdict.raised(error)

    def timeout_error(self) -> TimeoutError:
        """What a timeout is called in the job's history."""
        limit = self.handler.kind.timeout
        seconds = limit.total_seconds() if limit is not None else 0
        return TimeoutError(f"the attempt took longer than its timeout of {seconds:g} s")


async def on_loop(attempt: Attempt) -> Outcome:
    """Run a coroutine function on the worker's own loop."""
    function = cast("Callable[..., Awaitable[object]]", attempt.handler.function)
    return await in_process(attempt, lambda args, kwargs: function(*args, **kwargs), lambda: attempt.context)


async def in_process(attempt: Attempt, call: Call, context: Callable[[], object]) -> Outcome:
    """Decode, call, judge. context: makes what a handler that asks for it is given."""
    handler = attempt.handler
    codec = handler.codec
    # The attempt's own task: whatever is logged in it, in the threads it hands on to, or by tasks it starts.
    CURRENT.set(attempt.row)
    try:
        asked = context() if codec.signature.context is not None else None
        args, kwargs = codec.bind(codec.decode(attempt.row["args"]), asked)
        plain = handler.around is None and handler.kind.timeout is None
    except UnreadableArguments as error:
        return attempt.verdict.unreadable(error)
    except Exception as error:  # noqa: BLE001 - a validator of the application
        return attempt.raised(error)
    try:
        value = await (call(args, kwargs) if plain else _within_timeout(attempt, call, args, kwargs))
    except (Exception, SystemExit, Stopped) as error:  # noqa: BLE001 - whatever a handler raises is its outcome
        # sys.exit() in a handler ends the attempt, not the worker that its neighbours run in.
        return attempt.raised(error)
    return attempt.concluded(NO_RESULT if value is None else attempt.verdict.returned(value))


async def _within_timeout(
    attempt: Attempt, call: Call, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> object:
    around, limit = attempt.handler.around, attempt.handler.kind.timeout
    called = call(args, kwargs) if around is None else around(attempt.context, args, kwargs, call)
    if limit is None:
        return await called
    loop = asyncio.get_running_loop()
    attempt.context.deadline = loop.time() + limit.total_seconds()
    timer = loop.call_later(limit.total_seconds(), attempt.stop, "timeout")
    try:
        return await called
    except asyncio.CancelledError as error:
        if attempt.reason != "timeout":
            raise
        raise attempt.timeout_error() from error
    finally:
        timer.cancel()
