"""The how-to page on testing, run as the project it describes."""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "testing.md"
BLOCK = re.compile(r"^```python\n# (\w+)\.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETTINGS = re.compile(r"^```ini\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_test_on_the_page_passes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, server_url: str
) -> None:
    monkeypatch.setenv("ROWLOCK_TEST_DATABASE_URL", server_url)
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)
    text = PAGE.read_text(encoding="utf-8")
    files: defaultdict[str, list[str]] = defaultdict(list)
    for name, block in BLOCK.findall(text):
        files[name].append(block)
    assert set(files) == {"tasks", "test_report", "conftest", "test_orders", "test_plain"}
    for name, blocks in files.items():
        (pytester.path / f"{name}.py").write_text("\n\n".join(blocks), encoding="utf-8")
    (settings,) = SETTINGS.findall(text)
    pytester.makeini(settings + "asyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n")
    run = pytester.runpytest_inprocess("-q")
    run.assert_outcomes(passed=9)
