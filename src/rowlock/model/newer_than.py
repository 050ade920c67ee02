"""newer_than(): keeps a late job from overwriting the work of a newer one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol, TypeVar

from rowlock.errors import InvalidOption
from rowlock.model.progress import Skip


class Ordered(Protocol):
    """A value that can be ordered: a datetime, a number, a version."""

    def __lt__(self, other: Any, /) -> bool: ...  # noqa: ANN401 - the type's own


V = TypeVar("V", bound=Ordered)


def newer_than(mine: V, theirs: V | None, *, by: str | None = None) -> None:
    """Raise Skip("superseded by …") if theirs is newer than mine; else return. by: how the message names theirs.

    Inside an item the item is skipped; a handler that does not catch it ends its job as cancelled, with that reason.
    Equal values return, as a retry does the same work again. theirs None returns: there is nothing yet.
    """
    if theirs is None:
        return
    for value in (mine, theirs):
        if isinstance(value, str):
            message = (
                f"newer_than() compares moments, numbers or versions; got the text {value!r}, of which '10' comes "
                "before '9'. Pass a datetime, an int, or a tuple of ints."
            )
            raise InvalidOption(message)
        if isinstance(value, datetime) and value.utcoffset() is None:
            message = f"newer_than() needs moments with a time zone; got {value!r}. Write datetime.now(UTC)."
            raise InvalidOption(message)
    try:
        superseded = mine < theirs
    except TypeError as error:
        message = f"newer_than() compares two of a kind; got {mine!r} and {theirs!r}."
        raise InvalidOption(message) from error
    if superseded:
        newer = by or (theirs.isoformat() if isinstance(theirs, datetime) else str(theirs))
        message = f"superseded by {newer}"
        raise Skip(message)
