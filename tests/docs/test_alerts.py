"""The alerting rules: each names metrics that exist, and fires when it should."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.docs.promtool import PROMTOOL, RULES, told

from rowlock import Rowlock
from rowlock.contrib.prometheus import RowlockCollector

HERE = Path(__file__).parent
SUFFIXES = re.compile(r"_(total|bucket|sum|count)$")


async def test_every_rule_names_metrics_that_exist(database_url: str) -> None:
    text = RULES.read_text(encoding="utf-8")
    async with Rowlock(database_url) as app:
        families = {family.name for family in RowlockCollector(app).collect()}
    named = set(re.findall(r"\browlock_\w+", text))
    assert named
    assert {SUFFIXES.sub("", name) for name in named} <= families
    assert len(re.findall(r"- alert: Rowlock\w+", text)) == len(re.findall(r"^ +summary: ", text, re.MULTILINE)) == 6


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: make promtool gets it")
def test_the_rules_fire_when_they_should(tmp_path: Path) -> None:
    for file in (RULES, HERE / "alerts_test.yml"):
        shutil.copy(file, tmp_path)
    for task in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        assert "SUCCESS" in told(task, folder=tmp_path)
