"""The changelog can be read by people and by the release check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
HEADINGS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Performance", "Security"]
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
UNRELEASED = SECTIONS.get("Unreleased", "")


def entries(section: str) -> list[str]:
    """The bullets, each on one line."""
    found = re.findall(r"^- (.*?)(?=^- |^#|^$|\Z)", section, re.MULTILINE | re.DOTALL)
    return [" ".join(entry.split()) for entry in found]


def test_unreleased_comes_first_and_versions_follow() -> None:
    assert next(iter(SECTIONS)) == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", name) for name in list(SECTIONS)[1:])


def test_entries_stand_under_known_headings_in_their_order() -> None:
    headings = re.findall(r"^### (.+)$", UNRELEASED, re.MULTILINE)
    assert headings == [name for name in HEADINGS if name in headings]
    before, _, _ = UNRELEASED.partition("### ")
    assert entries(before) == []


@pytest.mark.parametrize("entry", entries(UNRELEASED))
def test_an_entry_is_made_of_sentences(entry: str) -> None:
    plain = re.sub(r"^\*\*(.+?)\*\*:?\s*", r"\1 ", entry)
    assert re.match(r"[A-Z`/]", plain), entry
    assert plain.endswith("."), entry
