from __future__ import annotations

from rowlock.model.lane import Lane, first_lanes, kinds_by_lane
from rowlock.model.rate import Rate


def test_a_kind_belongs_to_the_lane_that_names_it_and_the_others_to_the_star() -> None:
    lanes = [Lane("rest", kinds=("*",)), Lane("front", kinds=("pay",))]
    assert kinds_by_lane(lanes, ["pay", "mail", "pay/on_failure"]) == {
        "front": ["pay", "pay/on_failure"],
        "rest": ["mail"],
    }


def test_of_two_lanes_that_name_one_kind_the_first_by_name_has_it() -> None:
    assert kinds_by_lane([Lane("b", kinds=("k",)), Lane("a", kinds=("k",))], ["k"]) == {"a": ["k"], "b": []}


def test_without_a_star_other_kinds_are_served_by_nobody() -> None:
    assert kinds_by_lane([Lane("a", kinds=("k",))], ["other"]) == {"a": []}


def test_lanes_of_the_environment_count_before_those_of_the_code() -> None:
    environment, code = Lane("a", slots=1), Lane("a", slots=9)
    assert first_lanes([environment], [code, Lane("b")]) == (environment, Lane("b"))


def test_a_lane_is_locked_by_a_claim_if_something_holds_over_all_workers() -> None:
    assert not Lane("a").is_careful
    assert Lane("a", max_total=1).is_careful
    assert Lane("a", rate=Rate(1)).is_careful
