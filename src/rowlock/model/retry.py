"""Retry: whether and when a failed attempt is tried again."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from rowlock.errors import InvalidOption
from rowlock.model.spelling.keyword_options import suggests_options
from rowlock.model.times.duration import Duration, duration, humanise

if TYPE_CHECKING:
    from random import Random

_Classes: TypeAlias = tuple[type[BaseException], ...]
Errors: TypeAlias = type[BaseException] | _Classes
Delay: TypeAlias = Callable[[int, BaseException], Duration | None]

MOST_ATTEMPTS: Final = 32_767  # the column is a smallint
MOST_LOSSES: Final = 32_000
Losses: TypeAlias = int | Literal["unlimited"]


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How often and how fast a job is tried again: ``Retry(attempts=5, minimum="30s", jitter="30s", on=(OSError,))``.

    An exception group is tried again if all its exceptions are. What is outside Exception (sys.exit(), the panic of a
    native extension) counts as an Exception.
    """

    attempts: int
    """All attempts including the first, 1 to 32767; 1 means no retry."""
    minimum: timedelta
    """Delay after the first failed attempt."""
    multiplier: float
    """Each further delay is so many times longer; 1 keeps the delay, 2 doubles it."""
    maximum: timedelta
    """Upper bound of the growing delay; jitter and an error's own `retry_after` may exceed it."""
    jitter: timedelta | None
    """Most that is added at random; None: a quarter of the delay, "0s": nothing."""
    on: _Classes
    """Exception classes that are tried again; what is outside Exception, such as sys.exit(), counts as one."""
    never: _Classes
    """Exception classes among them that are not."""
    delay: Delay | None
    """`delay(attempt, error)` computes the delay instead, None stops; `attempts`, `on` and `never` still apply."""
    losses: Losses | None
    """Losses after which the job fails, 1 to 32000, or "unlimited"; None: as many as its attempts, but at least 2.

    A job is lost when its worker dies or falls silent, or when it makes no progress for the `progress_timeout` of its
    lane. The deaths of its own child process are limited to the same number; None: 3. A loss uses up no attempt; a
    shutdown is no loss.
    """

    @suggests_options("Retry()")
    def __init__(
        self,
        attempts: int = 5,
        *,
        minimum: Duration = "1s",
        multiplier: float = 2.0,
        maximum: Duration = "1h",
        jitter: Duration | None = None,
        on: Errors = (Exception,),
        never: Errors = (),
        delay: Delay | None = None,
        losses: Losses | None = None,
    ) -> None:
        """Check every value, so that a wrong one fails where it is written and not at the first failure."""
        values = {
            "attempts": _checked_attempts(attempts),
            "minimum": duration(minimum, "Retry.minimum"),
            "multiplier": _checked_multiplier(multiplier),
            "maximum": duration(maximum, "Retry.maximum"),
            "jitter": None if jitter is None else duration(jitter, "Retry.jitter"),
            "on": _checked_errors(on, "on"),
            "never": _checked_errors(never, "never"),
            "delay": _checked_delay(delay),
            "losses": _checked_losses(losses),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.minimum > self.maximum:
            shortest, longest = humanise(self.minimum), humanise(self.maximum)
            message = f"Retry.minimum: {shortest} is above Retry.maximum, {longest}. Raise maximum or lower minimum."
            raise InvalidOption(message)

    @property
    def loss_limit(self) -> int | None:
        """The limit on losses as it is stored; 0: unlimited, None: the default."""
        return 0 if self.losses == "unlimited" else self.losses

    def next_delay(self, attempt: int, error: BaseException, random: Random) -> timedelta | None:
        """Say how long to wait after `attempt` (1 = the first) failed with `error`; None means no further attempt."""
        if attempt >= self.attempts or not _covers(self.on, error, all) or _covers(self.never, error, any):
            return None
        if self.delay is not None:
            chosen = self.delay(attempt, error)
            return None if chosen is None else duration(chosen, "Retry.delay returned")
        grown = self._grown(attempt)
        jitter = grown / 4 if self.jitter is None else self.jitter
        return max(grown + jitter * random.random(), _asked_for(error))

    def _grown(self, attempt: int) -> timedelta:
        try:
            seconds = self.minimum.total_seconds() * self.multiplier ** (attempt - 1)
        except OverflowError:
            return self.maximum if self.minimum else self.minimum
        return min(timedelta(seconds=min(seconds, self.maximum.total_seconds())), self.maximum)


def _covers(classes: _Classes, error: BaseException, quorum: Callable[[list[bool]], bool]) -> bool:
    """Match like ``except``; of an exception group, each error is matched by itself."""
    if isinstance(error, classes):
        return True
    if not isinstance(error, (Exception, BaseExceptionGroup)):
        return Exception in classes
    if isinstance(error, BaseExceptionGroup):
        return quorum([_covers(classes, inner, quorum) for inner in error.exceptions])
    return False


def _asked_for(error: BaseException) -> timedelta:
    """Read `retry_after` of an error (HTTP 429 and its like); 0 if it is no duration."""
    # Foreign code: a property that raises must not turn a plain failure into a broken worker.
    with suppress(BaseException):
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            return duration(asked, "retry_after")
    return timedelta(0)


def _checked_attempts(attempts: int) -> int:
    if isinstance(attempts, bool) or not isinstance(attempts, int) or not 1 <= attempts <= MOST_ATTEMPTS:
        message = (
            f"Retry.attempts: {attempts!r} is not a whole number from 1 to {MOST_ATTEMPTS}. "
            "It counts the first attempt too: 1 means no retry."
        )
        raise InvalidOption(message)
    return attempts


def _checked_losses(losses: Losses | None) -> Losses | None:
    if losses is None or losses == "unlimited":
        return losses
    if isinstance(losses, bool) or not isinstance(losses, int) or not 1 <= losses <= MOST_LOSSES:
        message = (
            f'Retry.losses: {losses!r} is neither a whole number from 1 to {MOST_LOSSES} nor "unlimited". '
            "1 fails the job with its first loss."
        )
        raise InvalidOption(message)
    return losses


def _checked_multiplier(multiplier: float) -> float:
    number = isinstance(multiplier, int | float) and not isinstance(multiplier, bool)
    if not number or not math.isfinite(multiplier) or multiplier < 1:
        message = f"Retry.multiplier: {multiplier!r} is not a number of at least 1. 1 keeps the delay, 2 doubles it."
        raise InvalidOption(message)
    return float(multiplier)


def _checked_errors(errors: Errors, name: str) -> _Classes:
    classes = errors if isinstance(errors, tuple) else (errors,)
    for item in classes:
        if not (isinstance(item, type) and issubclass(item, BaseException)):
            message = f"Retry.{name}: {item!r} is not an exception class. Write {name}=(OSError, TimeoutError)."
            raise InvalidOption(message)
    return classes


def _checked_delay(delay: Delay | None) -> Delay | None:
    if delay is not None and not callable(delay):
        message = (
            f"Retry.delay: {delay!r} is not a function of (attempt, error). For a fixed delay write "
            'Retry(minimum="30s", multiplier=1, jitter="0s").'
        )
        raise InvalidOption(message)
    return delay
