"""Suggestions while a search is typed: what may stand at the cursor, and which part of the text it replaces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.model.search import FIELDS, PATHS, written_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD: Final = re.compile(r"([A-Za-z_]+)(?:\.([^\s:,\"]+))?:")


@dataclass(frozen=True, slots=True)
class SearchSuggestion:
    """One suggestion. text: what replaces the part; label: what people read; of: field, or the field of the value."""

    text: str
    label: str
    of: str


@dataclass(frozen=True, slots=True)
class SearchSuggestions:
    """Suggestions for the characters from `start` until before `end`."""

    start: int
    end: int
    items: Sequence[SearchSuggestion]


@dataclass(frozen=True, slots=True)
class SearchCursor:
    """The part of a search at the cursor. field None: a field is typed; path: the name behind `ref.` or `args.`.

    typed: the beginning of the field or value, unquoted; start, end: the characters that a suggestion replaces.
    """

    field: str | None
    path: str | None
    typed: str
    start: int
    end: int


def search_cursor(text: str, position: int) -> SearchCursor:
    """What stands at a position of a search, also of one that cannot be read yet."""
    position = min(max(position, 0), len(text))
    start = _word_start(text, position)
    end = _word_end(text, start)
    begin = start + text.startswith("-", start)
    head = _HEAD.match(text, begin, end)
    if head is None or head.end() > position:
        return SearchCursor(None, None, text[begin:position].lower(), begin, end)
    value = _value_start(text, head.end(), position)
    typed = text[value:position].removeprefix('"').replace('\\"', '"')
    return SearchCursor(head[1].lower(), head[2], typed, value, _value_end(text, value, end))


def fields_like(cursor: SearchCursor) -> list[SearchSuggestion]:
    """The fields that begin with what is typed."""
    names = [f"{name}." if name in PATHS else f"{name}:" for name in FIELDS if name.startswith(cursor.typed)]
    return [SearchSuggestion(name, name, "field") for name in names]


def value_suggestion(value: str, of: str) -> SearchSuggestion:
    """A value as a search writes it: in quotes where it needs them."""
    return SearchSuggestion(written_text(value), value, of)


def _word_start(text: str, position: int) -> int:
    """The beginning of the term at the position; blanks in quotes belong to it."""
    start, quoted = 0, False
    for at, character in enumerate(text[:position]):
        if character == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif character.isspace() and not quoted:
            start = at + 1
    return start


def _word_end(text: str, start: int) -> int:
    quoted = False
    for at in range(start, len(text)):
        if text[at] == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif text[at].isspace() and not quoted:
            return at
    return len(text)


def _value_start(text: str, start: int, position: int) -> int:
    found, quoted = start, False
    for at in range(start, position):
        if text[at] == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif text[at] == "," and not quoted:
            found = at + 1
    return found


def _value_end(text: str, start: int, end: int) -> int:
    quoted = False
    for at in range(start, end):
        if text[at] == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif text[at] == "," and not quoted:
            return at
    return end
