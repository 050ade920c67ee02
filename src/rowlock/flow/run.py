"""Run: one attempt -> one Outcome."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, assert_never

from rowlock.errors import ClaimLost, InvalidArguments, InvalidResult
from rowlock.model import redact
from rowlock.model.outcome import (
    Cancel,
    Cancelled,
    Completed,
    CompletedWithErrors,
    Failed,
    Interrupted,
    Lost,
    Outcome,
    Partial,
    Retried,
    Snooze,
    Snoozed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta
    from random import Random

    from rowlock.flow.context import Context
    from rowlock.flow.handler import Handler
    from rowlock.store.database import Record

logger = logging.getLogger("rowlock.run")
Reason = Literal["cancel", "lost", "shutdown"]
MAX_REFUNDS: Final = 10_000
"""Snoozes and interrupts after which a job counts as failed."""
_ERROR_CHARACTERS: Final = 16_000
_MESSAGE_CHARACTERS: Final = 2000


class Attempt:
    """A claimed job being run in this process."""

    __slots__ = ("_begun", "context", "handler", "over", "reason", "row", "since", "task")

    def __init__(self, row: Record, handler: Handler, context: Context, since: float) -> None:
        self.row, self.handler, self.context, self.since = row, handler, context, since
        self.task: asyncio.Task[None] | None = None
        self.reason: Reason | None = None
        """Why the handler was told to stop."""
        self.over = False
        """Its outcome was handed over, by the handler's end or over its head."""
        self._begun = False

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

    async def run(self, random: Random, done: Callable[[Attempt, Outcome], None]) -> None:
        """Run the handler to its end, whatever that is, and hand over the outcome."""
        self._begun = True
        try:
            outcome = await self._outcome(random)
        except BaseException as error:
            # KeyboardInterrupt ends the process; the job goes back first.
            done(self, Interrupted(f"{type(error).__name__} in the handler"))
            raise
        try:
            await self.context.settle()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - progress is never worth an outcome
            logger.debug("the last progress of job %s was not written: %r", self.row["id"], error)
        done(self, outcome)

    async def _outcome(self, random: Random) -> Outcome:  # noqa: PLR0911 - one return per way to end
        codec = self.handler.codec
        if self.reason is not None:
            return self._stopped(asyncio.CancelledError(), random)
        try:
            args, kwargs = codec.bind(codec.decode(self.row["args"]), self.context)
        except InvalidArguments as error:
            return Failed({"reason": "undecodable", **self._described(error)})
        except Exception as error:  # noqa: BLE001 - a validator of the application
            return self._failed(error, random)
        try:
            value = await self._call(args, kwargs)
        except asyncio.CancelledError as error:
            return self._stopped(error, random)
        except ClaimLost:
            return Lost()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a handler raises is its outcome
            # sys.exit() in a handler ends the attempt, not the worker that its neighbours run in.
            return self._failed(error, random)
        try:
            return self._concluded(value)
        except InvalidResult as error:
            return Failed({"reason": "unserialisable result", **self._described(error)})
        except Exception as error:  # noqa: BLE001 - a serialiser of the application
            return self._failed(error, random)

    async def _call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        timeout_after = self.handler.kind.timeout
        if timeout_after is None:
            return await self.handler.function(*args, **kwargs)
        seconds = timeout_after.total_seconds()
        self.context.deadline = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout(seconds) as timeout:
                return await self.handler.function(*args, **kwargs)
        except TimeoutError as error:
            if timeout.expired():
                message = f"the attempt took longer than its timeout of {seconds:g} s"
                raise TimeoutError(message) from error
            raise

    def _concluded(self, value: object) -> Outcome:
        match value:
            case None:
                return Completed(None)
            case Snooze(after):
                if self.row["refunds"] >= MAX_REFUNDS:
                    return Failed({"reason": "snoozed too often", "snoozes": self.row["refunds"]})
                return Snoozed(after)
            case Cancel(reason):
                return Cancelled({"reason": self._told(reason) if reason else "cancelled by its handler"})
            case Partial(result, errors):
                texts = [self._told(error) for error in errors]
                return CompletedWithErrors(self.handler.codec.encode_result(result), {"errors": texts})
            case _:
                return Completed(self.handler.codec.encode_result(value))

    def _stopped(self, error: asyncio.CancelledError, random: Random) -> Outcome:
        match self.reason:
            case "cancel":
                return Cancelled({"reason": "cancelled while running"})
            case "lost":
                return Lost()
            case "shutdown":
                return Interrupted("shutdown")
            case None:
                # Something the handler awaited was cancelled by somebody else: a failure like any other.
                stray = RuntimeError("the handler was cancelled, but not by its worker")
                stray.__cause__ = error
                return self._failed(stray, random)
            case _:
                assert_never(self.reason)

    def _failed(self, error: BaseException, random: Random) -> Outcome:
        if self.reason == "lost":
            return Lost()
        if self.reason == "cancel":
            return Cancelled({"reason": "cancelled while running", **self._described(error)})
        about = self._described(error)
        if self.row["attempt"] >= self.row["max_attempts"]:
            return Failed({"reason": "attempts exhausted" if self.row["max_attempts"] > 1 else "failed", **about})
        delay = self._next_delay(error, random)
        return Failed({"reason": "not retried", **about}) if delay is None else Retried(delay, about)

    def _next_delay(self, error: BaseException, random: Random) -> timedelta | None:
        try:
            # The job's own max_attempts may be more than its kind's.
            retry = replace(self.handler.kind.retry, attempts=self.row["max_attempts"])
            asked = RuntimeError("sys.exit()") if isinstance(error, SystemExit) else error
            return retry.next_delay(self.row["attempt"], asked, random)
        except Exception:
            logger.exception("the retry policy of %s failed; the job is not retried", self.handler.name)
            return None

    def _described(self, error: BaseException) -> dict[str, object]:
        return described(error, secrets_of(self.row["args"]))

    def _told(self, value: object) -> str:
        return _storable(redact.scrub(str(value), secrets_of(self.row["args"])), _MESSAGE_CHARACTERS)


def secrets_of(args: str) -> frozenset[str]:
    """The secret values among encoded arguments."""
    return redact.secrets(json.loads(args)) if "$secret" in args else frozenset()


def described(error: BaseException, secrets: frozenset[str]) -> dict[str, object]:
    """An exception as stored: class, message, traceback; shortened in the middle, the arguments' secrets removed."""
    name = type(error).__qualname__
    module = type(error).__module__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception whose own text fails must not fail its job's bookkeeping
        text = "(its message cannot be printed)"
    try:
        trace = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - as above
        trace = name
    return {
        "type": name if module == "builtins" else f"{module}.{name}",
        "message": _storable(redact.scrub(text, secrets), _MESSAGE_CHARACTERS),
        "traceback": _storable(redact.scrub(trace, secrets), _ERROR_CHARACTERS),
    }


def _storable(text: str, limit: int) -> str:
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… {len(text) - limit:,} characters left out …\n{text[-half:]}"
    return redact.storable(text)
