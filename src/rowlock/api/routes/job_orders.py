"""Orders on one job: approve, reject, cancel, retry, clone, priority."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated

from fastapi import Body, Request
from starlette.responses import Response

from rowlock.api.dependencies import Asked, JobId, job_url
from rowlock.api.problems import Problem
from rowlock.api.routing import Routes
from rowlock.api.shapes import CancelOrder, JobAnswer, Order, PriorityOrder
from rowlock.errors import ApprovalRefused, WrongState
from rowlock.model.access import Permission
from rowlock.model.redact import MASK
from rowlock.model.state import TRANSITIONS, State, Verb, reachable

if TYPE_CHECKING:
    from rowlock.model.job import Job

orders = Routes("jobs")
admin = Routes("workers")
_PEOPLES = (Verb.APPROVE, Verb.REJECT, Verb.CANCEL, Verb.STOP, Verb.RETRY)
Said = Annotated[Order, Body(default_factory=Order)]
Cancelling = Annotated[CancelOrder, Body(default_factory=CancelOrder)]


@orders.post("/jobs/{job_id}/approve", needs=Permission.APPROVE)
async def approve_job(desk: Asked, job_id: JobId, said: Said) -> JobAnswer:
    """Let a pending job run."""
    return await _ordered(desk, Verb.APPROVE, job_id, desk.jobs.approve(job_id, note=said.note))


@orders.post("/jobs/{job_id}/reject", needs=Permission.APPROVE)
async def reject_job(desk: Asked, job_id: JobId, said: Said) -> JobAnswer:
    """End a pending job."""
    return await _ordered(desk, Verb.REJECT, job_id, desk.jobs.reject(job_id, note=said.note))


@orders.post("/jobs/{job_id}/cancel", needs=Permission.CANCEL)
async def cancel_job(desk: Asked, job_id: JobId, said: Cancelling) -> JobAnswer:
    """End a waiting job at once; ask a running one to stop, or with `stop` end it whatever its handler does."""
    return await _cancel(desk, job_id, said)


@orders.post("/jobs/{job_id}/retry", needs=Permission.RETRY)
async def retry_job(desk: Asked, job_id: JobId, said: Said) -> JobAnswer:
    """Run a finished job again with a new attempt budget."""
    return await _ordered(desk, Verb.RETRY, job_id, desk.jobs.retry(job_id, note=said.note))


@orders.post("/jobs/{job_id}/clone", needs=Permission.SUBMIT, status_code=202, response_model=JobAnswer)
async def clone_job(request: Request, desk: Asked, job_id: JobId) -> Response:
    """Submit a new job with the kind, arguments and labels of this one. Secret arguments take jobs:read_args."""
    desk.guard.demand(Permission.SUBMIT, unsafe=True)
    job = await desk.jobs.get(job_id)
    if MASK in json.dumps(job.args, ensure_ascii=False):
        desk.guard.demand(Permission.READ_ARGS)
    made = await desk.jobs.submit(
        job.kind,
        job.args,
        priority=job.priority,
        max_attempts=job.max_attempts,
        tags=job.tags,
        refs=job.refs,
        meta=job.meta,
    )
    headers = {"Location": job_url(request, made.job.public_id)}
    return Response(JobAnswer.of(made.job).model_dump_json(), 202, headers, media_type="application/json")


@admin.post("/admin/workers/jobs/{job_id}/cancel", needs=Permission.WORKERS_MANAGE)
async def cancel_running_job(desk: Asked, job_id: JobId, said: Cancelling) -> JobAnswer:
    """The same as an operator: for jobs that run."""
    desk.guard.demand(Permission.WORKERS_MANAGE, unsafe=True)
    return await _cancel(desk, job_id, said)


@admin.patch("/admin/workers/jobs/{job_id}/priority", needs=Permission.WORKERS_MANAGE)
async def reprioritise_job(desk: Asked, job_id: JobId, said: PriorityOrder) -> JobAnswer:
    """Give a waiting job another place in the queue."""
    desk.guard.demand(Permission.WORKERS_MANAGE, unsafe=True)
    try:
        return JobAnswer.of(await desk.jobs.reprioritise(job_id, said.priority, note=said.note))
    except WrongState as error:
        raise refusal(await desk.jobs.get(job_id), str(error)) from error


async def _cancel(desk: Asked, job_id: str, said: CancelOrder) -> JobAnswer:
    if said.stop:
        return await _ordered(desk, Verb.STOP, job_id, desk.jobs.stop(job_id, note=said.note))
    return await _ordered(desk, Verb.CANCEL, job_id, desk.jobs.cancel(job_id, note=said.note))


async def _ordered(desk: Asked, verb: Verb, job_id: str, order: Awaitable[Job]) -> JobAnswer:
    """The job after the order; an order for what is so already changes nothing and is fine."""
    try:
        return JobAnswer.of(await order)
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
    """The job's state does not allow it: which one it is, and what it allows."""
    allowed = [str(each) for each in _PEOPLES if reachable(each, job.state)]
    code = "conflict" if verb in allowed else "invalid-transition"
    return Problem(code, why, current_state=str(job.state), allowed=allowed)
