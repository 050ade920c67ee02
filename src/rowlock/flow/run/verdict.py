"""Verdict: what a handler returned or raised -> an Outcome; the same on the loop, in a thread and in a child."""

from __future__ import annotations

import json
import logging
import traceback
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from rowlock.errors import InvalidOption, InvalidResult, RateLimited
from rowlock.model import redact
from rowlock.model.duration import duration
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

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from rowlock.errors import UnreadableArguments
    from rowlock.flow.kinds.handler import Handler
    from rowlock.model.duration import Duration
    from rowlock.store.rows.jobs import Row

logger = logging.getLogger("rowlock.run")
MAX_REFUNDS: Final = 10_000
"""Snoozes and interrupts after which a job counts as failed."""
_NEXT_READER: Final = 1.0
"""Seconds after which the next worker looks at a job this one cannot read."""
_READ_AGAIN: Final = (5.0, 300.0)
"""Seconds until a worker looks at it once more: doubled from the first to the second."""
_READERS: Final = 32
"""Workers remembered with a job they could not read."""
_LONGEST_PAUSE: Final = 300
"""Seconds between two attempts of a job that kills its process."""
_ERROR_CHARACTERS: Final = 16_000
_MESSAGE_CHARACTERS: Final = 2000


class Verdict:
    """Judges one attempt by its row and its kind."""

    __slots__ = ("_handler", "_random", "_row")

    def __init__(self, row: Row, handler: Handler, random: Random) -> None:
        self._row, self._handler, self._random = row, handler, random

    def returned(self, value: object) -> Outcome:
        """The handler returned this."""
        if value is None:
            return NO_RESULT
        try:
            return self._concluded(value)
        except InvalidResult as error:
            return Failed({"reason": "unserialisable result", **self.described(error)})
        except Exception as error:  # noqa: BLE001 - a serialiser of the application
            return self.raised(error)

    def _concluded(self, value: object) -> Outcome:
        match value:
            case Snooze(after):
                if self._row["refunds"] >= MAX_REFUNDS:
                    return Failed({"reason": "snoozed too often", "snoozes": self._row["refunds"]})
                return Snoozed(after)
            case RateLimited():
                return self._limited(value)
            case Cancel(reason):
                return Cancelled({"reason": self._told(reason) if reason else "cancelled by its handler"})
            case Partial(result, errors):
                texts = [self._told(error) for error in errors]
                return CompletedWithErrors(self._handler.codec.encode_result(result), {"errors": texts})
            case _:
                return Completed(self._handler.codec.encode_result(value))

    def _limited(self, told: RateLimited) -> Outcome:
        if self._row["refunds"] >= MAX_REFUNDS:
            return Failed({"reason": "limited too often", "snoozes": self._row["refunds"]})
        return Limited(duration(cast("Duration", told.after), "RateLimited"), told.key)

    def raised(self, error: BaseException) -> Outcome:
        """The handler, or something on its behalf, raised this."""
        if isinstance(error, Skip):
            return Cancelled({"reason": self._told(error) or "skipped by its handler"})
        if isinstance(error, RateLimited):
            try:
                return self._limited(error)
            except InvalidOption as wrong:
                error = wrong
        about = self.described(error)
        most = self._row["max_attempts"]
        if self._row["attempt"] >= most:
            return Failed({"reason": "attempts exhausted" if most > 1 else "failed", **about})
        delay = self._next_delay(error)
        return Failed({"reason": "not retried", **about}) if delay is None else Retried(delay, about)

    def unreadable(self, error: UnreadableArguments) -> Unreadable:
        """The arguments do not fit the code of this worker: another one may be able to read them, now or later."""
        before = json.loads(self._row["unread"] or "{}")
        me, readers = self._row["claimed_by"], before.get("workers", [])
        times = before.get("times", 0) + 1
        if me in readers:
            seconds = min(_READ_AGAIN[1], _READ_AGAIN[0] * 2 ** min(times - len(readers) - 1, 10))
            # Spread out: a whole backlog may have become unreadable at one moment.
            delay = timedelta(seconds=seconds * self._random.uniform(0.8, 1))
        else:
            delay, readers = timedelta(seconds=_NEXT_READER), [*readers, me][-_READERS:]
        about = self.described(error)
        if error.__cause__ is None:
            del about["traceback"]  # of the decoder: the message says it all
        tries = {"times": times, "workers": readers}
        return Unreadable(delay, {"reason": "unreadable", "cause": error.cause, "unreadable": tries, **about})

    def died(self, how: str, max_deaths: int) -> Outcome:
        """The process the job had for itself died under it: the kind's policy decides, as after a lost worker."""
        deaths = self._row["deaths"] + 1
        about = {"type": "ProcessDied", "message": how, "deaths": deaths}
        match self._handler.kind.on_worker_lost:
            case "fail":
                return Failed({"reason": "its process died", **about})
            case "hold":
                return Died(timedelta(0), {"reason": "its process died", **about}, held=True)
            case "retry":
                if deaths >= max_deaths:
                    return Failed({"reason": "quarantined", **about})
                delay = timedelta(seconds=min(_LONGEST_PAUSE, 2**deaths) * self._random.random())
                return Died(delay, {"reason": "its process died", **about})

    def described(self, error: BaseException) -> dict[str, object]:
        """An exception as stored, without the arguments' secrets."""
        return described(error, secrets_of(self._row["args"]))

    def _next_delay(self, error: BaseException) -> timedelta | None:
        try:
            # The job's own max_attempts may be more than its kind's.
            retry = replace(self._handler.kind.retry, attempts=self._row["max_attempts"])
            asked = RuntimeError("sys.exit()") if isinstance(error, SystemExit) else error
            return retry.next_delay(self._row["attempt"], asked, self._random)
        except Exception:
            logger.exception("the retry policy of %s failed; the job is not retried", self._handler.name)
            return None

    def _told(self, value: object) -> str:
        return _storable(redact.scrub(str(value), secrets_of(self._row["args"])), _MESSAGE_CHARACTERS)


def with_failures(outcome: Outcome, count: int, sentences: Sequence[str]) -> Outcome:
    """The outcome of a handler that returned although items failed: one that completes does so with errors."""
    match outcome:
        case Completed(result):
            before: list[object] = []
        case CompletedWithErrors(result, errors):
            before = list(cast("Sequence[object]", errors["errors"]))
        case _:
            return outcome
    more = [f"… and {count - len(sentences)} more"] if count > len(sentences) else []
    texts = [_storable(sentence, _MESSAGE_CHARACTERS) for sentence in sentences]
    return CompletedWithErrors(
        result, {"reason": "items failed", "items_failed": count, "errors": [*before, *texts, *more]}
    )


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
        "type": _storable(name if module == "builtins" else f"{module}.{name}", _MESSAGE_CHARACTERS),
        "message": _storable(redact.scrub(text, secrets), _MESSAGE_CHARACTERS),
        "traceback": _storable(redact.scrub(trace, secrets), _ERROR_CHARACTERS),
    }


def _storable(text: str, limit: int) -> str:
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… {len(text) - limit:,} characters left out …\n{text[-half:]}"
    return redact.storable(text)
