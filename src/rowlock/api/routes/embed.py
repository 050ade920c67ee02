"""Jobs for pages of the application's own users: embed tokens open these routes and no other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Final, cast

from fastapi import Depends, Query, Request
from starlette.responses import Response

from rowlock.api.auth.bearer import address_of, bearer
from rowlock.api.dependencies import (
    Cursor,
    Door,
    IfNoneMatch,
    JobId,
    conditional,
    door_of,
    etag_of,
    names_etag,
)
from rowlock.api.problems import REQUEST_ID, Problem
from rowlock.api.routes.items_and_logs import ManyLimit, decoded_cursor, encoded_cursor, line_after
from rowlock.api.routes.streams import OVER, Resume, ResumeQuery, job_frames, stream_of
from rowlock.api.routing import Routes
from rowlock.api.schemas.embed import EmbeddedJobAnswer, EmbeddedJobsAnswer
from rowlock.api.schemas.fields import JOB_ID
from rowlock.api.schemas.job_details import ItemAnswer, ItemsAnswer, LogLineAnswer, LogsAnswer
from rowlock.api.streaming.sse import EventStream, StreamLifetime, frame, position_only, reconnect_later
from rowlock.desk.embedded_jobs import EmbeddedJobs, principal_of
from rowlock.errors import NotAuthenticated
from rowlock.model import ids
from rowlock.model.embed_token import PREFIX
from rowlock.model.event import END, LOG, PROGRESS, SNAPSHOT

if TYPE_CHECKING:
    from rowlock.model.access import Principal
    from rowlock.model.embed_token import EmbedGrant
    from rowlock.model.event import StreamEvent
    from rowlock.model.job import Job
    from rowlock.model.page import Listing

routes = Routes("embed")
_MODULE: Final = "rowlock-elements.js"
_JAVASCRIPT: Final = "text/javascript"
_EMBED: Final = {"x-embed": True}
_STATE: Final = ("id", "kind", "state", "attempt", "run_after")
"""What a page learns of a change of state; authors, notes, workers and lanes are for operators."""
_YEAR: Final = "public, max-age=31536000, immutable"
_MINUTES: Final = "public, max-age=300"
PageLimit = Annotated[int, Query(ge=1, le=100, description="Most jobs of the page.", examples=[20])]
ModuleVersion = Annotated[
    str | None,
    Query(
        max_length=100,
        description="Version of the module, its ETag without quotes: caches keep that one for good; absent: minutes.",
        examples=["8b1f0c5d2e3a4f60"],
    ),
]
Before = Annotated[
    str | None,
    Query(max_length=100, description="`before` of the page before; absent: the first page.", examples=[JOB_ID]),
]


@dataclass(frozen=True, slots=True)
class EmbedCaller:
    """The holder of an embed token. seconds: until it expires."""

    token: str
    jobs: EmbeddedJobs
    seconds: float

    @property
    def grant(self) -> EmbedGrant:
        """What the token allows."""
        return self.jobs.grant

    @property
    def principal(self) -> Principal:
        """For the limit of streams: the person, or the token where none is named, since many may watch one job."""
        principal = principal_of(self.grant)
        return principal if self.grant.subject else replace(principal, token=_short_hash(self.token.encode()))


async def embed_caller_of(request: Request) -> EmbedCaller:
    """The caller by its embed token; a problem for any other credentials, and for pages of other origins."""
    door = door_of(request)
    if door.loopback is not None:
        door.loopback.require_direct(request)
    door.origins.require(request)
    text = bearer(request)
    if text is None or not text.startswith(f"{PREFIX}_"):
        raise NotAuthenticated(
            "An embed token is needed here: your application makes one with app.tokens.for_job() or for_user(), and "
            "the page sends it as Authorization: Bearer."
        )
    checked = await door.app.identity.by_embed_token(text)
    desk = door.app.desk(
        principal_of(checked.grant),
        read_only=door.read_only,
        request_id=request.scope[REQUEST_ID],
        address=address_of(request),
    )
    return EmbedCaller(text, EmbeddedJobs(door.app.database, desk, checked.grant), checked.seconds)


Caller = Annotated[EmbedCaller, Depends(embed_caller_of)]


@routes.get("/embed/jobs", needs=None, extra=_EMBED, problems=("invalid-id",))
async def list_embedded_jobs(caller: Caller, *, limit: PageLimit = 20, before: Before = None) -> EmbeddedJobsAnswer:
    """The jobs of the person that the token was made for, newest first; of a token for one job, that one."""
    found = await caller.jobs.list(before=None if before is None else ids.parse(before), limit=limit)
    items = [EmbeddedJobAnswer.of(job, caller.grant) for job in found]
    return EmbeddedJobsAnswer(items=items, before=_next(found, limit))


def _next(found: Listing, limit: int) -> str | None:
    last = found[-1].id if len(found) == limit else found.before
    return None if last is None else ids.encode(last)


@routes.get("/embed/jobs/{job_id}", needs=None, extra=_EMBED, response_model=EmbeddedJobAnswer)
async def get_embedded_job(caller: Caller, job_id: JobId, if_none_match: IfNoneMatch = None) -> Response:
    """The job: state, progress, place in the queue, and what the token shows besides; 304 while the ETag is current."""
    job, position = await caller.jobs.get_with_position(job_id)
    answer = EmbeddedJobAnswer.of(job, caller.grant, position)
    return conditional(answer, etag_of(answer), if_none_match)


@routes.get(
    "/embed/jobs/{job_id}/items", needs=None, extra=_EMBED, response_model=ItemsAnswer, problems=("invalid-cursor",)
)
async def list_embedded_items(
    caller: Caller, job_id: JobId, *, limit: ManyLimit = 100, cursor: Cursor = None
) -> ItemsAnswer:
    """The items of the newest attempt, if the token shows them; their errors only where it shows those too."""
    after = None if cursor is None else decoded_cursor(cursor)
    found = await caller.jobs.items(job_id, after=after, limit=limit)
    items = [ItemAnswer.model_validate(item, from_attributes=True) for item in found]
    if "error" not in caller.grant.show:
        items = [item.model_copy(update={"error": None}) for item in items]
    return ItemsAnswer(items=items, next_cursor=encoded_cursor(found[-1].key) if len(found) == limit else None)


@routes.get("/embed/jobs/{job_id}/logs", needs=None, extra=_EMBED, problems=("invalid-cursor",))
async def list_embedded_logs(
    caller: Caller, job_id: JobId, *, limit: ManyLimit = 1000, cursor: Cursor = None
) -> LogsAnswer:
    """Log lines of the job, if the token shows them. Ask again with next_cursor for later lines."""
    found = await caller.jobs.logs(job_id, after=line_after(cursor), limit=limit)
    last = encoded_cursor(str(found[-1].n)) if found else cursor
    return LogsAnswer(items=[LogLineAnswer.of(line) for line in found], next_cursor=last)


@routes.post("/embed/jobs/{job_id}/cancel", needs=None, extra=_EMBED, problems=("invalid-transition",))
async def cancel_embedded_job(caller: Caller, job_id: JobId) -> EmbeddedJobAnswer:
    """Cancel the job, if the token allows it: a waiting one ends at once, a running one is asked to stop."""
    return EmbeddedJobAnswer.of(await caller.jobs.cancel(job_id), caller.grant)


@routes.get(
    "/embed/jobs/{job_id}/stream",
    needs=None,
    response_class=EventStream,
    responses={**stream_of("EmbeddedStreamEvent"), **OVER},
    extra={"x-streams": True, **_EMBED},
    problems=("invalid-option", "too-many-streams", "streams-full"),
)
async def stream_embedded_job(
    door: Door, caller: Caller, job_id: JobId, *, resume: Resume = None, resume_query: ResumeQuery = None
) -> Response:
    """A snapshot of the job, then its events until its end, or until the token expires or is revoked.

    Browsers' EventSource cannot send the token; fetch() can, and reads the stream.
    """
    if door.app.streams.closing:
        return EventStream(reconnect_later())
    stream = await caller.jobs.follow(job_id, after=resume or resume_query)
    if stream.over:
        stream.close()
        return Response(status_code=204)
    try:
        place = door.embed_stream_limits.take(caller.principal)
    except Problem:
        stream.close()
        raise
    door.stream_opens()

    async def may_read() -> bool:
        await door.app.identity.by_embed_token(caller.token)
        return True

    def release() -> None:
        stream.close()
        place.release()

    lifetime = StreamLifetime(door.stream_seconds, may_read, caller.seconds)
    return EventStream(job_frames(stream, lifetime, partial(_frame, caller.grant)), release)


def _frame(grant: EmbedGrant, event: StreamEvent) -> bytes:
    """An event with what the token shows of it; the others move the position alone."""
    if event.name == SNAPSHOT:
        answer = EmbeddedJobAnswer.of(cast("Job", event.data["job"]), grant)
        return frame(SNAPSHOT, answer.model_dump(), event.position)
    if event.name == LOG and "logs" not in grant.show:
        return position_only(event.position)
    if event.name in (LOG, PROGRESS, END):
        data = dict(event.data)
    else:
        names = (*_STATE, "error") if "error" in grant.show else _STATE
        data = {name: event.data[name] for name in names if name in event.data}
    return frame(event.name, data if event.at is None else {**data, "at": event.at}, event.position)


def _short_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ElementsModule:
    """The JavaScript module with the web components, as it is shipped. version: changes with its content."""

    text: bytes
    version: str


@cache
def elements_module() -> ElementsModule:
    """Read once: it is the same for every request."""
    text = resources.files("rowlock.api").joinpath("elements", _MODULE).read_bytes()
    return ElementsModule(text, _short_hash(text))


@routes.get(
    f"/embed/{_MODULE}",
    needs=None,
    response_class=Response,
    responses={200: {"description": "The module.", "content": {_JAVASCRIPT: {"schema": {"type": "string"}}}}},
)
async def get_elements(v: ModuleVersion = None, if_none_match: IfNoneMatch = None) -> Response:
    """The web components `<rowlock-progress>` and `<rowlock-my-jobs>`, as one JavaScript module for any page."""
    module = elements_module()
    # Public code, the same for everybody: browsers load modules of other origins with CORS alone.
    headers = {
        "ETag": f'"{module.version}"',
        "Cache-Control": _YEAR if v == module.version else _MINUTES,
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
    if if_none_match is not None and names_etag(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(module.text, headers=headers, media_type=_JAVASCRIPT)
