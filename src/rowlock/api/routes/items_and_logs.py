"""What jobs told while they ran, over the wire: their items and their logs."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from rowlock.api.dependencies import Asked, Cursor, JobId, links
from rowlock.api.problems import Problem
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer
from rowlock.model.access import Permission
from rowlock.model.progress import ItemState

routes = Routes("jobs")
Many = Annotated[int, Query(ge=1, le=1000)]


class ItemAnswer(Answer):
    """One named part of a job's work. reason: why it was skipped; error: why it failed."""

    name: str
    state: ItemState
    phase: str
    started_at: datetime | None
    ended_at: datetime | None
    reason: str | None
    error: dict[str, Any] | None


class ItemsAnswer(Answer):
    """A page of items, by phase and name."""

    items: list[ItemAnswer]
    next_cursor: str | None


class LineAnswer(Answer):
    """A log line. missed: lines right before it that were dropped, as a log has a limit."""

    n: str
    at: datetime
    level: str
    logger: str
    message: str
    missed: int


class LogsAnswer(Answer):
    """Lines of all attempts. next_cursor: what to ask with for lines that come later; null: none so far."""

    items: list[LineAnswer]
    next_cursor: str | None


@routes.get("/jobs/{job_id}/items", needs=Permission.READ, response_model=ItemsAnswer)
async def list_items(
    request: Request,
    desk: Asked,
    job_id: JobId,
    *,
    state: Annotated[list[ItemState] | None, Query(description="Only these; may be repeated.")] = None,
    phase: Annotated[str | None, Query(max_length=1000, pattern=r"^[^\x00]*$")] = None,
    limit: Many = 100,
    cursor: Cursor = None,
) -> Response:
    """The items of the newest attempt."""
    after = None if cursor is None else _decoded(cursor)
    found = await desk.jobs.items(job_id, states=state, phase=phase, after=after, limit=limit)
    following = _encoded(found[-1].key) if len(found) == limit else None
    items = [ItemAnswer.model_validate(item, from_attributes=True) for item in found]
    answer = ItemsAnswer(items=items, next_cursor=following)
    headers = links(request, next=following)
    return Response(answer.model_dump_json(), headers=headers, media_type="application/json")


@routes.get("/jobs/{job_id}/logs", needs=Permission.READ)
async def list_logs(desk: Asked, job_id: JobId, *, limit: Many = 1000, cursor: Cursor = None) -> LogsAnswer:
    """What the job logged, from its first line or behind a cursor. Ask again with next_cursor for what comes later."""
    after = "0" if cursor is None else _decoded(cursor)
    if not after.isdecimal() or len(after) > len(str(2**63)) or int(after) >= 2**63:
        raise _no_cursor()
    found = await desk.jobs.logs(job_id, after=int(after), limit=limit)
    last = _encoded(str(found[-1].n)) if found else cursor
    lines = [
        LineAnswer(
            n=str(line.n),
            at=line.at,
            level=line.level_name,
            logger=line.logger,
            message=line.message,
            missed=line.missed,
        )
        for line in found
    ]
    return LogsAnswer(items=lines, next_cursor=last)


def _encoded(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> str:
    try:
        key = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise _no_cursor() from None
    if "\x00" in key:
        raise _no_cursor()
    return key


def _no_cursor() -> Problem:
    return Problem("invalid-cursor", "This is no cursor of this list. Begin with the first page.")
