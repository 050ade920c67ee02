"""What a lane demands of a job is applied before the job is registered and written."""

from __future__ import annotations

from typing import Any

import pytest

from rowlock.flow.enqueue.insert import BulkInsert, SingleInsert
from rowlock.flow.enqueue.lane_policy import LanePolicy
from rowlock.flow.enqueue.prepare import prepare
from rowlock.flow.enqueue.workflow_insert import WorkflowInsert
from rowlock.model.approval import Approval
from rowlock.model.kind import Kind
from rowlock.model.options import Options

EMPTY: tuple[Any, ...] = ([], False, [], [], False)
CAREFUL: tuple[Any, ...] = (["pay"], False, ["pay", "mail"], [], False)
CAREFUL_REST: tuple[Any, ...] = ([], True, ["pay"], [], False)
FAIR: tuple[Any, ...] = ([], False, ["pay"], ["pay"], False)
FAIR_REST: tuple[Any, ...] = ([], False, ["pay"], [], True)


def test_no_lane_demands_anything_by_default() -> None:
    assert not LanePolicy.from_row(EMPTY).demands_anything
    assert LanePolicy.from_row(EMPTY) == LanePolicy()


@pytest.mark.parametrize(
    ("row", "kind", "approved", "fair"),
    [
        (CAREFUL, "pay", True, False),
        (CAREFUL, "mail", False, False),
        (CAREFUL_REST, "mail", True, False),
        (CAREFUL_REST, "pay", False, False),
        (FAIR, "pay", False, True),
        (FAIR, "mail", False, False),
        (FAIR_REST, "mail", False, True),
        (FAIR_REST, "pay", False, False),
    ],
)
def test_a_lane_demands_approval_or_shares_of_its_own_kinds(
    row: tuple[object, ...], kind: str, *, approved: bool, fair: bool
) -> None:
    policy = LanePolicy.from_row(row)
    job = prepare(Kind(kind), Options(tenant="acme"), {})
    demanded = policy.applied_to(job)
    assert policy.demands_anything
    assert (bool(demanded.job.approval), bool(demanded.job.share)) == (approved, fair)
    assert (demanded is job) == (not approved and not fair)
    assert demanded.pair == (kind, 0, demanded.job.share)


def test_a_job_without_a_tenant_has_no_share_and_a_stricter_approval_stays() -> None:
    strict = prepare(Kind("pay", approval=Approval(3)), Options(), {})
    assert LanePolicy.from_row(CAREFUL).applied_to(strict) is strict
    assert LanePolicy.from_row(FAIR).applied_to(strict) is strict


def test_every_insert_is_written_as_its_lane_demands() -> None:
    policy, job = LanePolicy.from_row(CAREFUL), prepare(Kind("pay"), Options(), {})
    single = SingleInsert(job, "{}").under(policy)
    assert single.jobs[0].job.approval
    assert not single.is_plain
    bulk = BulkInsert(["{}", "{}"], [job]).under(policy)
    assert bulk[1].approval
    assert not bulk.is_plain
    steps = WorkflowInsert([job], "workflow_start", lambda demanded: {"approval": demanded(job).job.approval}).under(
        policy
    )
    assert steps.jobs[0].job.approval == steps.values(steps.demanded)["approval"] == 1
