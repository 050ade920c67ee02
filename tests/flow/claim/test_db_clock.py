from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rowlock.flow.claim.db_clock import DatabaseClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_the_time_of_the_last_answer_goes_on_with_the_clock_of_the_loop() -> None:
    seconds = 100.0
    clock = DatabaseClock(lambda: seconds)
    assert clock.now() is None
    assert clock.seconds_until(NOON) == 0
    clock.set(NOON)
    seconds += 5
    assert clock.now() == NOON + timedelta(seconds=5)
    assert clock.seconds_until(NOON + timedelta(seconds=30)) == 25
    assert clock.seconds_until(NOON) == 0
