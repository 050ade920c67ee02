"""Live streams of server-sent events: one job, or the feed of all changes."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast

from fastapi import Header, Query, Request
from starlette.responses import Response

from rowlock.api.dependencies import CurrentDesk, Door, JobId
from rowlock.api.problems import Problem
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routing import Routes
from rowlock.api.schemas.base import Body, doc
from rowlock.api.schemas.job_actions import OperationAnswer
from rowlock.api.schemas.jobs import JobAnswer
from rowlock.api.schemas.lanes import LaneAnswer
from rowlock.api.schemas.schedules import ScheduleAnswer
from rowlock.api.schemas.stats import OverviewAnswer
from rowlock.api.schemas.workers import WorkerAnswer
from rowlock.api.streaming.sse import (
    KEEPALIVE,
    MEDIA_TYPE,
    RETRY,
    EventStream,
    StreamLifetime,
    frame,
    position_only,
    reconnect_later,
)
from rowlock.desk.follow.stream import TOPIC_PERMISSIONS
from rowlock.errors import InvalidOption
from rowlock.model.access import Permission
from rowlock.model.event import SNAPSHOT
from rowlock.model.feed import FeedFilter, Topic
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from rowlock.api.backend import ApiBackend
    from rowlock.desk.access import Desk
    from rowlock.desk.follow.feed import FeedSubscriber
    from rowlock.desk.follow.stream import JobStream
    from rowlock.model.event import StreamEvent
    from rowlock.model.feed import FeedEvent
    from rowlock.model.job import Job
    from rowlock.model.lane import Lane
    from rowlock.model.operation import Operation
    from rowlock.model.schedule import Schedule
    from rowlock.model.workload import Overview, WorkerView

routes = Routes("streams")
Word = TypeVar("Word", bound=StrEnum)
Source = TypeVar("Source", "JobStream", "FeedSubscriber")
_LONGEST: Final = 8000
"""Characters of a position in the feed, which lists the transactions that were open."""
_LAST: Final = "Id of the last event you received, from which the stream resumes; browsers send it."
_FEED_POSITION: Final = "1763291644861.9215:9217:9215"
Resume = Annotated[str | None, Header(alias="Last-Event-ID", max_length=200, description=_LAST, examples=["3.0.2.0"])]
FeedResume = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=_LONGEST, description=_LAST, examples=[_FEED_POSITION])
]
ResumeQuery = Annotated[
    str | None,
    Query(
        alias="last_event_id",
        max_length=200,
        description="Last-Event-ID for clients that cannot set headers; 0: from the beginning.",
        examples=["0"],
    ),
]


def stream_of(schema: str) -> dict[int | str, dict[str, Any]]:
    """The responses of a route whose stream has events of this schema."""
    text = "A stream of server-sent events. The schema describes one event: its id, its name, and its data, parsed."
    reference = {"$ref": f"#/components/schemas/{schema}"}
    return {200: {"description": text, "content": {MEDIA_TYPE: {"schema": reference}}}}


OVER: Final[dict[int | str, dict[str, Any]]] = {
    204: {"description": "The job has ended and the client has received every event: browsers do not reconnect."}
}


class Filters(Body):
    """The subscription of a client. Lists are separated by commas."""

    topics: Annotated[
        str,
        doc(
            "Topics, separated by commas: jobs, lanes, workers, stats, schedules, operations.",
            "jobs,lanes",
            max_length=100,
        ),
    ] = "jobs"
    kind: Annotated[str, doc("Only jobs of these kinds; empty: all.", "send_invoice", max_length=2000)] = ""
    lane: Annotated[str, doc("Only jobs that ran in these lanes; empty: all.", "reports", max_length=2000)] = ""
    tenant: Annotated[str, doc("Only jobs of these tenants; empty: all.", "acme", max_length=2000)] = ""
    state: Annotated[
        str, doc("Only jobs that reached one of these states; empty: all.", "failed,completed", max_length=200)
    ] = ""
    last_event_id: Annotated[
        str | None, doc("Last-Event-ID for clients that cannot set headers.", _FEED_POSITION, max_length=_LONGEST)
    ] = None

    @property
    def feed_filter(self) -> FeedFilter:
        """The filter for the desk; InvalidOption for an unknown topic or state."""
        return FeedFilter(
            topics=frozenset(_word(Topic, "topic", name) for name in _listed(self.topics)),
            kinds=_listed(self.kind),
            lanes=_listed(self.lane),
            tenants=_listed(self.tenant),
            states=frozenset(_word(State, "state", name) for name in _listed(self.state)),
        )


def _listed(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def _word(words: type[Word], what: str, name: str) -> Word:
    try:
        return words(name)
    except ValueError:
        message = f"There is no {what} {name!r}. Use one of {', '.join(words)}."
        raise InvalidOption(message) from None


@routes.get(
    "/jobs/{job_id}/stream",
    needs=Permission.READ,
    response_class=EventStream,
    responses={**stream_of("JobStreamEvent"), **OVER},
    extra={"x-streams": True},
    problems=("invalid-option", "too-many-streams", "streams-full"),
)
async def stream_job(
    request: Request,
    door: Door,
    desk: CurrentDesk,
    job_id: JobId,
    *,
    resume: Resume = None,
    resume_query: ResumeQuery = None,
) -> Response:
    """A snapshot of the job, then every event, in order and once, until its end.

    With a Last-Event-ID, the events after that one; with 0, all of them. Any process continues the stream of another.
    """
    if desk.streams.closing:
        return EventStream(reconnect_later())
    stream = await desk.streams.follow(job_id, after=resume or resume_query)
    if stream.over:
        stream.close()
        return Response(status_code=204)
    return _served(request, door, desk, stream, job_frames)


def _served(
    request: Request,
    door: ApiBackend,
    desk: Desk,
    stream: Source,
    frames: Callable[[Source, StreamLifetime], AsyncIterator[bytes]],
) -> EventStream:
    """The response that sends a stream, while the caller is who it was when the stream began.

    A caller whose rights changed reconnects and gets what it may read now, or the refusal.
    """
    try:
        place = door.stream_limits.take(desk.principal)
    except Problem:
        stream.close()
        raise
    door.stream_opens()

    async def may_read() -> bool:
        return await door.principal(request) == desk.principal

    def release() -> None:
        stream.close()
        place.release()

    return EventStream(frames(stream, StreamLifetime(door.stream_seconds, may_read)), release)


def _job_frame(event: StreamEvent) -> bytes:
    if event.name == SNAPSHOT:
        return frame(SNAPSHOT, JobAnswer.of(cast("Job", event.data["job"])).model_dump(), event.position)
    data = event.data if event.at is None else {**event.data, "at": event.at}
    return frame(event.name, data, event.position)


async def job_frames(
    stream: JobStream, lifetime: StreamLifetime, render: Callable[[StreamEvent], bytes] = _job_frame
) -> AsyncIterator[bytes]:
    """The events of a job as they are sent, with keep-alives between them. render: one event as a frame."""
    with contextlib.closing(stream):
        yield RETRY
        while not stream.done:
            events = await stream.next(lifetime.timeout)
            if not await lifetime.may_send(events=bool(events)):
                return
            if events:
                yield b"".join(map(render, events))
            if lifetime.is_over:
                return
            if lifetime.keepalive_due(sent=bool(events)) and not stream.done:
                yield KEEPALIVE


@routes.get(
    "/events",
    needs=RoutePermissions(by_case={f"the topic {topic}": need for topic, need in TOPIC_PERMISSIONS.items()}),
    response_class=EventStream,
    responses=stream_of("FeedStreamEvent"),
    extra={"x-streams": True},
    problems=("invalid-option", "too-many-streams", "streams-full"),
)
async def stream_events(
    request: Request,
    door: Door,
    desk: CurrentDesk,
    filters: Annotated[Filters, Query()],
    resume: FeedResume = None,
) -> Response:
    """All changes over one connection: visible jobs; on request lanes, workers, statistics, schedules, operations.

    Twice a second at most, one event has all jobs that changed, each once and as it is by then.
    """
    chosen = filters.feed_filter
    if desk.streams.closing:
        return EventStream(reconnect_later())
    listener = await desk.streams.listen(chosen, after=resume or filters.last_event_id)
    return _served(request, door, desk, listener, _feed_frames)


async def _feed_frames(listener: FeedSubscriber, lifetime: StreamLifetime) -> AsyncIterator[bytes]:
    with contextlib.closing(listener):
        yield RETRY
        while not listener.done:
            events = await listener.next(lifetime.timeout)
            if not await lifetime.may_send(events=bool(events)):
                return
            if events:
                yield b"".join(_feed_frame(event) for event in events)
            if lifetime.is_over:
                return
            if lifetime.keepalive_due(sent=bool(events)) and not listener.done:
                yield KEEPALIVE if listener.position is None else position_only(listener.position)


def _feed_frame(event: FeedEvent) -> bytes:
    if event.name is None:
        return position_only(event.position)
    data: Mapping[str, object] = event.data
    match event.name:
        case Topic.LANES:
            data = {"items": [LaneAnswer.of(lane).model_dump() for lane in cast("Sequence[Lane]", data["items"])]}
        case Topic.WORKERS:
            data = {"items": [WorkerAnswer.of(one).model_dump() for one in cast("Sequence[WorkerView]", data["items"])]}
        case Topic.SCHEDULES:
            data = {
                "items": [ScheduleAnswer.of(each).model_dump() for each in cast("Sequence[Schedule]", data["items"])]
            }
        case Topic.OPERATIONS:
            operations = cast("Sequence[Operation]", data["items"])
            data = {"items": [OperationAnswer.of(each).model_dump() for each in operations]}
        case Topic.STATS:
            data = OverviewAnswer.of(cast("Overview", data["overview"])).model_dump()
        case _:
            pass
    return frame(event.name, data, event.position)
