"""The .sql files as they are read."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rowlock.errors import ConfigurationError
from rowlock.store import queries


def test_every_name_of_the_files_is_read() -> None:
    names, fragments = queries.read(queries.files())
    headers = sum(text.count("-- name: ") + text.count("-- fragment: ") for text in queries.files().values())
    assert len(names) + len(fragments) == headers


@pytest.mark.parametrize(("file", "text"), queries.files().items(), ids=queries.files())
def test_every_statement_says_why_it_is_written_as_it_is(file: str, text: str) -> None:
    assert text.startswith("-- "), f"{file} says what it is about in its first line"
    lines = text.splitlines()
    for header, below in pairwise(lines):
        assert not header.startswith("-- name: ") or below.startswith("-- "), f"{file}: {header} has no comment"


@pytest.mark.parametrize("first", ["name", "fragment"])
@pytest.mark.parametrize("second", ["name", "fragment"])
def test_a_name_given_twice_is_refused(first: str, second: str) -> None:
    texts = {"a.sql": f"-- {first}: look\nSELECT 1\n", "b.sql": f"-- {second}: look\nSELECT 2\n"}
    with pytest.raises(ConfigurationError, match=r"b\.sql has a \w+ 'look', and so has a\.sql"):
        queries.read(texts)


def test_no_fragment_takes_the_place_of_the_schema() -> None:
    with pytest.raises(ConfigurationError, match="'schema'"):
        queries.read({"a.sql": "-- fragment: schema\nmine\n"})
