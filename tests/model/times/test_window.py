from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.times.window import Window

LONDON = ZoneInfo("Europe/London")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    window = Window("22:00-06:00", days="sat")
    found = window.at(at("2026-01-04T03:00"), LONDON)  # a Sunday
    assert found is not None
    assert (found.start, found.end) == (at("2026-01-03T22:00"), at("2026-01-04T06:00"))
    assert window.at(at("2026-01-04T23:00"), LONDON) is None


def test_its_end_is_outside_of_it() -> None:
    window = Window("09:00-17:00")
    assert window.at(at("2026-01-04T09:00"), LONDON) is not None
    assert window.at(at("2026-01-04T17:00"), LONDON) is None


@pytest.mark.parametrize("window", [Window("22:00-06:00", "sat,sun", "defer"), Window("00:00-24:00")])
def test_it_is_stored_as_json(window: Window) -> None:
    assert Window.from_json(window.as_json()) == window


@pytest.mark.parametrize("wrong", [{"hours": "22-6"}, {"hours": "09:00-09:00"}, {"days": "noday"}, {"then": "wait"}])
def test_what_a_window_cannot_be_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidOption):
        Window(**{"hours": "22:00-06:00", **wrong})  # type: ignore[arg-type]
