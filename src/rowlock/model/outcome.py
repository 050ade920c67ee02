"""How an attempt ends. Handlers return Snooze, Cancel or Partial; the engine makes the other outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.model.times.duration import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Snooze:
    """A handler returns it to run again later; the attempt does not count."""

    after: timedelta

    def __init__(self, after: timedelta | str | float) -> None:
        object.__setattr__(self, "after", duration(after, name="Snooze"))


@dataclass(frozen=True, slots=True)
class Cancel:
    """A handler returns it to end the job as cancelled, with a reason."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Partial:
    """A handler returns it to end the job as completed_with_errors: a result and the errors met on the way."""

    result: object
    errors: Sequence[object]


Returned: TypeAlias = Partial | Snooze | Cancel
"""What a handler may return besides its result; the next step of a chain never gets it."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned; result is encoded JSON, None for no result."""

    result: str | None


NO_RESULT: Final = Completed(None)
"""The outcome of most handlers, made once."""


@dataclass(frozen=True, slots=True)
class CompletedWithErrors:
    """The handler returned a Partial."""

    result: str | None
    errors: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Retried:
    """The attempt failed; another one follows after the delay."""

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
    """Another service asked the handler to come back later: its rates, or the one of that key, pause for the delay."""

    delay: timedelta
    key: str | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A person or the handler cancelled the job."""

    error: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The worker stopped before the handler ended; the attempt does not count."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The handler waits for a signal that has not come: the job leaves its slot; the attempt does not count.

    timeout: how long it waits; None: without limit.
    """

    signal: str
    timeout: timedelta | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """This worker's code cannot read the arguments; the job waits for one that can. The attempt does not count."""

    delay: timedelta
    error: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Died:
    """The child process that ran only this job died. held: a person decides whether it runs again."""

    delay: timedelta
    error: Mapping[str, object]
    held: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The claim was lost: nothing is written."""


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
