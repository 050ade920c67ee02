"""The audit: who changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from rowlock.api.dependencies import CurrentDesk, Cursor, Limit, links
from rowlock.api.problems import Problem
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routing import Routes
from rowlock.api.schemas.access import (
    AuditAnswer,
    AuditCheckAnswer,
    AuditEntryAnswer,
    AuditExportAnswer,
    SealedEntryAnswer,
)
from rowlock.api.schemas.fields import STORABLE
from rowlock.errors import InvalidId
from rowlock.model import ids
from rowlock.model.access import Permission

routes = Routes("access")
Target = Annotated[
    str | None,
    Query(max_length=1000, pattern=STORABLE, description="Only changes of this target.", examples=["lane:reports"]),
]
Subject = Annotated[
    str | None,
    Query(max_length=1000, pattern=STORABLE, description="Only changes by this subject.", examples=["ada@example.com"]),
]
Action = Annotated[
    str | None, Query(max_length=1000, pattern=STORABLE, description="Only this action.", examples=["lane.set"])
]


After = Annotated[
    str | None,
    Query(max_length=100, pattern=STORABLE, description="Head of the check before.", examples=["41:60303a"]),
]
Seals = Annotated[int, Query(ge=1, le=100_000, description="Seals that are checked at most.", examples=[10_000])]
_WHOLE = RoutePermissions((Permission.AUDIT_READ, Permission.READ_ALL))


@routes.get("/audit", needs=Permission.AUDIT_READ, response_model=AuditAnswer, problems=("invalid-cursor",))
async def list_audit(
    request: Request,
    desk: CurrentDesk,
    *,
    target: Target = None,
    subject: Subject = None,
    action: Action = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Who changed what and when, with the values before and after; newest first."""
    before = None if cursor is None else _decoded(cursor)
    found = await desk.audit.list(target=target, subject=subject, action=action, before=before, limit=limit)
    following = ids.encode(found[-1].id) if len(found) == limit else None
    answer = AuditAnswer(items=[AuditEntryAnswer.of(entry) for entry in found], next_cursor=following)
    return Response(answer.model_dump_json(), headers=links(request, next=following), media_type="application/json")


@routes.get("/audit/export", needs=_WHOLE, response_model=AuditExportAnswer, problems=("invalid-cursor",))
async def export_audit(request: Request, desk: CurrentDesk, *, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """Sealed entries with their seals, a page at a time, the oldest first; they can be checked without a database."""
    after = 0 if cursor is None else _decoded(cursor)
    found = await desk.audit.export(after=after, limit=limit)
    following = ids.encode(found[-1].n) if len(found) == limit else None
    answer = AuditExportAnswer(items=[SealedEntryAnswer.of(sealed) for sealed in found], next_cursor=following)
    return Response(answer.model_dump_json(), headers=links(request, next=following), media_type="application/json")


@routes.get("/audit/verify", needs=_WHOLE, problems=("invalid-option",))
async def verify_audit(desk: CurrentDesk, *, after: After = None, limit: Seals = 10_000) -> AuditCheckAnswer:
    """Check a stretch of the chain of seals, from the beginning or behind `after`, the `head` of the answer before.

    Keep the last head elsewhere: a later check from there shows whether the end was cut off or the chain made anew.
    """
    return AuditCheckAnswer.of(await desk.audit.verify_stretch(after, limit=limit))


def _decoded(cursor: str) -> int:
    try:
        return ids.decode(cursor)
    except InvalidId as error:
        raise Problem(
            "invalid-cursor",
            "This cursor does not belong to the audit. Send the next_cursor of the audit, or none for the first page.",
        ) from error
