"""The oracle of schedules, against the table of docs/howto/schedules.md."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from torture.wall import Wall, changes

LONDON = "Europe/London"


def shown(text: str, day: datetime, tz: str = LONDON) -> list[str]:
    slots = Wall(text, tz).slots(day, day + timedelta(hours=5))
    return [f"{slot.astimezone(ZoneInfo(tz)):%H:%M%z}" for slot in slots]


FORWARD, BACK = datetime(2027, 3, 28, tzinfo=UTC), datetime(2027, 10, 30, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "forward", "back"),
    [
        ("30 1 * * *", ["02:00+0100"], ["01:30+0100"]),
        ("0 * 28,31 * *", ["00:00+0000", "02:00+0100", "03:00+0100", "04:00+0100", "05:00+0100"],
         ["00:00+0100", "01:00+0100", "01:00+0000", "02:00+0000", "03:00+0000"]),
        ("*/30 1 * * *", [], ["01:00+0100", "01:30+0100", "01:00+0000", "01:30+0000"]),
        ("0 2 L * SUN", ["02:00+0100"], ["02:00+0000"]),
        ("0 2 * * SUN#4", ["02:00+0100"], []),
        ("15,45 2-4/2 * MAR *", ["02:15+0100", "02:45+0100", "04:15+0100", "04:45+0100"], []),
    ],
)  # fmt: skip
def test_the_oracle_reads_rules_as_the_docs_do(text: str, forward: list[str], back: list[str]) -> None:
    assert shown(text, FORWARD) == forward
    assert shown(text, BACK) == back


def test_changes_are_the_first_instants_of_the_new_time() -> None:
    assert changes(LONDON, 2027) == [datetime(2027, 3, 28, 1, tzinfo=UTC), datetime(2027, 10, 31, 1, tzinfo=UTC)]
    assert changes("UTC", 2027) == []
