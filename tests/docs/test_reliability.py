"""The page about reliability: what it says watches an invariant is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from torture.checker import RULES

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]


def test_every_watcher_of_an_invariant_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    page = (ROOT / "docs" / "operate" / "reliability.md").read_text(encoding="utf-8")
    section = page.partition("## Invariants, and what watches each")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 20
    names = {mutation.name for mutation in importlib.import_module("mutations").MUTATIONS}
    for promise, _, watchers, proofs in rows:
        proven = re.findall(r"`([^`]+)`", proofs)
        assert proven, f"nothing shows that this can fail: {promise}"
        assert set(proven) <= names, set(proven) - names
        rules = re.findall(r"\*([^*]+)\*", watchers)
        assert set(rules) <= set(RULES), set(rules) - set(RULES)
        files = re.findall(r"`(tests/[^`]+)`", watchers)
        assert all((ROOT / file).exists() for file in files), files
        assert "machine" in watchers or rules or files, f"nobody watches this: {promise}"
