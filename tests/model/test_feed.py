from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rowlock.errors import InvalidOption
from rowlock.model import ids
from rowlock.model.feed import ChangedJob, FeedFilter, FeedPosition
from rowlock.model.state import State

NOW = datetime(2026, 11, 1, tzinfo=UTC)
CREATED = ChangedJob(5, 0, 0, "k", State.QUEUED, 0, 0, None, None, NOW, NOW, None, None)


@pytest.mark.parametrize("text", ["1700000000000.7:9:8", "1700000000000.7:9:", "1700000000000.7:12:8,9,11"])
def test_a_position_is_written_as_it_is_read(text: str) -> None:
    assert str(FeedPosition.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "1700000000000", "1700000000000.9:7:", "1700000000000.7:9:9", "1.0:1:", "99999999999999999.7:9:8"]
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption):
        FeedPosition.parse(text)


def test_a_change_is_named_after_what_happened_last() -> None:
    assert CREATED.event == "job.created"
    assert replace(CREATED, seq=1, fence=1, state=State.RUNNING).event == "job.claimed"
    assert replace(CREATED, seq=2, fence=2, state=State.FAILED).event == "job.failed"
    assert CREATED.data["id"] == ids.encode(5)


def test_a_filter_wants_what_fits_all_of_it_and_an_empty_one_wants_everything() -> None:
    assert FeedFilter().fits(CREATED)
    assert FeedFilter(kinds=frozenset({"k"}), states=frozenset({State.QUEUED})).fits(CREATED)
    assert not FeedFilter(kinds=frozenset({"k"}), lanes=frozenset({"front"})).fits(CREATED)
