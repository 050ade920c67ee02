"""Items and log lines of one job."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from rowlock.api.dependencies import CurrentDesk, Cursor, JobId, links
from rowlock.api.problems import Problem
from rowlock.api.routing import Routes
from rowlock.api.schemas.fields import STORABLE
from rowlock.api.schemas.job_details import ItemAnswer, ItemsAnswer, LogLineAnswer, LogsAnswer
from rowlock.model.access import Permission
from rowlock.model.progress import ItemState

routes = Routes("jobs")
ManyLimit = Annotated[int, Query(ge=1, le=1000, description="Most entries of the page.", examples=[100])]
States = Annotated[
    list[ItemState] | None, Query(description="Only items in these states; may be repeated.", examples=[["failed"]])
]
Phase = Annotated[
    str | None,
    Query(max_length=1000, pattern=STORABLE, description="Only items of this phase.", examples=["render"]),
]


@routes.get("/jobs/{job_id}/items", needs=Permission.READ, response_model=ItemsAnswer, problems=("invalid-cursor",))
async def list_items(
    request: Request,
    desk: CurrentDesk,
    job_id: JobId,
    *,
    state: States = None,
    phase: Phase = None,
    limit: ManyLimit = 100,
    cursor: Cursor = None,
) -> Response:
    """The items of the newest attempt."""
    after = None if cursor is None else decoded_cursor(cursor)
    found = await desk.jobs.items(job_id, states=state, phase=phase, after=after, limit=limit)
    following = encoded_cursor(found[-1].key) if len(found) == limit else None
    items = [ItemAnswer.model_validate(item, from_attributes=True) for item in found]
    answer = ItemsAnswer(items=items, next_cursor=following)
    headers = links(request, next=following)
    return Response(answer.model_dump_json(), headers=headers, media_type="application/json")


@routes.get("/jobs/{job_id}/logs", needs=Permission.READ, problems=("invalid-cursor",))
async def list_logs(desk: CurrentDesk, job_id: JobId, *, limit: ManyLimit = 1000, cursor: Cursor = None) -> LogsAnswer:
    """Log lines of the job, from the first or behind a cursor. Ask again with next_cursor for later lines."""
    found = await desk.jobs.logs(job_id, after=line_after(cursor), limit=limit)
    last = encoded_cursor(str(found[-1].n)) if found else cursor
    return LogsAnswer(items=[LogLineAnswer.of(line) for line in found], next_cursor=last)


def line_after(cursor: str | None) -> int:
    """The number of the line behind which a page of the log begins."""
    after = "0" if cursor is None else decoded_cursor(cursor)
    if not after.isdecimal() or len(after) > len(str(2**63)) or int(after) >= 2**63:
        raise invalid_cursor()
    return int(after)


def encoded_cursor(key: str) -> str:
    """The key of the last entry of a page, as an opaque text."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def decoded_cursor(cursor: str) -> str:
    """The key in a cursor; a Problem for a text that is none."""
    try:
        key = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise invalid_cursor() from None
    if "\x00" in key:
        raise invalid_cursor()
    return key


def invalid_cursor() -> Problem:
    """The problem of a cursor that does not belong to its list."""
    return Problem(
        "invalid-cursor",
        "This cursor does not belong to this list. Send the next_cursor of this list, or none for the first page.",
    )
