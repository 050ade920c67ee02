"""How an attempt ends. Handlers return the first three; the engine makes the rest of exceptions and shutdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.model.duration import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Snooze:
    """Return it to run again later; the attempt is refunded."""

    after: timedelta

    def __init__(self, after: timedelta | str | float) -> None:
        object.__setattr__(self, "after", duration(after, name="Snooze"))


@dataclass(frozen=True, slots=True)
class Cancel:
    """Return it to end the job as cancelled, with a reason."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Partial:
    """Return it to end as completed_with_errors: a result, and what went wrong on the way."""

    result: object
    errors: Sequence[object]


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned; result is encoded JSON, None for no result."""

    result: str | None


NO_RESULT: Final = Completed(None)
"""What most handlers end with; made once."""


@dataclass(frozen=True, slots=True)
class CompletedWithErrors:
    """The handler returned a Partial."""

    result: str | None
    errors: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Retried:
    """The attempt failed and there is another one after the delay."""

    delay: timedelta
    error: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed and it was the last."""

    error: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to run again later."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Limited:
    """The handler was told to come back later: its rates, or the one of that key, are paused for so long."""

    delay: timedelta
    key: str | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A person or the handler ended it."""

    error: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The worker had to stop before the handler ended; the attempt is refunded."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The handler waits for a signal that has not come: the job gives its slot back; the attempt is refunded.

    timeout: how long it waits, None: for ever.
    """

    signal: str
    timeout: timedelta | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """This worker's code cannot read the arguments; the job waits for one that can, the attempt is refunded."""

    delay: timedelta
    error: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Died:
    """The child process the job had for itself died under it. held: a person decides whether it runs again."""

    delay: timedelta
    error: Mapping[str, object]
    held: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The claim is gone: nothing is written."""


Outcome = (
    Completed
    | CompletedWithErrors
    | Retried
    | Failed
    | Snoozed
    | Limited
    | Cancelled
    | Interrupted
    | Waiting
    | Unreadable
    | Died
    | Lost
)
