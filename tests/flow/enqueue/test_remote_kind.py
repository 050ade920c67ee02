"""Arguments that arrive at a process without the kind's code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import SecretStr

from rowlock.errors import ArgumentsTooLarge, InvalidArguments
from rowlock.flow.enqueue import remote_kind
from rowlock.model.kind import Kind

PAY = Kind("pay")


def deep(levels: int) -> Any:  # noqa: ANN401 - JSON is any
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("mark", ["$secret", "$bytes", "$output"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda marked: {"amount": marked},
        lambda marked: {"rows": [1, {"deep": [marked]}]},
        lambda marked: {"amount": {**marked, "more": 1}},
    ],
)
def test_the_marks_of_stored_arguments_are_refused_at_any_depth(mark: str, wrap: Any) -> None:  # noqa: ANN401 - a lambda
    with pytest.raises(InvalidArguments, match=rf"has the key '\{mark}', which Rowlock keeps for itself"):
        remote_kind.encode(PAY, wrap({mark: 1_000_000}), 10_000)


def test_other_dollars_are_the_submitters_own() -> None:
    schema = {"schema": {"$ref": "#/x", "$schema": "y"}}
    assert json.loads(remote_kind.encode(PAY, schema, 10_000)) == schema
    with pytest.raises(InvalidArguments, match="no argument can be called"):
        remote_kind.encode(PAY, {"$ref": 1}, 10_000)


@pytest.mark.parametrize("levels", [151, 900, 3000, 100_000])
def test_arguments_that_nobody_could_read_back_are_refused(levels: int) -> None:
    with pytest.raises(InvalidArguments, match="nested"):
        remote_kind.encode(PAY, {"x": deep(levels)}, 10**6)


def test_arguments_that_hold_themselves_are_refused() -> None:
    both: list[object] = []
    both += [both, both]
    with pytest.raises(InvalidArguments, match="nested"):
        remote_kind.encode(PAY, {"x": both}, 10**6)


def test_arguments_are_as_long_and_as_deep_as_with_the_code() -> None:
    assert remote_kind.encode(PAY, {"x": deep(149)}, 10_000)
    with pytest.raises(ArgumentsTooLarge, match="the limit is 100"):
        remote_kind.encode(PAY, {"x": "y" * 100}, 100)
    for value in ("\0", "\ud800", float("nan"), 10**5000):
        with pytest.raises(InvalidArguments, match="'x'"):
            remote_kind.encode(PAY, {"x": value}, 10_000)


def test_a_secret_needs_the_code_that_declares_it() -> None:
    with pytest.raises(InvalidArguments, match="Submit it where its code is"):
        remote_kind.encode(PAY, {"x": SecretStr("hush")}, 10_000)


def test_the_version_stands_first() -> None:
    newer = Kind("pay", version=3)
    assert remote_kind.encode(newer, {"x": 1}, 100) == '{"$version":3,"x":1}'
    assert remote_kind.encode(newer, {}, 100) == '{"$version":3}'
