"""Stored JSON: how deep it may be nested, and how a row is read whose JSON Rowlock did not write.

A person may write rows with INSERT, and an older release accepted more than this one does. Whatever a row holds, it
can be listed, cancelled and removed: a value that cannot be read is shown as an object that says why.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

DEEPEST: Final = 150
"""Levels of nested lists and mappings; pydantic reads back about 200."""
UNREADABLE: Final = "$unreadable"
"""The key of the object that is shown instead of a value that cannot be read; no argument can have that name."""

DEEPEST_REQUEST: Final = DEEPEST + 10
"""Levels of a request's body: arguments that are one too deep are refused with the name of their kind, by the desk."""
_SHORT: Final = 2 * DEEPEST
"""Characters that can hold neither too many levels nor a number that no float can hold."""
_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')  # texts as a whole: brackets in them do not count
_LONG_NUMBER: Final = re.compile(r"[0-9]{300}")


class UnreadableJson(ValueError):
    """Stored JSON that can be neither shown nor passed to a handler; the message is a clause that says why."""


def is_deep(data: bytes) -> bool:
    """Whether JSON is nested deeper than can be read back; cheap for JSON that is not."""
    return len(data) > _SHORT and data.count(b"[") + data.count(b"{") > DEEPEST and _levels(data) > DEEPEST


def _levels(data: bytes) -> int:
    level = deepest = 0
    for bracket in _BRACKET.finditer(data):
        level += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(bracket[0], 0)
        deepest = max(deepest, level)
    return deepest


def nests_deeper(value: object, most: int) -> bool:
    """Whether decoded JSON has more levels of lists and mappings than `most`; works however deep it is.

    A value that stands in many places is looked at once per level, so a structure that holds itself ends too.
    """
    level: Iterable[object] = [value]
    for _ in range(most + 1):
        level = {
            id(inner): inner
            for one in level
            if isinstance(one, Mapping | list)
            for inner in (one.values() if isinstance(one, Mapping) else one)
        }.values()
        if not level:
            return False
    return True


def read(text: str) -> Any:  # noqa: ANN401 - JSON is any
    """Decode JSON that can be shown and encoded again; UnreadableJson says why it cannot."""
    if len(text) <= _SHORT:
        return _loaded(text)
    if is_deep(text.encode()):
        message = f"nested more than {DEEPEST} levels deep"
        raise UnreadableJson(message)
    if not _LONG_NUMBER.search(text):
        return _loaded(text)
    try:
        return json.loads(text, parse_float=_finite)
    except ValueError:
        message = "it holds a number that is too large"
        raise UnreadableJson(message) from None


def _loaded(text: str) -> Any:  # noqa: ANN401 - JSON is any
    try:
        return json.loads(text)
    except ValueError as error:
        message = f"it is no JSON: {error}"
        raise UnreadableJson(message) from None


def read_object(text: str | None) -> dict[str, Any]:
    """Decode a JSON object, None as an empty one; UnreadableJson if it is anything else."""
    value = {} if text is None else read(text)
    if not isinstance(value, dict):
        message = f"expected an object, found {_sort(value)}"
        raise UnreadableJson(message)
    return value


def shown(text: str | None, what: str) -> Any:  # noqa: ANN401 - JSON is any
    """Decoded JSON, or the object that says why it cannot be read. what: the noun for that sentence."""
    try:
        return None if text is None else read(text)
    except UnreadableJson as error:
        return instead(what, error)


def shown_object(text: str | None, what: str) -> dict[str, Any]:
    """A decoded JSON object, empty for None; or the object that says why it cannot be read."""
    try:
        return read_object(text)
    except UnreadableJson as error:
        return instead(what, error)


def instead(what: str, error: UnreadableJson) -> dict[str, Any]:
    """The object that is shown instead of a value that cannot be read."""
    return {UNREADABLE: f"{what} cannot be read: {error}"}


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _sort(value: object) -> str:
    if isinstance(value, Mapping | list):
        return "a list" if isinstance(value, list) else "an object"
    return {str: "a text", bool: "a boolean", type(None): "null"}.get(type(value), "a number")
