"""The pages for contributors name files, functions and statements that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.named_places import found, names

ROOT = Path(__file__).parents[2]
PAGES = [
    "docs/architecture.md",
    "docs/glossary.md",
    "docs/contributing/recipes.md",
    "docs/decisions/0015-the-house.md",
    "CONTRIBUTING.md",
    "UPGRADING.md",
    "SECURITY.md",
]
PATH = re.compile(r"`([\w./-]*?[\w-]+(?:\.(?:py|sql|md|toml|yml|yaml|json)|/))(?::([\w.]+))?`")
"""`flow/claim/claimer.py`, `flow/claim/claimer.py:Claimer.claim`, `store/sql/claim.sql:claim`, `flow/claim/`."""


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_name_on_the_page_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = []
    for path, name in PATH.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        file = found(path)
        if "NNNN" not in path and (file is None or (name and name not in names(file))):
            missing.append(f"{path}:{name}" if name else path)
    assert missing == []


def test_every_shelf_is_on_the_map() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "rowlock"
    folders = {file.parent.relative_to(package) for file in package.rglob("__init__.py")} - {Path()}
    assert {str(folder) for folder in folders if f"`{folder}/`" not in text} == set()


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index and not page.startswith("decisions/")} == set()
