from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest

from rowlock.model import json_output
from rowlock.model.count import Count
from rowlock.model.rate import Rate


@dataclass
class Sample:
    at: datetime
    took: timedelta


def written(value: object) -> object:
    return json.loads(json.dumps(value, default=json_output.plain))


def test_instants_are_rfc_3339_in_utc() -> None:
    assert json_output.instant(datetime(2027, 1, 31, 9, tzinfo=timezone(timedelta(hours=1)))) == "2027-01-31T08:00:00Z"
    assert json_output.instant(datetime(2027, 1, 31, 8, tzinfo=UTC), "milliseconds") == "2027-01-31T08:00:00.000Z"


def test_durations_are_seconds_and_counts_say_whether_they_are_exact() -> None:
    assert written({"a": timedelta(minutes=1), "b": Count(7), "c": Count(1000, exact=False)}) == {
        "a": 60.0,
        "b": {"value": 7, "exact": True},
        "c": {"value": 1000, "exact": False},
    }


def test_a_rate_has_the_members_of_the_rest_api() -> None:
    assert written(Rate.parse("10/s", burst=20)) == {"amount": 10, "per": 1.0, "burst": 20, "window": False}
    assert written(Rate.parse("10/1m", window=True)) == {"amount": 10, "per": 60.0, "burst": None, "window": True}


def test_dataclasses_sets_and_others() -> None:
    at = datetime(2027, 1, 31, 8, 0, 0, 500_000, tzinfo=UTC)
    assert written([Sample(at, timedelta(0)), frozenset({"b", "a"}), 1j]) == [
        {"at": "2027-01-31T08:00:00.500000Z", "took": 0.0},
        ["a", "b"],
        "1j",
    ]


@pytest.mark.parametrize(
    "character", ["\x1b", "\x9b", "\x85", "\u202e", "\u2066", "\u200f", "\u2028", "\ufeff", "\U000e0001"]
)
def test_characters_that_a_terminal_obeys_are_escaped_in_json(character: str) -> None:
    text = json.dumps({"a": f"x{character}y", "ü": "👍"}, ensure_ascii=False, indent=2)
    assert character not in json_output.escaped(text)
    assert json.loads(json_output.escaped(text)) == {"a": f"x{character}y", "ü": "👍"}
    assert "👍" in json_output.escaped(text)
