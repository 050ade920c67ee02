"""Pages of docs/examples map every behaviour of a design to a place that exists; each example is complete."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

import pytest
from tests.docs.named_places import ROOT, names

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES: Final = sorted(file.parent.name for file in (ROOT / "examples").glob("*/__main__.py"))
SECTION: Final = re.compile(r"^## (.+): (\d+) sentences?$", re.MULTILINE)
ROW: Final = re.compile(r"^\| (\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
TARGET: Final = re.compile(r"`([\w./-]+\.(?:py|html|sql))(?::([\w.]+))?`")
PUBLIC: Final = re.compile(r"rowlock(\.(api|contrib|testing|delivery)(\.\w+)*)?")


def page_of(example: str) -> str:
    return (ROOT / "docs" / "examples" / f"{example}.md").read_text(encoding="utf-8")


def sections(text: str) -> list[tuple[str, int, list[tuple[int, str, str]]]]:
    """Each section of the design: its name, how many sentences it has, and the rows: number, sentence, places."""
    parts = SECTION.split(text)[1:]
    return [
        (parts[at], int(parts[at + 1]), [(int(n), said, where) for n, said, where in ROW.findall(parts[at + 2])])
        for at in range(0, len(parts), 3)
    ]


def lost_places(where: str) -> list[str]:
    """The places of a row that do not exist; a row without a place is lost as a whole."""
    places = TARGET.findall(where)
    return [where] * (not places) + [
        f"{path}:{name}"
        for path, name in places
        if not (ROOT / path).is_file() or (name and name not in names(ROOT / path))
    ]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_sentence_of_the_design_is_mapped_and_none_lost_its_place(example: str) -> None:
    found = sections(page_of(example))
    assert found
    assert {name: [n for n, *_ in rows] for name, _, rows in found} == {
        name: list(range(1, count + 1)) for name, count, _ in found
    }
    assert [lost for *_, rows in found for *_, where in rows for lost in lost_places(where)] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_end_to_end_test_is_on_the_page(example: str) -> None:
    file = f"tests/examples/test_{example}.py"
    tests = {name for name in names(ROOT / file) if name.startswith("test_")}
    assert tests
    assert sorted(name for name in tests if f"`{file}:{name}`" not in page_of(example)) == []


def test_a_place_that_is_gone_is_noticed() -> None:
    assert lost_places("`tests/docs/test_examples.py:page_of`") == []
    assert lost_places("`tests/docs/test_examples.py:page_off`") == ["tests/docs/test_examples.py:page_off"]
    assert lost_places("`examples/nowhere.py`") == ["examples/nowhere.py:"]
    assert lost_places("nowhere") == ["nowhere"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_complete_and_in_the_list(example: str) -> None:
    assert (ROOT / "examples" / example / "README.md").is_file()
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert f"({example}/README.md)" in listed
    assert f"python -m examples.{example}" in (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")


def imported(file: Path) -> list[str]:
    """Modules of Rowlock that a file imports."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    found = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    found += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return [name for name in found if name.partition(".")[0] == "rowlock"]


def test_examples_use_the_public_interface_alone() -> None:
    private = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted((ROOT / "examples").rglob("*.py"))
        for name in imported(file)
        if not PUBLIC.fullmatch(name)
    ]
    assert private == []
