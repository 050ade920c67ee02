"""Dependencies, parameters and headers that routes share: the caller's desk, ids, cursors, ETags."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from fastapi import Depends, Header, Path, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rowlock.api.problems import Problem
from rowlock.api.routing import DOOR
from rowlock.desk.access import Desk
from rowlock.model import ids

if TYPE_CHECKING:
    from rowlock.api.backend import ApiBackend

_WAIT: Final = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?(?=$|[,;\s])")
_LONGEST_WAIT: Final = 30
"""Seconds that a submission may wait for the end of its job."""


def door_of(request: Request) -> ApiBackend:
    """The API that answers the request."""
    return cast("ApiBackend", request.scope[DOOR])


async def desk_of(request: Request) -> Desk:
    """The desk of the caller, which checks every permission and writes the audit."""
    return await door_of(request).desk(request)


def public_id_of(
    job_id: Annotated[str, Path(description="Public id of the job; its number works too.", examples=[ids.encode(1)])],
) -> str:
    """The public id of the job in the path, which may have any case and grouping, or be the number."""
    return ids.encode(ids.parse(job_id))


def if_match_of(
    request: Request,
    if_match: Annotated[
        str | None,
        Header(
            description="ETag of the version to change, or `*`; absent: 428, or `*` if the server requires none.",
            examples=['"3"'],
        ),
    ] = None,
) -> str | None:
    """The header If-Match; a server that does not require it takes none for `*`."""
    return if_match if if_match is not None or door_of(request).require_if_match else ANY


ANY: Final = "*"
"""An If-Match that every version fits."""
IfMatch = Annotated[str | None, Depends(if_match_of)]
Door = Annotated["ApiBackend", Depends(door_of)]
CurrentDesk = Annotated[Desk, Depends(desk_of)]
JobId = Annotated[str, Depends(public_id_of)]
Cursor = Annotated[
    str | None,
    Query(
        max_length=1000,
        description="next_cursor or prev_cursor of another page of the same list; absent: the first page.",
        examples=["eyJrIjo0Mn0"],
    ),
]
Limit = Annotated[int, Query(ge=1, le=200, description="Most entries of the page.", examples=[50])]
IfNoneMatch = Annotated[
    str | None, Header(description="ETag that you have; the answer is 304 while it is current.", examples=['"3"'])
]


def etag_of(answer: BaseModel) -> str:
    """The ETag of a whole representation: progress changes without a change of the job's row."""
    return f'"{hashlib.sha256(answer.model_dump_json().encode()).hexdigest()[:32]}"'


def names_etag(header: str, etag: str) -> bool:
    """Whether an If-Match or If-None-Match names the ETag."""
    return header.strip() == ANY or etag in {part.strip().removeprefix("W/") for part in header.split(",")}


def _as_json(answer: BaseModel | Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    return answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer


def conditional(answer: BaseModel | Mapping[str, Any], etag: str, if_none_match: str | None) -> Response:
    """The representation with its ETag, or 304 when the client has it already."""
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if if_none_match is not None and names_etag(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return JSONResponse(_as_json(answer), headers=headers)


def require_match(if_match: str | None, etag: str, current: BaseModel | Mapping[str, Any]) -> None:
    """Refuse a change without If-Match (428) or with the ETag of another version (412)."""
    if if_match is None:
        raise Problem(
            "if-match-required",
            "Send the ETag of the version you read as If-Match, so that no change of others is lost.",
        )
    if not names_etag(if_match, etag):
        raise outdated(etag, current)


def expected(if_match: str | None, version: int) -> int | None:
    """The version that the change must still find; None after `*`, which also fits a version that comes meanwhile."""
    return None if if_match is None or if_match.strip() == ANY else version


def outdated(etag: str, current: BaseModel | Mapping[str, Any]) -> Problem:
    """The problem of a change to an old version, with the current representation."""
    detail = "It was changed since you read it. Compare with `current`, and send its ETag if you still want the change."
    return Problem("version-mismatch", detail, headers={"ETag": etag}, current=_as_json(current))


def seconds_to_wait(prefer: str | None) -> int | None:
    """Seconds of `Prefer: wait=N`, at most 30; None: the header does not ask to wait."""
    found = _WAIT.search(prefer or "")
    return None if found is None else min(int(found[1]), _LONGEST_WAIT)


def base_url(request: Request) -> str:
    """The path above /jobs as this client reaches it, with every prefix, mount point and root_path."""
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
