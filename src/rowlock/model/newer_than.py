"""newer_than: a guard against doing old work over newer."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol, TypeVar

from rowlock.errors import InvalidOption
from rowlock.model.progress import Skip


class Ordered(Protocol):
    """Something that comes before or after others of its type: a moment, a number, a version."""

    def __lt__(self, other: Any, /) -> bool: ...  # noqa: ANN401 - the type's own


V = TypeVar("V", bound=Ordered)


def newer_than(mine: V, theirs: V | None, *, by: str | None = None) -> None:
    """Go on unless theirs is newer than mine; then raise Skip("superseded by …"). by: what to call theirs.

    Inside an item the item is skipped; a handler that lets it pass ends its job as cancelled, with that reason. Equal
    ones go on: it is the same work again, such as a retry. None goes on: there is nothing yet.
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
        told = by or (theirs.isoformat() if isinstance(theirs, datetime) else str(theirs))
        message = f"superseded by {told}"
        raise Skip(message)
