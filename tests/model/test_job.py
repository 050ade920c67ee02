from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from rowlock.model import ids
from rowlock.model.job import Claim, Job
from rowlock.model.state import State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = Job(5, "k", State.QUEUED, 0, 0, 5, NOW, NOW)


def test_a_job_is_shown_by_its_public_id() -> None:
    assert ids.decode(JOB.public_id) == 5
    assert JOB.workflow is None
    assert replace(JOB, workflow_id=7).workflow == ids.encode_workflow(7)


def test_a_job_that_has_ended_is_final() -> None:
    assert [state for state in State if replace(JOB, state=state).is_final] == [
        state for state in State if state.is_final
    ]


def test_claims_of_one_job_are_ordered_by_their_fence() -> None:
    assert Claim(5, 1) < Claim(5, 2) < Claim(6, 1)
