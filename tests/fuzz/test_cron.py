"""Cron rules against an oracle that looks at every minute, around clock changes of many zones."""

from __future__ import annotations

import bisect
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.conftest import is_clear
from tests.fuzz.profile import tried
from tests.fuzz.strange import TEXTS
from torture.wall import Wall, changes

from rowlock.errors import InvalidOption
from rowlock.model.schedule import ScheduleRule
from rowlock.model.times.cron import Cron, cron_text, timing, zone
from rowlock.model.times.window import Window

DAY = timedelta(days=1)
AROUND = [
    ("Europe/Berlin", 2027), ("America/New_York", 2027), ("Australia/Lord_Howe", 2027), ("Antarctica/Troll", 2027),
    ("Africa/Cairo", 2027), ("Africa/Casablanca", 2027), ("America/Sao_Paulo", 2018), ("Pacific/Apia", 2011),
    ("Asia/Tehran", 2021), ("America/Havana", 2027), ("Asia/Pyongyang", 2018), ("Europe/Dublin", 2028),
]  # fmt: skip
CHANGES = [(tz, change) for tz, year in AROUND for change in changes(tz, year)]
assert len(CHANGES) > 20


def numbers(low: int, high: int, words: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    one = st.integers(low, high).map(str) | (st.sampled_from(words) if words else st.nothing())
    ends = st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted)
    span = ends.map(lambda pair: f"{pair[0]}-{pair[1]}")
    stepped = st.tuples(span, st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.lists(one | span | stepped, min_size=1, max_size=3).map(",".join)


def stars(high: int) -> st.SearchStrategy[str]:
    return st.just("*") | st.integers(1, high).map(lambda step: f"*/{step}")


EARLY = numbers(0, 3)
MONTHS = ("jan", "Mar", "OCT", "DEC")
WEEKDAYS = ("SUN", "mon", "Fri")
NTH = st.tuples(st.integers(0, 6).map(str) | st.sampled_from(WEEKDAYS), st.integers(1, 5)).map(
    lambda pair: f"{pair[0]}#{pair[1]}"
)
RULES = st.tuples(
    stars(59) | numbers(0, 59),
    stars(23) | EARLY | EARLY | numbers(0, 23),
    st.just("*") | st.just("*") | stars(31) | numbers(1, 31) | st.just("L") | st.just("15,L"),
    st.just("*") | st.just("*") | numbers(1, 12, MONTHS),
    st.just("*") | st.just("*") | numbers(0, 6, WEEKDAYS) | NTH | st.just("7"),
).map(" ".join)


@tried(150)
@given(RULES, st.sampled_from(CHANGES), st.integers(0, 5 * 24 * 60))
@example("30 2 * * *", ("Europe/Berlin", changes("Europe/Berlin", 2027)[0]), 0)
@example("0,15,45 1 * * *", ("Australia/Lord_Howe", changes("Australia/Lord_Howe", 2027)[0]), 0)
@example("*/15 1 * * *", ("Antarctica/Troll", changes("Antarctica/Troll", 2027)[1]), 0)
@example("5-5/2 1-1/1 * * *", ("Europe/Berlin", changes("Europe/Berlin", 2027)[0]), 0)
@example("0 0 30 * *", ("Pacific/Apia", changes("Pacific/Apia", 2011)[-1]), 0)
@example("0 0 1 * MON", ("Europe/Berlin", changes("Europe/Berlin", 2027)[0]), 0)
def test_slots_are_those_that_looking_at_every_minute_finds(text: str, around: tuple[str, datetime], at: int) -> None:
    tz, change = around
    start, end = change - 2 * DAY, change + 3 * DAY
    expected = Wall(text, tz).slots(start, end)
    try:
        rule = ScheduleRule(timing(text, None, tz), tz)
    except InvalidOption as error:
        assert "never due" in str(error)
        assert not expected
        return
    assert list(rule.between(start, end, 10_000)) == expected
    assert rule.last(end - timedelta(microseconds=1), start, 10_000) == expected[::-1]
    # From any moment within, in both directions.
    moment = start + at * timedelta(minutes=1)
    place = bisect.bisect_right(expected, moment)
    if place < len(expected):
        assert rule.timing.after(moment) == expected[place]
    if place:
        assert rule.timing.until(moment) == expected[place - 1]


@tried(60)
@given(RULES, st.datetimes(datetime(2000, 1, 1), datetime(2058, 1, 1)), st.sampled_from(AROUND))  # noqa: DTZ001 - made aware below
@example("0 0 29 2 MON#5", datetime(2000, 3, 1), ("UTC", 0))  # noqa: DTZ001 - as above
@example("0 0 31 2,4,6,9,11 *", datetime(2000, 3, 1), ("UTC", 0))  # noqa: DTZ001 - as above
@example("0 0 30 2 *", datetime(2000, 3, 1), ("UTC", 0))  # noqa: DTZ001 - as above
def test_an_accepted_rule_is_always_due_again_and_found_soon(
    text: str, moment: datetime, around: tuple[str, int]
) -> None:
    began = time.process_time()
    try:
        cron = Cron(text, around[0])
    except InvalidOption as error:
        assert "never due" in str(error)
        days = {(datetime(year, 1, 1) + n * DAY).date() for year in (2000, 2001) for n in range(365)}  # noqa: DTZ001 - days
        assert not any(Wall(text)._is_day(day) and day.month in Wall(text)._months for day in days)
    else:
        after, until = cron.after(moment.replace(tzinfo=UTC)), cron.until(moment.replace(tzinfo=UTC))
        assert after is not None
        assert until is not None or moment.year < 2042  # what was due before 1970 nobody asks
        # Written and read again it is the same.
        again = Cron(cron.text, around[0])
        assert (again.text, again.after(after)) == (cron.text, cron.after(after))
    assert time.process_time() - began < 2


PIECES = st.sampled_from(
    ["*", "*/", "/", "-", ",", "#", "L", "W", "?", "0", "5", "59", "60", "99", "MON", "FEB", " ", "@"]
)


@tried(200)
@given(
    TEXTS
    | st.lists(PIECES, max_size=14).map("".join)
    | st.sampled_from(["@daily ", "@reboot", "@every 5m", "0 0 0 0 0"])
)
@example("0 0 * * 0#0")
@example("* * * * 1-0")
@example("٣ * * * *")
@example("1-10/0 * * * *")
@example("0 0 L-3 * *")
@example("5/15 * * * *")
def test_any_text_is_a_rule_or_told_what_is_wrong(text: str) -> None:
    began = time.process_time()
    try:
        cron = Cron(text)
    except InvalidOption as error:
        assert is_clear(error), str(error)
    else:
        assert cron_text(cron.text) == cron.text
        assert cron.text.isascii()
        assert cron.after(datetime(2027, 1, 1, tzinfo=UTC)) is not None
    assert time.process_time() - began < 2


@tried(100)
@given(
    TEXTS
    | st.sampled_from(["Europe", "zone.tab", "Europe/", "/etc/localtime", "europe/london", "EUROPE/LONDON", "a" * 5000])
)
def test_any_text_is_a_zone_or_told_near_ones(name: str) -> None:
    try:
        found = zone(name)
    except InvalidOption as error:
        assert is_clear(error), str(error)
    else:
        assert found.key == name
        assert ZoneInfo(name).utcoffset(datetime(2027, 1, 1)) is not None  # noqa: DTZ001 - a wall


HOURS = st.tuples(st.integers(0, 23), st.sampled_from([0, 30, 59])).map(lambda pair: f"{pair[0]:02}:{pair[1]:02}")
WINDOWS = st.lists(st.tuples(HOURS, HOURS, st.sampled_from(["skip", "defer"])), max_size=3)


@tried(60)
@given(RULES, WINDOWS, st.sampled_from(CHANGES))
def test_windows_leave_the_same_slots_forwards_and_backwards(
    text: str, hours: list[tuple[str, str, str]], around: tuple[str, datetime]
) -> None:
    tz, change = around
    try:
        windows = tuple(Window(f"{low}-{high}", then=then) for low, high, then in hours)  # type: ignore[arg-type]
        rule = ScheduleRule(timing(text, None, tz), tz, windows)
    except InvalidOption as error:
        assert is_clear(error), str(error)
        return
    start, end = change - DAY, change + 2 * DAY
    found = list(rule.between(start, end, 10_000))
    assert found == sorted(set(found))
    assert rule.last(end - timedelta(microseconds=1), start, 10_000) == found[::-1]


@pytest.mark.parametrize("text", ["0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30,31 FEB *", "0 0 31 2 MON#6"])
def test_a_day_that_never_comes_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidOption):
        Cron(text, "Europe/Berlin")
    assert time.process_time() - began < 1
