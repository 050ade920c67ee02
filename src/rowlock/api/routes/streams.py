"""Live streams over the wire: one job, or everything, as server-sent events."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast

from fastapi import Header, Query, Request
from pydantic import Field
from starlette.responses import Response

from rowlock.api.dependencies import Asked, Door, JobId
from rowlock.api.routes.lanes import LaneAnswer
from rowlock.api.routes.stats import OverviewAnswer
from rowlock.api.routes.workers import WorkerAnswer
from rowlock.api.routing import Routes
from rowlock.api.shapes import Body, JobAnswer
from rowlock.api.sse import ALIVE, RETRY, Clockwork, EventStream, at, come_back, frame
from rowlock.errors import InvalidOption
from rowlock.model.access import Permission
from rowlock.model.event import SNAPSHOT
from rowlock.model.feed import FeedFilter, Topic
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from rowlock.desk.follow.feed import Listener
    from rowlock.desk.follow.stream import JobStream
    from rowlock.model.event import StreamEvent
    from rowlock.model.feed import FeedEvent
    from rowlock.model.job import Job
    from rowlock.model.lane import Lane
    from rowlock.model.workload import Overview, WorkerView

routes = Routes("streams")
W = TypeVar("W", bound=StrEnum)
_SEEN: Final = "The id of the last event that was seen; browsers send it."
_LONGEST: Final = 8000
"""Characters of a position in the feed: it lists the transactions that were open then."""
Resume = Annotated[str | None, Header(alias="Last-Event-ID", max_length=200, description=_SEEN)]
FeedResume = Annotated[str | None, Header(alias="Last-Event-ID", max_length=_LONGEST, description=_SEEN)]
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


class Filters(Body):
    """What somebody wants to hear of. Lists are written with commas."""

    topics: str = Field("jobs", max_length=100, description="jobs, lanes, workers, stats; with commas.")
    kind: str = Field("", max_length=2000, description="Only jobs of these kinds.")
    lane: str = Field("", max_length=2000, description="Only jobs that run or ran in these lanes.")
    tenant: str = Field("", max_length=2000, description="Only jobs of these tenants.")
    state: str = Field("", max_length=200, description="Only jobs that reached one of these states.")
    last_event_id: str | None = Field(None, max_length=_LONGEST, description="As Last-Event-ID.")

    @property
    def wanted(self) -> FeedFilter:
        """As the desk has it; InvalidOption names what there is."""
        return FeedFilter(
            topics=frozenset(_word(Topic, "topic", name) for name in _listed(self.topics)),
            kinds=_listed(self.kind),
            lanes=_listed(self.lane),
            tenants=_listed(self.tenant),
            states=frozenset(_word(State, "state", name) for name in _listed(self.state)),
        )


def _listed(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def _word(words: type[W], what: str, name: str) -> W:
    try:
        return words(name)
    except ValueError:
        message = f"There is no {what} {name!r}; there are {', '.join(words)}."
        raise InvalidOption(message) from None


@routes.get(
    "/jobs/{job_id}/stream",
    needs=Permission.READ,
    response_class=EventStream,
    responses={**STREAM, **_OVER},
    extra={"x-streams": True},
)
async def stream_job(
    request: Request, door: Door, desk: Asked, job_id: JobId, *, resume: Resume = None, resume_query: ResumeQuery = None
) -> Response:
    """A snapshot of the job, then everything that happens to it, in order and once, until its end.

    With the id of the last event that was seen, what came after it instead; 0: from the beginning. Whatever process
    answers, it says the same.
    """
    if desk.streams.closing:
        return EventStream(come_back())
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
        return frame(SNAPSHOT, JobAnswer.of(cast("Job", event.data["job"])).model_dump(), event.position)
    data = event.data if event.at is None else {**event.data, "at": event.at}
    return frame(event.name, data, event.position)


@routes.get("/events", needs=Permission.READ, response_class=EventStream, responses=STREAM, extra={"x-streams": True})
async def stream_events(
    request: Request,
    door: Door,
    desk: Asked,
    chosen: Annotated[Filters, Query()],
    resume: FeedResume = None,
) -> Response:
    """Everything that changes, over one connection: jobs in sight, and lanes, workers and statistics where asked for.

    A frame has all that one look found, twice a second at most; each change of a job is told once, as the job is then.
    """
    wanted = chosen.wanted
    if desk.streams.closing:
        return EventStream(come_back())
    listener = await desk.streams.listen(wanted, after=resume or chosen.last_event_id)

    async def allowed() -> None:
        (await (await door.desk(request)).streams.listen(wanted)).close()

    return EventStream(_feed_frames(listener, Clockwork(door.stream_seconds, allowed)))


async def _feed_frames(listener: Listener, clockwork: Clockwork) -> AsyncIterator[bytes]:
    with contextlib.closing(listener):
        yield RETRY
        while not listener.done:
            frames = await listener.next(clockwork.patience)
            if frames:
                yield b"".join(_feed_frame(one) for one in frames)
            if not await clockwork.goes_on():
                return
            if not frames and not listener.done:
                yield ALIVE if listener.position is None else at(listener.position)


def _feed_frame(told: FeedEvent) -> bytes:
    if told.name is None:
        return at(told.position)
    data: Mapping[str, object] = told.data
    match told.name:
        case Topic.LANES:
            data = {"items": [LaneAnswer.of(lane).model_dump() for lane in cast("Sequence[Lane]", data["items"])]}
        case Topic.WORKERS:
            data = {"items": [WorkerAnswer.of(one).model_dump() for one in cast("Sequence[WorkerView]", data["items"])]}
        case Topic.STATS:
            data = OverviewAnswer.of(cast("Overview", data["overview"])).model_dump()
        case _:
            pass
    return frame(told.name, data, told.position)
