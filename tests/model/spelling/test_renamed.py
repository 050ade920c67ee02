from __future__ import annotations

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.spelling.renamed import RENAMED_DURATIONS, RENAMED_LANE_FIELDS, accepts_old_names, current_names


@accepts_old_names(RENAMED_LANE_FIELDS)
def tune(name: str, *, poll_interval: int = 5, order: str = "fast") -> tuple[str, int, str]:
    return name, poll_interval, order


def test_every_old_name_leads_to_a_name_that_is_not_itself_old() -> None:
    for renamed in (RENAMED_LANE_FIELDS, RENAMED_DURATIONS):
        assert not set(renamed) & set(renamed.values())


def test_values_are_given_under_their_current_names() -> None:
    assert current_names({"poll_s": 1, "slots": 2}, RENAMED_LANE_FIELDS) == {"poll_interval": 1, "slots": 2}


def test_one_setting_under_two_names_is_refused() -> None:
    with pytest.raises(InvalidOption, match="poll and poll_interval are one setting"):
        current_names({"poll": 1, "poll_interval": 2}, RENAMED_LANE_FIELDS)


def test_a_function_still_takes_the_old_keyword_and_warns_at_the_callers_line() -> None:
    with pytest.warns(DeprecationWarning, match="poll= is now called poll_interval=") as caught:
        assert tune("a", poll=1) == ("a", 1, "fast")  # type: ignore[call-arg]  # the old name
    assert caught[0].filename == __file__


def test_the_current_keyword_does_not_warn_and_an_unknown_one_is_a_type_error() -> None:
    assert tune("a", poll_interval=2, order="strict") == ("a", 2, "strict")
    with pytest.raises(TypeError, match="wrong"):
        tune("a", wrong=1)  # type: ignore[call-arg]  # no such option
