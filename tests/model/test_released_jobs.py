from __future__ import annotations

from datetime import UTC, datetime

from rowlock.model.released_jobs import ReleasedJob, parse_released


def test_the_column_of_a_statement_is_read_in_order() -> None:
    found = parse_released('[[7, "k", 5, 0, 1700000000.5], [8, "k", 0, 3, 1700000001]]')
    first = datetime.fromtimestamp(1700000000.5, UTC)
    assert found[0] == ReleasedJob(7, ("k", 5, 0), first)
    assert [job.id for job in found] == [7, 8]
    assert parse_released(None) == []
