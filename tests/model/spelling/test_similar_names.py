from __future__ import annotations

from rowlock.model.spelling.similar_names import closest


def test_a_slip_of_the_fingers_finds_its_name_and_another_word_finds_none() -> None:
    known = ["default", "front", "reports"]
    assert closest("fornt", known) == ["front"]
    assert closest("xyz", known) == []
