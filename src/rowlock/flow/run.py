"""Run: one attempt -> one Outcome."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from typing import TYPE_CHECKING, Final, Literal, assert_never

from rowlock.errors import ClaimLost, DatabaseUnreachable, InvalidArguments, InvalidResult
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
    from collections.abc import Callable
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


class Attempt:
    """A claimed job being run in this process."""

    __slots__ = ("context", "handler", "reason", "row", "since", "task")

    def __init__(self, row: Record, handler: Handler, context: Context, since: float) -> None:
        self.row, self.handler, self.context, self.since = row, handler, context, since
        self.task: asyncio.Task[None] | None = None
        self.reason: Reason | None = None
        """Why the handler was told to stop."""

    def stop(self, reason: Reason) -> None:
        """Cancel the handler at its next await. The first reason counts, but a lost claim ends all others."""
        if self.reason is None or reason == "lost":
            self.reason = reason
            self.context.tell()
            if self.task is not None:
                self.task.cancel()

    async def run(self, random: Random, done: Callable[[Attempt, Outcome], None]) -> None:
        """Run the handler to its end, whatever that is, and hand over the outcome."""
        try:
            value = await self._call()
            outcome = self._concluded(value)
        except asyncio.CancelledError as error:
            outcome = self._stopped(error, random)
        except ClaimLost:
            outcome = Lost()
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its outcome
            outcome = self._failed(error, random)
        except BaseException as error:
            # KeyboardInterrupt and SystemExit end the process; the job goes back first.
            done(self, Interrupted(f"{type(error).__name__} in the handler"))
            raise
        try:
            await self.context.settle()
        except (DatabaseUnreachable, asyncio.CancelledError):
            logger.debug("the last progress of job %s was not written", self.row["id"])
        done(self, outcome)

    async def _call(self) -> object:
        codec, kind = self.handler.codec, self.handler.kind
        args, kwargs = codec.bind(codec.decode(self.row["args"]), self.context)
        if kind.timeout is None:
            return await self.handler.function(*args, **kwargs)
        seconds = kind.timeout.total_seconds()
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
                return Cancelled({"reason": reason or "cancelled by its handler"})
            case Partial(result, errors):
                texts = [str(error) for error in errors]
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
                # The handler cancelled itself, or something it awaited did.
                return self._failed(error, random)
            case _:
                assert_never(self.reason)

    def _failed(self, error: BaseException, random: Random) -> Outcome:
        if self.reason == "lost":
            return Lost()
        if self.reason == "cancel":
            return Cancelled({"reason": "cancelled while running", **described(error, self.row["args"])})
        about = described(error, self.row["args"])
        if isinstance(error, InvalidArguments):
            return Failed({"reason": "undecodable", **about})
        if isinstance(error, InvalidResult):
            return Failed({"reason": "unserialisable result", **about})
        if self.row["attempt"] >= self.row["max_attempts"]:
            return Failed({"reason": "attempts exhausted" if self.row["max_attempts"] > 1 else "failed", **about})
        delay = self._next_delay(error, random)
        return Failed({"reason": "not retried", **about}) if delay is None else Retried(delay, about)

    def _next_delay(self, error: BaseException, random: Random) -> timedelta | None:
        try:
            return self.handler.kind.retry.next_delay(self.row["attempt"], error, random)
        except Exception:
            logger.exception("the retry policy of %s failed; the job is not retried", self.handler.name)
            return None


def described(error: BaseException, args: str) -> dict[str, object]:
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
    secrets = redact.secrets(json.loads(args)) if "$secret" in args else frozenset[str]()
    return {
        "type": name if module == "builtins" else f"{module}.{name}",
        "message": _storable(redact.scrub(text, secrets), 2000),
        "traceback": _storable(redact.scrub(trace, secrets), _ERROR_CHARACTERS),
    }


def _storable(text: str, limit: int) -> str:
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… {len(text) - limit:,} characters left out …\n{text[-half:]}"
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
