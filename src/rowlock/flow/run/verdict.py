"""Verdict: decides the Outcome of an attempt from what its handler returned or raised, in whichever executor."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from rowlock.errors import InvalidOption, InvalidResult, RateLimited, UndecodableArguments
from rowlock.model import redact
from rowlock.model.failure import application_frame, error_fields, shortened
from rowlock.model.outcome import (
    NO_RESULT,
    Cancel,
    Cancelled,
    Completed,
    CompletedWithErrors,
    Died,
    Failed,
    Limited,
    Outcome,
    Partial,
    Retried,
    Snooze,
    Snoozed,
    Unreadable,
)
from rowlock.model.progress import Skip
from rowlock.model.times.duration import duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from rowlock.errors import UnreadableArguments
    from rowlock.flow.kinds.handler import Handler
    from rowlock.model.times.duration import Duration
    from rowlock.store.rows.jobs import Row

logger = logging.getLogger("rowlock.run")
MAX_REFUNDS: Final = 10_000
"""Snoozes and interrupts after which a job counts as failed."""
_NEXT_READER: Final = 1.0
"""Seconds after which the next worker tries a job whose arguments this one cannot read."""
_READ_AGAIN: Final = (5.0, 300.0)
"""Seconds until the same worker tries again: the first and the longest pause, doubled in between."""
_READERS: Final = 32
"""Workers listed with a job that they could not read."""
_LONGEST_PAUSE: Final = 300
"""The most seconds between two attempts of a job that kills its process."""


class Verdict:
    """Decides for one attempt, by its row and its kind's options."""

    __slots__ = ("_handler", "_random", "_row")

    def __init__(self, row: Row, handler: Handler, random: Random) -> None:
        self._row, self._handler, self._random = row, handler, random

    def returned(self, value: object) -> Outcome:
        """The outcome of a handler that returned this value."""
        if value is None:
            return NO_RESULT
        try:
            return self._returned(value)
        except InvalidResult as error:
            return Failed({"reason": "unserialisable result", **self.error_fields(error)})
        except Exception as error:  # noqa: BLE001 - a serialiser of the application
            return self.raised(error)

    def _returned(self, value: object) -> Outcome:
        match value:
            case Snooze(after):
                if self._row["refunds"] >= MAX_REFUNDS:
                    return Failed({"reason": "snoozed too often", **self._refunds()})
                return Snoozed(after)
            case RateLimited():
                return self._limited(value)
            case Cancel(reason):
                return Cancelled({"reason": self._scrubbed(reason) if reason else "cancelled by its handler"})
            case Partial(result, errors):
                texts = [self._scrubbed(error) for error in errors]
                return CompletedWithErrors(self._encoded(result), {"errors": texts})
            case _:
                return Completed(self._encoded(value))

    def _encoded(self, result: object) -> str | None:
        """The result as JSON; parts that hold a secret argument are marked as secret like it."""
        text = self._handler.codec.encode_result(result)
        secrets = redact.secrets_in(self._row["args"])
        if text is None or not secrets:
            return text
        return json.dumps(redact.conceal(json.loads(text), secrets), ensure_ascii=False, separators=(",", ":"))

    def _refunds(self) -> dict[str, object]:
        times = self._row["refunds"]
        message = (
            f"the job was put off {times:,} times (snoozes, rate limits, signals, shutdowns); the limit is "
            f"{MAX_REFUNDS:,}. Use a schedule, or have the job enqueue its successor, for work that never ends."
        )
        return {"snoozes": times, "message": message}

    def _limited(self, limited: RateLimited) -> Outcome:
        if self._row["refunds"] >= MAX_REFUNDS:
            return Failed({"reason": "limited too often", **self._refunds()})
        return Limited(duration(cast("Duration", limited.after), "RateLimited"), limited.key)

    def raised(self, error: BaseException) -> Outcome:
        """The outcome of a handler that raised this."""
        if isinstance(error, Skip):
            return Cancelled({"reason": self._scrubbed(error) or "skipped by its handler"})
        if isinstance(error, RateLimited):
            try:
                return self._limited(error)
            except InvalidOption as wrong:
                error = wrong
        about = self.error_fields(error)
        if isinstance(error, UndecodableArguments):
            return Failed({"reason": "undecodable", **about})
        most = self._row["max_attempts"]
        if self._row["attempt"] >= most:
            return Failed({"reason": "attempts exhausted" if most > 1 else "failed", **about})
        delay = self._next_delay(error)
        return Failed({"reason": "not retried", **about}) if delay is None else Retried(delay, about)

    def unreadable(self, error: UnreadableArguments) -> Unreadable:
        """The outcome when the arguments do not fit this worker's code; another worker may be able to read them."""
        before = json.loads(self._row["unread"] or "{}")
        me, readers = self._row["claimed_by"], before.get("workers", [])
        times = before.get("times", 0) + 1
        if me in readers:
            seconds = min(_READ_AGAIN[1], _READ_AGAIN[0] * 2 ** min(times - len(readers) - 1, 10))
            # Spread out: a whole backlog may have become unreadable at once.
            delay = timedelta(seconds=seconds * self._random.uniform(0.8, 1))
        else:
            delay, readers = timedelta(seconds=_NEXT_READER), [*readers, me][-_READERS:]
        about = self.error_fields(error)
        if error.__cause__ is None:
            del about["traceback"]  # of the decoder: the message says it all
        tries = {"times": times, "workers": readers}
        return Unreadable(delay, {"reason": "unreadable", "cause": error.cause, "unreadable": tries, **about})

    def died(self, how: str, max_deaths: int) -> Outcome:
        """The outcome when the job's child process died: on_worker_lost decides, as after a lost worker."""
        deaths = self._row["deaths"] + 1
        about = {"type": "ProcessDied", "message": how, "deaths": deaths}
        match self._handler.kind.on_worker_lost:
            case "fail":
                return Failed({"reason": "its process died", **about})
            case "hold":
                return Died(timedelta(0), {"reason": "its process died", **about}, held=True)
            case "retry":
                limit = self._handler.kind.retry.loss_limit
                if deaths >= (max_deaths if limit is None else limit or math.inf):
                    return Failed({"reason": "quarantined", **about})
                delay = timedelta(seconds=min(_LONGEST_PAUSE, 2**deaths) * self._random.random())
                return Died(delay, {"reason": "its process died", **about})

    def error_fields(self, error: BaseException) -> dict[str, object]:
        """An exception as it is stored, without the secret arguments, and the function that it came from."""
        about = error_fields(error, redact.secrets_in(self._row["args"]))
        frame = application_frame(str(about["traceback"]))
        return about if frame is None else {**about, "frame": frame}

    def _next_delay(self, error: BaseException) -> timedelta | None:
        try:
            # The job's own max_attempts may be more than its kind's.
            retry = replace(self._handler.kind.retry, attempts=self._row["max_attempts"])
            return retry.next_delay(self._row["attempt"], error, self._random)
        except BaseException:  # code of the application, which must not end the worker
            logger.exception("the retry policy of %s failed; the job is not retried", self._handler.name)
            return None

    def _scrubbed(self, value: object) -> str:
        return shortened(redact.scrub(str(value), redact.secrets_in(self._row["args"])))


def with_failures(outcome: Outcome, count: int, sentences: Sequence[str]) -> Outcome:
    """The outcome of a handler that returned although items failed: completed becomes completed_with_errors."""
    match outcome:
        case Completed(result):
            before: list[object] = []
        case CompletedWithErrors(result, errors):
            before = list(cast("Sequence[object]", errors["errors"]))
        case _:
            return outcome
    more = [f"… and {count - len(sentences)} more"] if count > len(sentences) else []
    texts = [shortened(sentence) for sentence in sentences]
    return CompletedWithErrors(
        result, {"reason": "items failed", "items_failed": count, "errors": [*before, *texts, *more]}
    )
