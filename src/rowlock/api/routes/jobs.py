"""Jobs over the wire: submit, find, read, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Header, Query, Request
from starlette.responses import Response

from rowlock.api.dependencies import (
    Asked,
    Cursor,
    Door,
    IfMatch,
    IfNoneMatch,
    JobId,
    Limit,
    conditional,
    etag_of,
    job_url,
    links,
    matched,
    outdated,
    seconds_to_wait,
)
from rowlock.api.problems import Problem
from rowlock.api.routes.job_orders import refusal
from rowlock.api.routing import Routes
from rowlock.api.shapes import (
    ActAnswer,
    Answer,
    AttemptAnswer,
    AttemptsAnswer,
    CountAnswer,
    ExplanationAnswer,
    JobAnswer,
    JobChange,
    Submission,
    SubmittedAnswer,
)
from rowlock.errors import WrongState
from rowlock.model.access import Permission
from rowlock.model.state import WAITING, State

if TYPE_CHECKING:
    from rowlock.model.page import Page

routes = Routes("jobs")
Key = Annotated[
    str | None,
    Header(min_length=1, max_length=255, description="Makes the request safe to repeat for 24 hours."),
]
Prefer = Annotated[
    str | None, Header(description="`wait=N`: answer when the job has ended, within N (up to 30) seconds.")
]

Search = Annotated[
    str,
    Query(max_length=2000, examples=["state:failed kind:ingest* created:<2h -tag:test"], description="The search."),
]


@routes.post("/jobs", needs=Permission.SUBMIT, status_code=202, response_model=SubmittedAnswer)
async def submit_job(
    request: Request,
    door: Door,
    desk: Asked,
    said: Submission,
    *,
    idempotency_key: Key = None,
    prefer: Prefer = None,
) -> Response:
    """Enqueue a job and answer at once with its id.

    202: it is enqueued, or ran to its end within `Prefer: wait`; 200: its unique_key led to a job that was there.
    """
    done = await door.submissions.submit(desk, said, idempotency_key)
    job = done.submitted.job
    headers = {"Location": job_url(request, job.public_id)}
    if done.replayed:
        headers["Idempotency-Replayed"] = "true"
    wait, status = seconds_to_wait(prefer), done.status
    if wait is not None:
        headers["Preference-Applied"] = f"wait={wait}"
        job = await door.ended(job, wait)
        if job.is_final and not done.replayed:
            status = 200
            await door.submissions.answered(done, status)
    if not job.is_final:
        headers["Retry-After"] = "1"
    answer = SubmittedAnswer.of(job, deduplicated=done.submitted.what != "created")
    return Response(answer.model_dump_json(), status, headers, media_type="application/json")


class JobsAnswer(Answer):
    """A page. cut_off: the search looked at as many jobs as it may; next_cursor goes on from there.

    suggestion: the search that may have been meant, where none was found.
    """

    items: list[JobAnswer]
    next_cursor: str | None
    prev_cursor: str | None
    count: CountAnswer
    cut_off: bool
    suggestion: str | None = None


@routes.get("/jobs", needs=Permission.READ, response_model=JobsAnswer)
async def list_jobs(
    request: Request,
    desk: Asked,
    q: Search = "",
    *,
    sort: Literal["newest", "oldest"] = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Jobs that fulfil every term of the search, page by page."""
    return page_of(request, await desk.jobs.search(q, limit=limit, after=cursor, sort=sort))


def page_of(request: Request, page: Page) -> Response:
    """A page of jobs, with links to those around it."""
    answer = JobsAnswer(
        items=[JobAnswer.of(job) for job in page.items],
        next_cursor=page.next,
        prev_cursor=page.previous,
        count=CountAnswer.of(page.count),
        cut_off=page.cut_off,
        suggestion=page.suggestion,
    )
    headers = links(request, next=page.next, prev=page.previous)
    return Response(answer.model_dump_json(), headers=headers, media_type="application/json")


@routes.get("/jobs/{job_id}", needs=Permission.READ, response_model=JobAnswer)
async def get_job(desk: Asked, job_id: JobId, if_none_match: IfNoneMatch = None) -> Response:
    """One job; 304 while it is as If-None-Match says. A job that retention removed is 404."""
    answer = JobAnswer.of(await desk.jobs.get(job_id))
    return conditional(answer, etag_of(answer), if_none_match)


@routes.patch("/jobs/{job_id}", needs=Permission.EDIT, response_model=JobAnswer)
async def change_job(desk: Asked, job_id: JobId, change: JobChange, if_match: IfMatch = None) -> Response:
    """Change a job that waits, if it still is as If-Match says. Changed arguments void an approval."""
    desk.guard.demand(Permission.EDIT, unsafe=True)
    job = await desk.jobs.get(job_id)
    current = JobAnswer.of(job)
    matched(if_match, etag_of(current), current)
    try:
        changed = await desk.jobs.edit(
            job_id,
            args=change.args,
            run_at=change.run_after,
            run_in=change.run_in_s,
            tags=change.tags,
            priority=change.priority,
            version=job.seq,
            note=change.note,
        )
    except WrongState as error:
        now = await desk.jobs.get(job_id)
        if now.state not in WAITING:
            raise refusal(now, str(error)) from error
        raise outdated(etag_of(JobAnswer.of(now)), JobAnswer.of(now)) from error
    answer = JobAnswer.of(changed)
    return conditional(answer, etag_of(answer), None)


@routes.delete("/jobs/{job_id}", needs=Permission.DELETE, response_model=JobAnswer)
async def delete_job(desk: Asked, job_id: JobId) -> JobAnswer:
    """Cancel a job that waits, remove one that has ended; 409 for one that runs. Answers with the job as it was."""
    job = await desk.jobs.get(job_id)
    if job.state is State.RUNNING:
        message = f"Job {job.public_id} is running. Stop it first: POST /admin/workers/jobs/{job.public_id}/cancel"
        raise Problem("invalid-transition", message, current_state=str(job.state), allowed=["cancel", "stop"])
    try:
        return JobAnswer.of(await (desk.jobs.delete(job_id) if job.is_final else desk.jobs.cancel(job_id)))
    except WrongState as error:
        raise Problem("conflict", f"{error} It changed meanwhile; read it again.") from error


@routes.get("/jobs/{job_id}/attempts", needs=Permission.READ)
async def list_attempts(desk: Asked, job_id: JobId) -> AttemptsAnswer:
    """Earlier runs of the job, and what people ordered."""
    history = await desk.jobs.history(job_id)
    return AttemptsAnswer(
        attempts=[AttemptAnswer.of(each) for each in history.attempts], acts=[ActAnswer.of(act) for act in history.acts]
    )


@routes.get("/jobs/{job_id}/explain", needs=Permission.READ)
async def explain_job(desk: Asked, job_id: JobId) -> ExplanationAnswer:
    """Why the job is not running: every reason that holds, the most decisive first."""
    return ExplanationAnswer.of(await desk.jobs.explain(job_id))
