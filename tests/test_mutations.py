"""The deliberate breaks of tools/mutations fit the code they break, and a run of them tells what came of each.

Whether they are noticed is `make mutations`.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FUNCTION = re.compile(r"^CREATE (?:OR REPLACE )?FUNCTION \{schema\}\.(\w+)", re.MULTILINE)
VIEW = re.compile(r"CREATE (?:OR REPLACE )?VIEW \{schema\}\.(\w+)")


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


def bodies(text: str) -> dict[str, tuple[int, int]]:
    """Where each database function and each view of a migration begins and ends."""
    begins = {found[1]: (found.start(), text.index("$$", found.end())) for found in FUNCTION.finditer(text)}
    functions = {name: (begin, text.index("$$;", opened + 2)) for name, (begin, opened) in begins.items()}
    return functions | {found[1]: (found.start(), text.index(";", found.end())) for found in VIEW.finditer(text)}


def test_a_break_of_a_database_function_or_view_is_in_its_newest_body(breaks: tuple[Any, ...]) -> None:
    """A later migration would put the unbroken body in its place, and the break would never be noticed."""
    folder = ROOT / "src/rowlock/store/migrations"
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.up.sql"))}
    newest = {name: path for path, text in texts.items() for name in bodies(text)}
    stale = [
        (one.name, path.name, newest[name].name)
        for one in breaks
        if (path := ROOT / "src/rowlock" / one.file) in texts
        for name, (begin, end) in bodies(texts[path]).items()
        if one.old in texts[path][begin:end] and newest[name] != path
    ]
    assert stale == []


def test_no_two_breaks_have_one_name(breaks: tuple[Any, ...]) -> None:
    names = [one.name for one in breaks]
    assert len(names) == len(set(names))


def broken(name: str, test: str, old: str = "42") -> Any:  # noqa: ANN401 - a Mutation, of a package found at run time
    mutation = importlib.import_module("mutations.mutation").Mutation
    return mutation(name, "answer.py", old, "41", (f"tests/test_answer.py::{test}",))


def pytest_of(_root: Path, tests: tuple[str, ...], source: Path, /, *_options: str) -> tuple[int, str]:
    """As pytest answers for a test that guards the answer, and for one that ends pytest itself when it is wrong."""
    right = "42" in (source / "rowlock/answer.py").read_text(encoding="utf-8")
    if not right and "tests/test_answer.py::test_breaks_off" in tests:
        return 3, "INTERNALERROR"
    red = not right and "tests/test_answer.py::test_guard" in tests
    return (1, "FAILED tests/test_answer.py::test_guard - assert 41 == 42") if red else (0, "1 passed")


@pytest.mark.usefixtures("breaks")
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_run_tells_what_came_of_each_break_and_another_goes_on_where_it_ended(tmp_path: Path, at_once: int) -> None:
    try_all = importlib.import_module("mutations.trial").try_all
    (tmp_path / "src/rowlock").mkdir(parents=True)
    (tmp_path / "src/rowlock/answer.py").write_text("ANSWER = 42\n", encoding="utf-8")
    log, said = tmp_path / "log", list[str]()
    guarded, blind = broken("one", "test_guard"), broken("two", "test_blind")
    ends, gone = broken("three", "test_breaks_off"), broken("four", "test_guard", old="43")
    chosen = (ends, gone, guarded, blind)
    assert try_all(tmp_path, chosen, said.append, at_once=at_once, log=log, run=pytest_of) == 1
    rows = {row[1]: row for row in (line.split("\t") for line in log.read_text(encoding="utf-8").splitlines())}
    assert {name: row[0] for name, row in rows.items()} == {
        "one": "noticed",
        "two": "survived",
        "three": "unclear",
        "four": "unclear",
    }
    assert rows["one"][3] == "test_guard assert 41 == 42"
    end = "".join(said)
    assert "noticed by test_guard\n" in end
    assert "three: pytest ended with 3\nINTERNALERROR\n" in end
    assert "survived: two\n" in end
    assert end.endswith("1 of 4 mutations were noticed\n")
    said.clear()
    assert try_all(tmp_path, (guarded,), said.append, log=log, run=pytest_of) == 0
    assert said[-1] == "0 of 0 mutations were noticed, and 1 in an earlier run\n"


@pytest.mark.usefixtures("breaks")
def test_nothing_is_broken_while_the_tests_are_red_as_they_are(tmp_path: Path) -> None:
    try_all = importlib.import_module("mutations.trial").try_all
    said = list[str]()
    assert try_all(tmp_path, (broken("one", "test_guard"),), said.append, run=lambda *_: (1, "FAILED")) == 1
    assert said == ["red before anything was broken:\nFAILED\n"]
