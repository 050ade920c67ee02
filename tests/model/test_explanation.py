from __future__ import annotations

from datetime import UTC, datetime

from rowlock.model.explanation import Explanation, Reason
from rowlock.model.job import Job
from rowlock.model.state import State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = Job(5, "k", State.QUEUED, 0, 0, 5, NOW, NOW)


def test_the_first_reason_is_the_verdict_and_the_others_follow() -> None:
    reasons = (Reason("no_slot", "No slot is free."), Reason("rate", "Its rate is used up."))
    told = Explanation(JOB, "No slot is free.", reasons)
    assert told.codes == ["no_slot", "rate"]
    assert str(told) == "No slot is free.\n  Also: Its rate is used up."
