from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import ConfigurationError, InvalidOption, Settings
from rowlock.model.retention import rules_from_text


def test_a_setting_names_one_time_or_one_per_state() -> None:
    assert rules_from_text("14d") == (("*", timedelta(days=14)),)
    text = "completed=1d, failed=30d, *=7d"
    assert [(state, keep.days) for state, keep in rules_from_text(text)] == [("completed", 1), ("failed", 30), ("*", 7)]
    assert Settings.from_env({"ROWLOCK_RETENTION": "12h"}).retention == (("*", timedelta(hours=12)),)


@pytest.mark.parametrize("text", ["soon", "queued=1d", "failed=1d,failed=2d", "failed=", "1d,2d"])
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption):
        rules_from_text(text)
    with pytest.raises(ConfigurationError, match="ROWLOCK_RETENTION cannot be read"):
        Settings.from_env({"ROWLOCK_RETENTION": text})
