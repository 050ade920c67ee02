from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlock.errors import InvalidOption
from rowlock.model.times.duration import LONGEST, Duration, duration, humanise

durations = st.timedeltas(timedelta(0), LONGEST)
HINT = ' Write a number of seconds, a timedelta or a text such as "250ms", "30s", "1h30m", "2 days" or "PT10M".'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("30s", timedelta(seconds=30)),
        ("10m", timedelta(minutes=10)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1 h 30 min", timedelta(hours=1, minutes=30)),
        ("2d", timedelta(days=2)),
        ("1 day", timedelta(days=1)),
        ("1 day, 2 hours", timedelta(days=1, hours=2)),
        ("3 weeks", timedelta(weeks=3)),
        ("250ms", timedelta(milliseconds=250)),
        ("7us", timedelta(microseconds=7)),
        ("7µs", timedelta(microseconds=7)),
        ("7\N{GREEK SMALL LETTER MU}s", timedelta(microseconds=7)),
        ("1.5h", timedelta(minutes=90)),
        ("0.1s", timedelta(milliseconds=100)),
        ("1H", timedelta(hours=1)),
        (" 5 Minutes ", timedelta(minutes=5)),
        ("0s", timedelta(0)),
        ("90", timedelta(seconds=90)),
        ("PT10M", timedelta(minutes=10)),
        ("pt0.5s", timedelta(milliseconds=500)),
        ("P1DT2H3M4S", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("P2W", timedelta(weeks=2)),
        (30, timedelta(seconds=30)),
        (0, timedelta(0)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(minutes=3), timedelta(minutes=3)),
        ("36525 days", LONGEST),
    ],
)
def test_a_duration_is_read_as_people_write_it(value: Duration, expected: timedelta) -> None:
    assert duration(value) == expected


@pytest.mark.parametrize(
    "value",
    ["", " ", "abc", "10 parsecs", "h", "1h30", "1..5s", "1e3s", "1h,", "1:30", "٣s", True, None, [], {}, float("nan")],
)
def test_garbage_is_refused_and_the_option_named(value: Duration) -> None:
    with pytest.raises(InvalidOption) as caught:
        duration(value, name="timeout")
    assert str(caught.value) == f"timeout: {value!r} is not a duration.{HINT}"


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinity_is_no_duration(value: float) -> None:
    with pytest.raises(InvalidOption) as caught:
        duration(value)
    assert str(caught.value) == f"duration: {value!r} is not a duration.{HINT}"


@pytest.mark.parametrize("value", [-1, -0.5, "-3s", "-5", "-PT3S", timedelta(seconds=-1)])
def test_negative_durations_are_refused(value: Duration) -> None:
    with pytest.raises(InvalidOption) as caught:
        duration(value, name="run_in")
    assert str(caught.value) == f"run_in: {value!r} is negative.{HINT}"


@pytest.mark.parametrize("value", ["101000 weeks", "36526d", 1e300, 4e9, timedelta(days=36_526), "P99999999W"])
def test_durations_beyond_a_century_are_refused(value: Duration) -> None:
    with pytest.raises(InvalidOption) as caught:
        duration(value, name="max_age")
    assert str(caught.value) == f"max_age: {value!r} is longer than 100 years.{HINT}"


def test_a_huge_number_neither_overflows_nor_fills_the_message() -> None:
    with pytest.raises(InvalidOption) as caught:
        duration(10**5000)
    assert str(caught.value) == f"duration: a huge number is longer than 100 years.{HINT}"
    with pytest.raises(InvalidOption) as caught:
        duration("9" * 5000 + "s")
    assert str(caught.value) == f"duration: '{'9' * 59}… is longer than 100 years.{HINT}"


@pytest.mark.parametrize("value", ["30m1h", "1h1h", "1s 2ms 3s"])
def test_units_come_once_and_largest_first(value: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        duration(value)
    assert str(caught.value) == f"duration: {value!r} does not name each unit once, largest first.{HINT}"


@pytest.mark.parametrize("value", ["P", "PT", "P1DT", "P1M", "P1Y", "PT1D", "P1H"])
def test_iso_durations_have_no_months_and_no_years(value: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        duration(value)
    why = "is not an ISO 8601 duration of weeks, days, hours, minutes and seconds"
    assert str(caught.value) == f"duration: {value!r} {why}.{HINT}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(microseconds=7), "7us"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(microseconds=1500), "1.5ms"),
        (timedelta(seconds=1.5), "1.5s"),
        (timedelta(seconds=30), "30s"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(days=1), "1d"),
        (timedelta(days=14, seconds=5), "14d5s"),
        (timedelta(minutes=-90), "-1h30m"),
    ],
)
def test_humanise_is_short(value: timedelta, text: str) -> None:
    assert humanise(value) == text


@given(durations)
def test_what_humanise_writes_duration_reads_exactly(value: timedelta) -> None:
    assert duration(humanise(value)) == value


@given(st.text())
def test_no_text_escapes_as_another_error(text: str) -> None:
    with suppress(InvalidOption):
        assert timedelta(0) <= duration(text) <= LONGEST


@given(st.integers() | st.floats())
def test_no_number_escapes_as_another_error(number: float) -> None:
    with suppress(InvalidOption):
        assert timedelta(0) <= duration(number) <= LONGEST
