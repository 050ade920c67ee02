"""Jobs: submit, find, read, change, remove."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import Header, Query, Request
from starlette.responses import Response

from rowlock.api.dependencies import (
    CurrentDesk,
    Cursor,
    Door,
    IfMatch,
    IfNoneMatch,
    JobId,
    Limit,
    conditional,
    etag_of,
    expected,
    job_url,
    links,
    outdated,
    require_match,
    seconds_to_wait,
)
from rowlock.api.problems import Problem
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routes.job_actions import refusal
from rowlock.api.routing import Routes
from rowlock.api.schemas.job_details import (
    ActAnswer,
    AttemptAnswer,
    AttemptsAnswer,
    ExplanationAnswer,
    ExplanationsAnswer,
    PreviousAnswer,
    RelativeAnswer,
    RelativesAnswer,
)
from rowlock.api.schemas.jobs import JobAnswer, JobChange, JobsAnswer, Submission, SubmittedAnswer
from rowlock.desk.jobs import MOST_EXPLAINED
from rowlock.errors import Forbidden, JobNotFound, WrongState
from rowlock.model.access import Permission
from rowlock.model.state import WAITING, State

if TYPE_CHECKING:
    from rowlock.model.job import Job
    from rowlock.model.page import Page

routes = Routes("jobs")
Key = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        description="Makes the request safe to repeat for 24 hours; absent: each request makes a job.",
        examples=["order-42"],
    ),
]
Prefer = Annotated[
    str | None,
    Header(
        description="`wait=N` answers when the job has ended, within N (at most 30) seconds; absent: at once.",
        examples=["wait=10"],
    ),
]

Search = Annotated[
    str,
    Query(
        max_length=2000,
        description="Search; every term must be fulfilled. Empty: all jobs.",
        examples=["state:failed kind:ingest* created:<2h -tag:test"],
    ),
]
Sort = Annotated[Literal["newest", "oldest"], Query(description="Order of the jobs.", examples=["newest"])]
JobIds = Annotated[
    list[str],
    Query(
        alias="id",
        min_length=1,
        max_length=MOST_EXPLAINED,
        description="Public ids of jobs; the parameter is repeated for each.",
        examples=[["363M-KAPQ-NW11-0P"]],
    ),
]
_SUBMITTED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": SubmittedAnswer,
        "description": (
            "The job ended within `Prefer: wait`, or a job with this `unique_key` existed (`deduplicated` is true)."
        ),
    },
    202: {"description": "The job is enqueued; with `Prefer: wait`, it has not ended in time."},
}


@routes.post(
    "/jobs",
    needs=RoutePermissions(
        (Permission.SUBMIT,),
        also={"for another subject or tenant": Permission.SUBMIT_AS, "with a gate": Permission.EDIT},
    ),
    status_code=202,
    response_model=SubmittedAnswer,
    responses=_SUBMITTED,
    problems=(
        *("kind-not-found", "job-not-found", "invalid-arguments", "invalid-option", "conflict", "unique-conflict"),
        *("in-flight", "key-reused"),
    ),
)
async def submit_job(
    request: Request,
    door: Door,
    desk: CurrentDesk,
    submission: Submission,
    *,
    idempotency_key: Key = None,
    prefer: Prefer = None,
) -> Response:
    """Enqueue a job and answer at once with its id.

    202: the job is enqueued. 200: it ended within `Prefer: wait`, or a job with this `unique_key` existed.
    """
    done = await door.submissions.submit(desk, submission, idempotency_key)
    job = done.submitted.job
    headers = {"Location": job_url(request, job.public_id)}
    if done.replayed:
        headers["Idempotency-Replayed"] = "true"
    wait, status = seconds_to_wait(prefer), done.status
    if wait is not None:
        headers["Preference-Applied"] = f"wait={wait}"
        job = await door.wait_for_end(job, wait)
        if job.is_final and not done.replayed:
            status = 200
            await door.submissions.answered(done, status)
    if not job.is_final:
        headers["Retry-After"] = "1"
    answer = SubmittedAnswer.of(job, deduplicated=done.submitted.what != "created")
    return Response(answer.model_dump_json(), status, headers, media_type="application/json")


@routes.get("/jobs", needs=Permission.READ, response_model=JobsAnswer, problems=("invalid-search", "invalid-cursor"))
async def list_jobs(
    request: Request,
    desk: CurrentDesk,
    q: Search = "",
    *,
    sort: Sort = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Jobs that fulfil every term of the search, page by page."""
    return page_of(request, await desk.jobs.search(q, limit=limit, after=cursor, sort=sort))


def page_of(request: Request, page: Page) -> Response:
    """A page of jobs, with links to the pages around it."""
    headers = links(request, next=page.next, prev=page.previous)
    return Response(JobsAnswer.of(page).model_dump_json(), headers=headers, media_type="application/json")


@routes.get("/jobs/{job_id}", needs=Permission.READ, response_model=JobAnswer)
async def get_job(desk: CurrentDesk, job_id: JobId, if_none_match: IfNoneMatch = None) -> Response:
    """One job; 304 while If-None-Match is current. A job that retention has removed is 404."""
    answer = JobAnswer.of(await desk.jobs.get(job_id))
    return conditional(answer, etag_of(answer), if_none_match)


@routes.patch(
    "/jobs/{job_id}",
    needs=Permission.EDIT,
    response_model=JobAnswer,
    problems=("invalid-arguments", "invalid-option", "kind-not-found", "conflict", "invalid-transition"),
)
async def change_job(desk: CurrentDesk, job_id: JobId, change: JobChange, if_match: IfMatch) -> Response:
    """Change a waiting job, if If-Match names its current version. Changed arguments void an approval."""
    desk.guard.demand(Permission.EDIT, unsafe=True, scoped=True)
    job = await desk.jobs.get_for(Permission.EDIT, job_id)
    current = JobAnswer.of(job)
    require_match(if_match, etag_of(current), current)
    try:
        changed = await desk.jobs.edit(
            job_id,
            args=change.args,
            run_at=change.run_after,
            run_in=change.run_in,
            tags=change.tags,
            priority=change.priority,
            version=expected(if_match, job.seq),
            note=change.note,
        )
    except WrongState as error:
        now = await desk.jobs.get_for(Permission.EDIT, job_id)
        if now.state not in WAITING:
            raise refusal(now, str(error)) from error
        raise outdated(etag_of(JobAnswer.of(now)), JobAnswer.of(now)) from error
    answer = JobAnswer.of(changed)
    return conditional(answer, etag_of(answer), None)


@routes.delete(
    "/jobs/{job_id}",
    needs=RoutePermissions(by_case={"a waiting job": Permission.CANCEL, "an ended job": Permission.DELETE}),
    response_model=JobAnswer,
    problems=("invalid-transition", "conflict"),
)
async def delete_job(desk: CurrentDesk, job_id: JobId) -> JobAnswer:
    """Cancel a waiting job, remove an ended one; 409 for a running one. Answers with the job as it was."""
    job = await _to_delete(desk, job_id)
    if job.state is State.RUNNING:
        message = f"Job {job.public_id} is running. Stop it first: POST /jobs/{job.public_id}/cancel"
        raise Problem("invalid-transition", message, current_state=str(job.state), allowed=["cancel", "stop"])
    try:
        return JobAnswer.of(await (desk.jobs.delete(job_id) if job.is_final else desk.jobs.cancel(job_id)))
    except WrongState as error:
        raise Problem("conflict", f"{error} It changed meanwhile; read it again.") from error


async def _to_delete(desk: CurrentDesk, job_id: str) -> Job:
    """The job, for a principal that may cancel it or remove it."""
    held = [each for each in (Permission.CANCEL, Permission.DELETE) if desk.principal.scopes(each)]
    for permission in held[:-1]:
        with contextlib.suppress(Forbidden, JobNotFound):
            return await desk.jobs.get_for(permission, job_id)
    return await desk.jobs.get_for(held[-1] if held else Permission.DELETE, job_id)


@routes.get("/jobs/{job_id}/attempts", needs=Permission.READ)
async def list_attempts(desk: CurrentDesk, job_id: JobId) -> AttemptsAnswer:
    """Earlier runs of the job, and the orders that people gave."""
    history = await desk.jobs.history(job_id)
    return AttemptsAnswer(
        attempts=[AttemptAnswer.of(each) for each in history.attempts], acts=[ActAnswer.of(act) for act in history.acts]
    )


@routes.get("/jobs/{job_id}/previous", needs=Permission.READ)
async def get_previous_job(desk: CurrentDesk, job_id: JobId) -> PreviousAnswer:
    """The last job of the same kind and tenant before this one that has run, for comparing arguments."""
    found = await desk.jobs.previous(job_id)
    return PreviousAnswer(job=None if found is None else JobAnswer.of(found))


@routes.get("/jobs/{job_id}/relatives", needs=Permission.READ)
async def list_relatives(desk: CurrentDesk, job_id: JobId) -> RelativesAnswer:
    """The jobs that this one waits for in its workflow, and those that wait for it, as far as you may see them."""
    return RelativesAnswer(items=[RelativeAnswer.of(each) for each in await desk.jobs.relatives(job_id)])


@routes.get("/jobs/{job_id}/explain", needs=Permission.READ)
async def explain_job(desk: CurrentDesk, job_id: JobId) -> ExplanationAnswer:
    """Why the job is not running: every reason that holds, the most decisive first."""
    return ExplanationAnswer.of(await desk.jobs.explain(job_id))


@routes.get("/explanations", needs=Permission.READ, problems=("invalid-id",))
async def explain_jobs(desk: CurrentDesk, job_ids: JobIds) -> ExplanationsAnswer:
    """Why each of up to 50 jobs is not running, as they stood at one moment. Jobs that are gone are left out."""
    found = await desk.jobs.explain_many(job_ids)
    return ExplanationsAnswer(items=[ExplanationAnswer.of(explanation) for explanation in found])
