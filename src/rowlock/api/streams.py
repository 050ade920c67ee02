"""Live streams over the wire: one job, or everything, as server-sent events."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Header, Query, Request
from starlette.responses import Response

from rowlock.api.asked import Asked, Door, JobId
from rowlock.api.route import Routes
from rowlock.api.shapes import JobAnswer
from rowlock.api.sse import ALIVE, RETRY, Clockwork, EventStream, frame
from rowlock.model.access import Permission
from rowlock.model.event import SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.desk.stream import JobStream
    from rowlock.model.event import StreamEvent

routes = Routes("streams")
Resume = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID", max_length=200, description="The id of the last event that was seen; browsers send it."
    ),
]
ResumeQuery = Annotated[
    str | None,
    Query(alias="last_event_id", max_length=200, description="The same for clients that cannot set headers."),
]
STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Events, as they happen.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
}
_OVER: Final[dict[int | str, dict[str, Any]]] = {
    204: {"description": "The job has ended and everything was told before."}
}


@routes.get(
    "/jobs/{job_id}/stream",
    needs=Permission.READ,
    response_class=EventStream,
    responses={**STREAM, **_OVER},
    extra={"x-streams": True},
)
async def stream_job(
    request: Request, door: Door, desk: Asked, job_id: JobId, resume: Resume = None, resume_query: ResumeQuery = None
) -> Response:
    """A snapshot of the job, then everything that happens to it, in order and once, until its end.

    With the id of the last event that was seen, what came after it instead; 0: from the beginning. Every process answers alike.
    """
    stream = await desk.streams.follow(job_id, after=resume or resume_query)
    if stream.over:
        stream.close()
        return Response(status_code=204)

    async def allowed() -> None:
        await (await door.desk(request)).jobs.get(job_id)

    return EventStream(_job_frames(stream, Clockwork(door.stream_seconds, allowed)))


async def _job_frames(stream: JobStream, clockwork: Clockwork) -> AsyncIterator[bytes]:
    with contextlib.closing(stream):
        yield RETRY
        while not stream.done:
            events = await stream.next(clockwork.patience)
            if events:
                yield b"".join(_job_frame(event) for event in events)
            if not await clockwork.goes_on():
                return
            if not events and not stream.done:
                yield ALIVE


def _job_frame(event: StreamEvent) -> bytes:
    if event.name == SNAPSHOT:
        return frame(SNAPSHOT, JobAnswer.of(event.data["job"]).model_dump(), event.position)  # type: ignore[arg-type]  # a Job
    data = event.data if event.at is None else {**event.data, "at": event.at}
    return frame(event.name, data, event.position)
