"""Values of options that are more than a word: JSON arguments, instants, references."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rowlock.errors import InvalidArguments, InvalidOption
from rowlock.model.times.written_time import parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence


def arguments(text: str) -> list[Any] | dict[str, Any]:
    """The value of --args: an object, or a list of positional arguments."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidArguments(
            f"--args is not JSON: {error.msg} at character {error.pos + 1}. Write it like '{{\"org_id\": 7}}'."
        ) from None
    if isinstance(value, list | dict):
        return value
    raise InvalidArguments(
        f"--args takes a JSON object (or a list of positional arguments), got {type(value).__name__}."
    )


def named_arguments(text: str | None) -> dict[str, Any] | None:
    """The value of --args where only an object fits; None: the option was left out."""
    if text is None:
        return None
    value = arguments(text)
    if isinstance(value, dict):
        return value
    raise InvalidArguments("--args takes a JSON object here: the arguments by name, such as '{\"org_id\": 7}'.")


def instant(text: str | None) -> datetime | None:
    """The value of --run-at; None: the option was left out."""
    if text is None:
        return None
    example = "such as 2027-01-31T09:00:00+01:00 or 2027-01-31T08:00:00Z"
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(f"--run-at takes an ISO 8601 date and time, {example}; got {text!r}.") from None
    if instant.tzinfo is None:
        raise InvalidOption(f"--run-at needs a time zone, {example}; {text!r} has none.")
    return instant


def day_or_instant(text: str, option: str) -> datetime:
    """A day or an instant, in UTC unless it has a time zone; of a day its beginning."""
    try:
        found = parse_time(text)
    except ValueError:
        found = None
    if found is None:
        raise InvalidOption(
            f"{option} takes a day or an instant such as 2027-03-28 or 2027-03-28T02:00Z; got {text!r}."
        )
    return found.start


def references(texts: Sequence[str]) -> dict[str, str]:
    """The values of --ref."""
    pairs = [text.partition("=") for text in texts]
    for name, equals, value in pairs:
        if not (name and equals):
            raise InvalidOption(f"--ref takes NAME=VALUE, such as project=7; got {name + equals + value!r}.")
    return {name: value for name, _, value in pairs}
