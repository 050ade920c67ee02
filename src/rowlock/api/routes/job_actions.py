"""Orders for one job: approve, reject, cancel, retry, clone, priority."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated

from fastapi import Body, Request
from starlette.responses import Response

from rowlock.api.dependencies import CurrentDesk, JobId, job_url
from rowlock.api.problems import Problem
from rowlock.api.routing import Routes
from rowlock.api.schemas.job_actions import CancelOrder, Order, PriorityOrder
from rowlock.api.schemas.jobs import JobAnswer
from rowlock.errors import ApprovalRefused, WrongState
from rowlock.model.access import Permission
from rowlock.model.state import TRANSITIONS, State, Verb, reachable

if TYPE_CHECKING:
    from rowlock.model.job import Job

orders = Routes("jobs")
admin = Routes("workers")
_ORDERS = (Verb.APPROVE, Verb.REJECT, Verb.CANCEL, Verb.STOP, Verb.RETRY)
_CONFLICTS = ("invalid-transition", "conflict")
OptionalOrder = Annotated[Order, Body(default_factory=Order)]
OptionalCancelOrder = Annotated[CancelOrder, Body(default_factory=CancelOrder)]


@orders.post("/jobs/{job_id}/approve", needs=Permission.APPROVE, problems=(*_CONFLICTS, "approval-refused"))
async def approve_job(desk: CurrentDesk, job_id: JobId, order: OptionalOrder) -> JobAnswer:
    """Let a pending job run."""
    return await _ordered(desk, Verb.APPROVE, job_id, desk.jobs.approve(job_id, note=order.note))


@orders.post("/jobs/{job_id}/reject", needs=Permission.APPROVE, problems=(*_CONFLICTS, "approval-refused"))
async def reject_job(desk: CurrentDesk, job_id: JobId, order: OptionalOrder) -> JobAnswer:
    """End a pending job."""
    return await _ordered(desk, Verb.REJECT, job_id, desk.jobs.reject(job_id, note=order.note))


@orders.post("/jobs/{job_id}/cancel", needs=Permission.CANCEL, problems=_CONFLICTS)
async def cancel_job(desk: CurrentDesk, job_id: JobId, order: OptionalCancelOrder) -> JobAnswer:
    """End a waiting job at once; ask a running one to stop, or with `stop` end it whatever its handler does."""
    return await _cancel(desk, job_id, order)


@orders.post("/jobs/{job_id}/retry", needs=Permission.RETRY, problems=(*_CONFLICTS, "unique-conflict"))
async def retry_job(desk: CurrentDesk, job_id: JobId, order: OptionalOrder) -> JobAnswer:
    """Run a finished job again with a new attempt budget."""
    return await _ordered(desk, Verb.RETRY, job_id, desk.jobs.retry(job_id, note=order.note))


@orders.post(
    "/jobs/{job_id}/clone",
    needs=Permission.SUBMIT,
    status_code=202,
    response_model=JobAnswer,
    problems=("kind-not-found", "invalid-arguments", "invalid-option", "conflict"),
)
async def clone_job(request: Request, desk: CurrentDesk, job_id: JobId) -> Response:
    """Submit a job like this one, with the approval that was demanded of it. Secret arguments need jobs:read_args."""
    made = await desk.jobs.clone(job_id)
    headers = {"Location": job_url(request, made.job.public_id)}
    return Response(JobAnswer.of(made.job).model_dump_json(), 202, headers, media_type="application/json")


@admin.post("/admin/workers/jobs/{job_id}/cancel", needs=Permission.WORKERS_MANAGE, problems=_CONFLICTS)
async def cancel_running_job(desk: CurrentDesk, job_id: JobId, order: OptionalCancelOrder) -> JobAnswer:
    """Cancel any job as an operator; with `stop` end a running one whatever its handler does."""
    desk.guard.demand(Permission.WORKERS_MANAGE, unsafe=True)
    return await _cancel(desk, job_id, order)


@admin.patch("/admin/workers/jobs/{job_id}/priority", needs=Permission.WORKERS_MANAGE, problems=_CONFLICTS)
async def reprioritise_job(desk: CurrentDesk, job_id: JobId, order: PriorityOrder) -> JobAnswer:
    """Give a waiting job another priority."""
    desk.guard.demand(Permission.WORKERS_MANAGE, unsafe=True)
    try:
        return JobAnswer.of(await desk.jobs.reprioritise(job_id, order.priority, note=order.note))
    except WrongState as error:
        raise refusal(await desk.jobs.get(job_id), str(error)) from error


async def _cancel(desk: CurrentDesk, job_id: str, order: CancelOrder) -> JobAnswer:
    if order.stop:
        return await _ordered(desk, Verb.STOP, job_id, desk.jobs.stop(job_id, note=order.note))
    return await _ordered(desk, Verb.CANCEL, job_id, desk.jobs.cancel(job_id, note=order.note))


async def _ordered(desk: CurrentDesk, verb: Verb, job_id: str, result: Awaitable[Job]) -> JobAnswer:
    """The job after the order. An order that is fulfilled already changes nothing and succeeds."""
    try:
        return JobAnswer.of(await result)
    except ApprovalRefused:
        raise
    except WrongState as error:
        job = await desk.jobs.get(job_id)
        if job.state in _targets(verb):
            return JobAnswer.of(job)
        raise refusal(job, str(error), verb) from error


def _targets(verb: Verb) -> frozenset[State]:
    return frozenset().union(*TRANSITIONS[verb].values()) - {State.RUNNING}


def refusal(job: Job, why: str, verb: Verb | None = None) -> Problem:
    """The problem of an order that the job's state does not allow, with the orders it allows."""
    allowed = [str(each) for each in _ORDERS if reachable(each, job.state)]
    code = "conflict" if verb in allowed else "invalid-transition"
    return Problem(code, why, current_state=str(job.state), allowed=allowed)
