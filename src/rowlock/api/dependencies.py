"""Asked: who asks, and of which door; the dependencies and headers that routes share."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Annotated, Final, cast

from fastapi import Depends, Header, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from rowlock.api.problems import Problem
from rowlock.api.routing import DOOR
from rowlock.desk.access import Desk
from rowlock.model import ids

if TYPE_CHECKING:
    from pydantic import BaseModel

    from rowlock.api.door import RowlockAPI

_WAIT: Final = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?(?=$|[,;\s])")
_LONGEST_WAIT: Final = 30
"""Seconds a submission may wait for its job's end."""


def door_of(request: Request) -> RowlockAPI:
    """The RowlockAPI that answers."""
    return cast("RowlockAPI", request.scope[DOOR])


async def desk_of(request: Request) -> Desk:
    """The desk of whoever asks: every permission is checked there, and every order is written down."""
    return await door_of(request).desk(request)


def public_id_of(job_id: Annotated[str, Path(description="A public job id.", examples=[ids.encode(1)])]) -> str:
    """The job that the path names, as ids are written; plain numbers are no names outside."""
    return ids.encode(ids.decode(job_id))


Door = Annotated["RowlockAPI", Depends(door_of)]
Asked = Annotated[Desk, Depends(desk_of)]
JobId = Annotated[str, Depends(public_id_of)]
Cursor = Annotated[
    str | None, Query(max_length=1000, description="The next_cursor or prev_cursor of another page of the same list.")
]
Limit = Annotated[int, Query(ge=1, le=200)]
IfMatch = Annotated[str | None, Header(description="The ETag of the version that is to be changed.")]
IfNoneMatch = Annotated[str | None, Header(description="An ETag: 304 while nothing has changed.")]


def etag_of(answer: BaseModel) -> str:
    """The ETag of a representation: of all of it, as progress changes without the job's row."""
    return f'"{hashlib.sha256(answer.model_dump_json().encode()).hexdigest()[:32]}"'


def fits(header: str, etag: str) -> bool:
    """Whether an If-Match or If-None-Match names the ETag."""
    return header.strip() == "*" or etag in {part.strip().removeprefix("W/") for part in header.split(",")}


def conditional(answer: BaseModel, etag: str, if_none_match: str | None) -> Response:
    """The representation with its ETag, or 304 when the client has it already."""
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if if_none_match is not None and fits(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(answer.model_dump_json(), media_type="application/json", headers=headers)


def matched(if_match: str | None, etag: str, current: BaseModel) -> None:
    """Refuse a change that does not say which version it changes, or names another than the current one."""
    if if_match is None:
        raise Problem(
            "if-match-required", "Send the ETag of what you read as If-Match, so that nobody's change is lost."
        )
    if not fits(if_match, etag):
        raise outdated(etag, current)


def outdated(etag: str, current: BaseModel) -> Problem:
    """Somebody else changed it: here is how it stands now."""
    detail = "It was changed since you read it. Look at `current`, and send its ETag if you still want the change."
    return Problem("version-mismatch", detail, headers={"ETag": etag}, current=current.model_dump(mode="json"))


def seconds_to_wait(prefer: str | None) -> int | None:
    """What `Prefer: wait=N` asks for, up to half a minute; None: nothing."""
    found = _WAIT.search(prefer or "")
    return None if found is None else min(int(found[1]), _LONGEST_WAIT)


def base_url(request: Request) -> str:
    """The path above /jobs as this client reaches it: below any prefix, mount and root_path."""
    return request.url.path.rpartition("/jobs")[0]


def job_url(request: Request, public_id: str) -> str:
    """The path of a job as this client reaches it."""
    return f"{base_url(request)}/jobs/{public_id}"


def links(request: Request, **cursors: str | None) -> dict[str, str]:
    """The Link header (RFC 8288) to the pages around this one, as this client reaches them."""
    url = request.url
    found = [
        f'<{url.path}?{url.include_query_params(cursor=cursor).query}>; rel="{rel}"'
        for rel, cursor in cursors.items()
        if cursor is not None
    ]
    return {"Link": ", ".join(found)} if found else {}
