"""The deliberate breaks of tools/mutations fit the code they break; whether they are noticed is `make mutations`."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FUNCTION = re.compile(r"^CREATE (?:OR REPLACE )?FUNCTION \{schema\}\.(\w+)", re.MULTILINE)


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    found: tuple[Any, ...] = importlib.import_module("mutations").MUTATIONS
    return found


def test_every_break_finds_its_text_and_its_tests(breaks: tuple[Any, ...]) -> None:
    assert breaks
    for one in breaks:
        found = (ROOT / "src/rowlock" / one.file).read_text(encoding="utf-8").count(one.old)
        assert found > 0, one.name
        assert one.count in (0, found), one.name
        for test in one.tests:
            file, _, name = test.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert f"def {name.partition('[')[0]}(" in text, (one.name, test)


def test_a_break_of_a_database_function_is_in_its_newest_body(breaks: tuple[Any, ...]) -> None:
    """A later migration would put the unbroken body in its place, and the break would never be noticed."""
    folder = ROOT / "src/rowlock/store/migrations"
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.up.sql"))}
    newest = {name: path for path, text in texts.items() for name in FUNCTION.findall(text)}
    for one in breaks:
        path = ROOT / "src/rowlock" / one.file
        if path in texts:
            at = texts[path].index(one.old)
            before = list(FUNCTION.finditer(texts[path], 0, at))
            inside = bool(before) and "$$;" not in texts[path][before[-1].start() : at]
            assert not inside or newest[before[-1][1]] == path, one.name


def test_no_two_breaks_have_one_name(breaks: tuple[Any, ...]) -> None:
    names = [one.name for one in breaks]
    assert len(names) == len(set(names))
