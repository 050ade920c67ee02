from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock.errors import ConfigurationError, InvalidOption
from rowlock.model.rate import Rate


@pytest.mark.parametrize("text", ["10/s", "5/30s", "100/m", "1/h", "3/2s"])
def test_a_rate_is_written_as_it_is_read(text: str) -> None:
    assert str(Rate.parse(text)) == text


def test_a_bucket_holds_its_amount_unless_told() -> None:
    assert (Rate(10, "1m").burst, Rate(10, "1m", burst=3).burst) == (10, 3)
    assert str(Rate(3, "2s", burst=7)) == "3/2s burst 7"
    assert str(Rate(3, "2s", window=True)) == "3/2s window"


def test_a_stored_rate_is_read_back() -> None:
    for rate in (Rate(10, "1m", burst=3), Rate(4, "10s", window=True)):
        assert Rate.from_stored(rate.stored) == rate
    assert Rate.from_stored(None) is None


@pytest.mark.parametrize("wrong", ["", "10", "10/", "/s", "x/s", "0/s", "10/0s", "-1/s"])
def test_another_text_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidOption):
        Rate.parse(wrong)


def test_a_key_is_its_own_and_no_lanes() -> None:
    rate = Rate(1, timedelta(seconds=1)).for_key("org:7")
    assert (rate.key, rate.amount) == ("org:7", 1)
    with pytest.raises(ConfigurationError, match="lane:"):
        rate.for_key("lane:x")
