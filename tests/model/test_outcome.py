from __future__ import annotations

from datetime import timedelta
from typing import get_args

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.outcome import NO_RESULT, Completed, Outcome, Snooze


def test_a_snooze_takes_a_duration_as_people_write_it() -> None:
    assert Snooze("5m").after == Snooze(300).after == timedelta(minutes=5)
    with pytest.raises(InvalidOption, match="Snooze"):
        Snooze("soon")


def test_outcomes_are_values() -> None:
    assert Completed(None) == NO_RESULT
    for outcome in get_args(Outcome):
        assert outcome.__dataclass_params__.frozen, outcome
