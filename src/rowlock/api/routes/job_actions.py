"""Orders for one job: approve, reject, cancel, retry, clone, priority."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

from fastapi import Body, Request
from starlette.responses import Response

from rowlock.api.dependencies import CurrentDesk, JobId, job_url
from rowlock.api.problems import Problem
from rowlock.api.route_permissions import RoutePermissions
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
    read = functools.partial(desk.jobs.get_for, Permission.APPROVE, job_id)
    return await _ordered(Verb.APPROVE, desk.jobs.approve(job_id, note=order.note), read)


@orders.post("/jobs/{job_id}/reject", needs=Permission.APPROVE, problems=(*_CONFLICTS, "approval-refused"))
async def reject_job(desk: CurrentDesk, job_id: JobId, order: OptionalOrder) -> JobAnswer:
    """End a pending job."""
    read = functools.partial(desk.jobs.get_for, Permission.APPROVE, job_id)
    return await _ordered(Verb.REJECT, desk.jobs.reject(job_id, note=order.note), read)


@orders.post("/jobs/{job_id}/cancel", needs=Permission.CANCEL, problems=_CONFLICTS)
async def cancel_job(desk: CurrentDesk, job_id: JobId, order: OptionalCancelOrder) -> JobAnswer:
    """End a waiting job at once; ask a running one to stop, or with `stop` end it whatever its handler does."""
    return await _cancel(desk, job_id, order)


@orders.post("/jobs/{job_id}/retry", needs=Permission.RETRY, problems=(*_CONFLICTS, "unique-conflict"))
async def retry_job(desk: CurrentDesk, job_id: JobId, order: OptionalOrder) -> JobAnswer:
    """Run a finished job again with a new attempt budget."""
    read = functools.partial(desk.jobs.get_for, Permission.RETRY, job_id)
    return await _ordered(Verb.RETRY, desk.jobs.retry(job_id, note=order.note), read)


@orders.post(
    "/jobs/{job_id}/clone",
    needs=RoutePermissions((Permission.READ, Permission.SUBMIT), also={"with secret arguments": Permission.READ_ARGS}),
    status_code=202,
    response_model=JobAnswer,
    problems=("kind-not-found", "invalid-arguments", "invalid-option", "conflict"),
)
async def clone_job(request: Request, desk: CurrentDesk, job_id: JobId) -> Response:
    """Submit a job like this one, with the approval that was demanded of it."""
    made = await desk.jobs.clone(job_id)
    headers = {"Location": job_url(request, made.job.public_id)}
    return Response(JobAnswer.of(made.job).model_dump_json(), 202, headers, media_type="application/json")


@admin.post("/admin/workers/jobs/{job_id}/cancel", needs=Permission.WORKERS_MANAGE, problems=_CONFLICTS)
async def cancel_running_job(desk: CurrentDesk, job_id: JobId, order: OptionalCancelOrder) -> JobAnswer:
    """Cancel any job of the platform; with `stop` end a running one whatever its handler does.

    Without `jobs:read` for the job, the answer leaves out its owner, labels, arguments, result and progress.
    """
    verb = Verb.STOP if order.stop else Verb.CANCEL
    wanted = desk.workers.cancel_job(job_id, stop=order.stop, note=order.note)
    return await _ordered(verb, wanted, lambda: desk.workers.job_for_order(job_id))


@admin.patch("/admin/workers/jobs/{job_id}/priority", needs=Permission.WORKERS_MANAGE, problems=_CONFLICTS)
async def reprioritise_job(desk: CurrentDesk, job_id: JobId, order: PriorityOrder) -> JobAnswer:
    """Give a waiting job of the platform another priority; the answer is as after a cancel there."""
    try:
        return JobAnswer.of(await desk.workers.reprioritise_job(job_id, order.priority, note=order.note))
    except WrongState as error:
        raise refusal(await desk.workers.job_for_order(job_id), str(error)) from error


async def _cancel(desk: CurrentDesk, job_id: str, order: CancelOrder) -> JobAnswer:
    read = functools.partial(desk.jobs.get_for, Permission.CANCEL, job_id)
    if order.stop:
        return await _ordered(Verb.STOP, desk.jobs.stop(job_id, note=order.note), read)
    return await _ordered(Verb.CANCEL, desk.jobs.cancel(job_id, note=order.note), read)


async def _ordered(verb: Verb, result: Awaitable[Job], read: Callable[[], Awaitable[Job]]) -> JobAnswer:
    """The job after the order. An order that is fulfilled already changes nothing and succeeds."""
    try:
        return JobAnswer.of(await result)
    except ApprovalRefused:
        raise
    except WrongState as error:
        job = await read()
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
