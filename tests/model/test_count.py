from __future__ import annotations

import pytest

from rowlock.model.count import Count, total


@pytest.mark.parametrize(
    ("found", "value", "text"),
    [(0, 0, "0"), (9_999, 9_999, "9,999"), (10_000, 10_000, "10,000"), (10_001, 10_000, "10,000+")],
)
def test_a_count_says_whether_it_stopped_at_its_cap(found: int, value: int, text: str) -> None:
    count = Count.upto(found, 10_000)
    assert count.value == value
    assert count.capped == (found > 10_000)
    assert str(count) == text


def test_a_sum_is_capped_if_a_part_is() -> None:
    assert total([Count(1), Count(2)]) == Count(3)
    assert total([Count(1), Count(2, exact=False)]) == Count(3, exact=False)
    assert total([]) == Count()


def test_a_count_is_true_when_there_is_any() -> None:
    assert not Count()
    assert Count(1)
    assert Count(0, exact=False)
