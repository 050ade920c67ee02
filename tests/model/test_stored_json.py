"""Reading stored JSON, whoever wrote it."""

from __future__ import annotations

import json

import pytest

from rowlock.model import stored_json
from rowlock.model.stored_json import UNREADABLE, UnreadableJson

DEEP = "[" * 900 + "]" * 900


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (DEEP, "nested more than 150 levels deep"),
        (f'{{"a": {DEEP}}}', "nested more than 150 levels deep"),
        (f'{{"n": {"9" * 5000}}}', "it holds a number that is too large"),
        (f'{{"n": {"9" * 400}.5}}', "it holds a number that is too large"),
    ],
)
def test_what_cannot_be_shown_is_named(text: str, why: str) -> None:
    with pytest.raises(UnreadableJson, match=why):
        stored_json.read(text)
    assert stored_json.shown(text, "the result") == {UNREADABLE: f"the result cannot be read: {why}"}
    assert UNREADABLE in stored_json.shown_object(text, "meta")


@pytest.mark.parametrize(("text", "found"), [("[1]", "a list"), ('"x"', "a text"), ("3", "a number"), ("null", "null")])
def test_an_object_is_expected_where_one_belongs(text: str, found: str) -> None:
    assert stored_json.shown_object(text, "meta") == {
        UNREADABLE: f"meta cannot be read: expected an object, found {found}"
    }


def test_everything_else_is_read_as_it_is() -> None:
    values: list[object] = [{"a": [1, "[" * 400, 10**400]}, [], None, "x" * 1000, {"n": 1.5, "t": "9" * 400}]
    for value in values:
        assert stored_json.read(json.dumps(value)) == value
    assert stored_json.shown(None, "the result") is None
    assert stored_json.shown_object(None, "meta") == {}


@pytest.mark.parametrize(("levels", "deeper"), [(0, False), (10, False), (11, True), (100_000, True)])
def test_levels_are_counted_however_deep(levels: int, deeper: bool) -> None:
    value: object = 1
    for n in range(levels):
        value = [value] if n % 2 else {"a": value}
    assert stored_json.nests_deeper(value, 10) is deeper
