"""When a schedule is due: cron and intervals, over clock changes in both directions, windows, and what is owed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlock.errors import InvalidOption
from rowlock.model.schedule import Schedule, ScheduleRule, checked, due_slots
from rowlock.model.times.cron import Cron, Every, cron_text, timing, zone
from rowlock.model.times.window import Window

LONDON, NEW_YORK, LORD_HOWE = "Europe/London", "America/New_York", "Australia/Lord_Howe"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def at(text: str, tz: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz)).astimezone(UTC)


def local(slots: list[datetime], tz: str) -> list[str]:
    return [f"{slot.astimezone(ZoneInfo(tz)):%d %H:%M%z}" for slot in slots]


def rule(text: str, tz: str = "UTC", *windows: Window) -> ScheduleRule:
    return ScheduleRule(timing(text, None, tz), tz, windows)


# --- clock changes ----------------------------------------------------------------------------------------------------
# Each row: the rule, the zone, the day before the change, and the slots around it on the zone's own clock.
DAYS = [
    # forward, 01:00 -> 02:00: a time of day in the gap is due once, at its end
    ("30 1 * * *", LONDON, "2027-03-27", ["27 01:30+0000", "28 02:00+0100", "29 01:30+0100"]),
    ("0,30 1 * * *", LONDON, "2027-03-28", ["28 02:00+0100", "29 01:00+0100", "29 01:30+0100"]),
    ("0 2 * * *", LONDON, "2027-03-27", ["27 02:00+0000", "28 02:00+0100", "29 02:00+0100"]),
    # back, 02:00 -> 01:00: a time of day that comes twice is due the first time
    ("30 1 * * *", LONDON, "2027-10-30", ["30 01:30+0100", "31 01:30+0100", "01 01:30+0000"]),
    ("30 2 * * *", NEW_YORK, "2027-03-13", ["13 02:30-0500", "14 03:00-0400", "15 02:30-0400"]),
    ("30 1 * * *", NEW_YORK, "2027-11-06", ["06 01:30-0400", "07 01:30-0400", "08 01:30-0500"]),
    # half an hour, forward 02:00 -> 02:30 and back 02:00 -> 01:30
    ("15 2 * * *", LORD_HOWE, "2027-10-02", ["02 02:15+1030", "03 02:30+1100", "04 02:15+1100"]),
    ("45 1 * * *", LORD_HOWE, "2027-04-03", ["03 01:45+1100", "04 01:45+1100", "05 01:45+1030"]),
    # at midnight: the day begins at one
    ("0 0 * * *", "Africa/Cairo", "2027-04-29", ["29 00:00+0200", "30 01:00+0300", "01 00:00+0300"]),
    # a whole day that did not exist
    ("0 12 * * *", "Pacific/Apia", "2011-12-29", ["29 12:00-1000", "31 00:00+1400", "31 12:00+1400"]),
]
HOURS = [
    ("0 * * * *", LONDON, "2027-03-28", ["28 00:00+0000", "28 02:00+0100", "28 03:00+0100"]),
    ("0 * * * *", LONDON, "2027-10-31", ["31 00:00+0100", "31 01:00+0100", "31 01:00+0000", "31 02:00+0000"]),
    ("0 * * * *", NEW_YORK, "2027-11-07", ["07 00:00-0400", "07 01:00-0400", "07 01:00-0500", "07 02:00-0500"]),
    ("0 * * * *", LORD_HOWE, "2027-10-03", ["03 00:00+1030", "03 01:00+1030", "03 03:00+1100", "03 04:00+1100"]),
    ("0 * * * *", LORD_HOWE, "2027-04-04", ["04 00:00+1100", "04 01:00+1100", "04 02:00+1030", "04 03:00+1030"]),
    ("*/30 1 * * *", LONDON, "2027-03-27", ["27 01:00+0000", "27 01:30+0000", "29 01:00+0100"]),
    ("*/30 1 * * *", LONDON, "2027-10-31", ["31 01:00+0100", "31 01:30+0100", "31 01:00+0000", "31 01:30+0000"]),
    ("*/15 2 * * *", LORD_HOWE, "2027-10-03", ["03 02:30+1100", "03 02:45+1100", "04 02:00+1100"]),
    ("*/15 2 * * *", LORD_HOWE, "2027-04-04", ["04 02:00+1030", "04 02:15+1030", "04 02:30+1030", "04 02:45+1030"]),
    ("*/30 1 * * *", LORD_HOWE, "2027-04-04", ["04 01:00+1100", "04 01:30+1100", "04 01:30+1030", "05 01:00+1030"]),
]


@pytest.mark.parametrize(("text", "tz", "day", "expected"), DAYS + HOURS)
def test_slots_around_a_change_of_clocks(text: str, tz: str, day: str, expected: list[str]) -> None:
    found = rule(text, tz).next(at(day, tz) - timedelta(microseconds=1), len(expected))
    assert local(found, tz) == expected
    # Backwards they are the same.
    assert rule(text, tz).last(found[-1], at(day, tz), len(expected)) == found[::-1]


@pytest.mark.parametrize("tz", [LONDON, NEW_YORK, LORD_HOWE])
def test_a_year_of_quarters_of_an_hour_follows_the_instants(tz: str) -> None:
    """What is due every 15 minutes, everywhere and always, knows no clock change."""
    year = list(rule("*/15 * * * *", tz).between(utc("2027-01-01"), utc("2028-01-01"), 40_000))
    assert len(year) == 365 * 96
    assert {later - before for before, later in pairwise(year)} == {timedelta(minutes=15)}


@pytest.mark.parametrize("tz", [LONDON, NEW_YORK, LORD_HOWE, "UTC", "Africa/Casablanca", "Asia/Kolkata"])
@pytest.mark.parametrize("text", ["0 2 * * *", "30 1 * * *", "15 2 * * *", "0 0 * * *", "59 23 * * *"])
def test_a_time_of_day_is_due_once_on_every_day_of_a_year(tz: str, text: str) -> None:
    slots = list(rule(text, tz).between(at("2027-01-01", tz), at("2028-01-01", tz), 1000))
    assert len(slots) == 365
    assert len({slot.astimezone(ZoneInfo(tz)).date() for slot in slots}) == 365


def test_an_hour_is_due_as_often_as_a_year_has_them() -> None:
    slots = list(rule("0 * * * *", LONDON).between(utc("2027-01-01"), utc("2028-01-01"), 10_000))
    assert len(slots) == 365 * 24


@given(st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1)), st.sampled_from([row[:2] for row in DAYS + HOURS]))  # noqa: DTZ001 - made aware below
def test_after_and_until_agree_about_every_moment(moment: datetime, which: tuple[str, str]) -> None:
    cron, moment = Cron(*which), moment.replace(tzinfo=UTC)
    after, until = cron.after(moment), cron.until(moment)
    assert after is not None
    assert until is not None
    assert until <= moment < after
    assert cron.until(after) == after
    assert cron.after(until) == after


# --- cron and intervals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 2 * *", "has five fields .* has 4"),
        ("0 2 * * * *", 'has 6.*every="10s"'),
        ("0 25 * * *", "at character 3: '25' is no hour"),
        ("61 2 * * *", "at character 1: '61' is no minute"),
        ("0  2 * * FOO", "at character 10: 'FOO' is no day of the week"),
        ("*/0 * * * *", "at character 1"),
        ("0 0 32 * *", "no day of the month"),
        ("0 0 30 2 *", "never due"),
        ("@reboot", "has five fields"),
        ("* " * 200, "a text of five fields"),
    ],
)
def test_a_wrong_expression_is_told_with_its_place_and_an_example(text: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message) as told:
        Cron(text)
    assert '"0 2 * * *" is every day at two' in str(told.value)


def test_names_and_spaces() -> None:
    assert cron_text("  0   2 * *  mon-fri ") == "0 2 * * MON-FRI"
    assert Cron("@daily").after(utc("2027-01-01")) == utc("2027-01-02")
    assert Cron("0 0 29 2 *").after(utc("2097-01-01")) == utc("2104-02-29")
    assert Cron("0 0 L * *").after(utc("2027-02-01")) == utc("2027-02-28")


@pytest.mark.parametrize(
    ("name", "near"),
    [("Europe/Londn", "Europe/London"), ("london", "Europe/London"), ("../etc/passwd", "UTC"), ("", "UTC")],
)
def test_an_unknown_zone_is_told_with_near_names(name: str, near: str) -> None:
    with pytest.raises(InvalidOption, match="There is no time zone") as told:
        zone(name)
    assert near in str(told.value)


def test_intervals_stand_on_the_clock_and_do_not_drift() -> None:
    quarter = Every(timedelta(minutes=15))
    assert quarter.after(utc("2027-03-28T00:59:59")) == utc("2027-03-28T01:00")
    assert quarter.after(utc("2027-03-28T01:00")) == utc("2027-03-28T01:15")
    assert quarter.until(utc("2027-03-28T01:00")) == utc("2027-03-28T01:00")
    assert Every(timedelta(days=7)).after(utc("2027-01-01")) == utc("2027-01-04")  # a Monday
    odd = Every(timedelta(seconds=7))
    slot = odd.after(utc("2027-01-01"))
    assert odd.after(slot + timedelta(seconds=6.5)) - slot == timedelta(seconds=7)


@pytest.mark.parametrize(
    ("cron", "every", "message"),
    [
        (None, None, "got neither"),
        ("* * * * *", "1m", "got both"),
        (None, "0.5s", "1s or more"),
        (None, "soon", "every"),
    ],
)
def test_cron_or_every(cron: str | None, every: str | None, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        timing(cron, every, "UTC")


# --- windows ----------------------------------------------------------------------------------------------------------


def hours(slots: list[datetime]) -> list[str]:
    return [f"{slot:%d %H}" for slot in slots]


def test_slots_in_a_window_are_left_out() -> None:
    nights = rule("0 */6 * * *", "UTC", Window("22:00-06:00"))
    assert hours(nights.next(utc("2027-01-01T01:00"), 4)) == ["01 06", "01 12", "01 18", "02 06"]
    assert hours(nights.last(utc("2027-01-02T05:00"), utc("2027-01-01"), 9)) == ["01 18", "01 12", "01 06"]


def test_slots_in_a_window_are_put_off_to_its_end_and_are_one_there() -> None:
    nights = rule("0 * * * *", "UTC", Window("22:00-06:30", then="defer"))
    found = nights.next(utc("2027-01-01T20:30"), 4)
    assert [f"{slot:%d %H:%M}" for slot in found] == ["01 21:00", "02 06:30", "02 07:00", "02 08:00"]
    # Asked in the middle of the window too, and backwards.
    assert nights.after(utc("2027-01-02T03:00")) == utc("2027-01-02T06:30")
    assert nights.last(utc("2027-01-02T08:00"), utc("2027-01-01T21:00"), 9) == found[::-1]
    assert nights.last(utc("2027-01-02T05:00"), utc("2027-01-01T22:00"), 9) == []
    assert nights.last(utc("2027-01-02T06:40"), utc("2027-01-02T06:30"), 9) == [utc("2027-01-02T06:30")]
    # A slot at the very end of the window is the same run.
    assert rule("0 * * * *", "UTC", Window("22:00-06:00", then="defer")).next(utc("2027-01-01T21:00"), 2) == [
        utc("2027-01-02T06:00"),
        utc("2027-01-02T07:00"),
    ]


def test_a_window_belongs_to_the_day_it_begins_on_and_to_the_zone() -> None:
    weekend = rule("0 5 * * *", LONDON, Window("22:00-06:00", days="sat, sun"))
    found = weekend.next(at("2027-07-01", LONDON), 5)
    assert local(found, LONDON)[2:] == ["03 05:00+0100", "06 05:00+0100", "07 05:00+0100"]


def test_windows_one_behind_the_other() -> None:
    both = rule("30 0 * * *", "UTC", Window("00:00-02:00", then="defer"), Window("02:00-04:00", then="defer"))
    assert both.after(utc("2027-01-01")) == utc("2027-01-01T04:00")
    assert both.last(utc("2027-01-01T05:00"), utc("2027-01-01T03:00"), 2) == [utc("2027-01-01T04:00")]
    skipped = rule("30 0 * * *", "UTC", Window("00:00-02:00", then="defer"), Window("02:00-04:00"))
    assert skipped.after(utc("2027-01-01")) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"hours": "22-6"}, "written like"),
        ({"hours": "22:00-22:00"}, "has none"),
        ({"hours": "22:00-06:00", "days": "caturday"}, "sat,sun"),
        ({"hours": "22:00-06:00", "then": "later"}, '"skip" or "defer"'),
    ],
)
def test_a_wrong_window_is_told(words: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        Window(**words)


# --- what is owed -----------------------------------------------------------------------------------------------------


def schedule(**says: Any) -> Schedule:  # noqa: ANN401 - Schedule's
    return Schedule("s", "k", **{"cron": "0 * * * *", "next_at": utc("2027-01-01T01:00"), **says})


def test_on_time_every_policy_fires_the_slot() -> None:
    now = utc("2027-01-01T01:00:05")
    for missed in ("none", "latest", "all"):
        found = due_slots(schedule(missed=missed), now)
        assert (found.slots, found.left_out) == ([utc("2027-01-01T01:00")], None)
        assert found.next_at == utc("2027-01-01T02:00")


@pytest.mark.parametrize(
    ("says", "fired", "left_out"),
    [
        ({"missed": "none"}, [], "05"),
        ({"missed": "latest"}, ["05"], "04"),
        ({"missed": "all"}, ["01", "02", "03", "04", "05"], None),
        ({"missed": "all", "most_missed": 2}, ["04", "05"], "03"),
        ({"missed": "all", "overlap": "skip"}, ["05"], "04"),
        ({"missed": "all", "overlap": "cancel"}, ["05"], "04"),
    ],
)
def test_what_is_owed_after_an_outage(says: dict[str, Any], fired: list[str], left_out: str | None) -> None:
    found = due_slots(schedule(**says), utc("2027-01-01T05:30"))
    assert [f"{slot:%H}" for slot in found.slots] == fired
    assert (None if found.left_out is None else f"{found.left_out:%H}") == left_out
    assert found.next_at == utc("2027-01-01T06:00")


def test_what_is_owed_after_years_is_found_at_once() -> None:
    found = due_slots(schedule(cron="* * * * *", missed="all", most_missed=3), utc("2030-01-01T00:00:30"))
    assert [f"{slot:%d %H:%M}" for slot in found.slots] == ["31 23:58", "31 23:59", "01 00:00"]
    assert "more than 3" in (found.why or "")


def test_a_slot_that_the_zone_has_moved_meanwhile_is_not_owed() -> None:
    found = due_slots(schedule(next_at=utc("2027-01-01T01:30")), utc("2027-01-01T01:31"))
    assert (found.slots, found.left_out, found.next_at) == ([], None, utc("2027-01-01T02:00"))


GOOD: dict[str, Any] = {
    "cron": "0 * * * *", "every": None, "tz": "UTC", "missed": "latest", "most_missed": 100, "overlap": "queue",
    "windows": (), "args": {}, "options": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ({"missed": "some"}, '"none", "latest" or "all"'),
        ({"overlap": "allow"}, '"queue", "skip" or "cancel"'),
        ({"most_missed": 0}, "most_missed"),
        ({"options": {"unique_key": "x"}}, "options are priority"),
        ({"options": {"priority": 999}}, "priority"),
        ({"windows": "22:00-06:00"}, "a list of Window"),
        ({"windows": (Window("00:00-24:00"),)}, "never fire"),
        ({"tz": "Mars/Olympus"}, "no time zone"),
    ],
)
def test_a_wrong_schedule_is_told(says: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        checked("s", "k", **{**GOOD, **says})
    with pytest.raises(InvalidOption, match="name"):
        checked("a@b", "k", **GOOD)


def test_options_are_kept_as_json() -> None:
    made = checked("s", "k", **{**GOOD, "options": {"expires_in": timedelta(hours=1), "tags": ("a",), "priority": 3}})
    assert made.options == {"expires_in": "1h", "tags": ["a"], "priority": 3}
    options = made.job_options(utc("2027-03-28T01:00"))
    assert options.idempotency_key == "schedule:s@2027-03-28T01:00:00Z"
    assert options.meta == {"schedule": "s", "slot": "2027-03-28T01:00:00Z"}
    assert made.job_options(None).idempotency_key is None
