from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rowlock.model.times.written_time import parse_time


@pytest.mark.parametrize(
    ("text", "start", "exact"),
    [
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC), timedelta(days=1)),
        ("2026-11-01T10:30", datetime(2026, 11, 1, 10, 30, tzinfo=UTC), timedelta(minutes=1)),
        ("2026-11-01T10:30:05+02:00", datetime(2026, 11, 1, 8, 30, 5, tzinfo=UTC), timedelta(seconds=1)),
        ("2026-11-01t10:30:05.5z", datetime(2026, 11, 1, 10, 30, 5, 500_000, tzinfo=UTC), timedelta(microseconds=1)),
    ],
)
def test_a_time_is_as_exact_as_it_was_written(text: str, start: datetime, exact: timedelta) -> None:
    found = parse_time(text)
    assert found is not None
    assert (found.start, found.end - found.start) == (start, exact)
    assert parse_time(str(found)) == found


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-11", "2026-11-01 10:30", "٢٠٢٦-11-01"])
def test_another_text_is_none(text: str) -> None:
    assert parse_time(text) is None


@pytest.mark.parametrize("text", ["2026-13-01", "2026-02-30", "0001-01-01T00:00+10:00"])
def test_a_date_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_time(text)
