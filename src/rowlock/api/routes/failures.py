"""Failure groups: failures by cause."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path, Query

from rowlock.api.dependencies import CurrentDesk
from rowlock.api.routing import Routes
from rowlock.api.schemas.base import DurationInput
from rowlock.api.schemas.failures import (
    FINGERPRINT,
    FailureGroupAnswer,
    FailureGroupDetailAnswer,
    FailureGroupsAnswer,
    MuteBody,
)
from rowlock.api.schemas.fields import STORABLE
from rowlock.model.access import Permission

routes = Routes("failures")
Fingerprint = Annotated[
    str, Path(max_length=100, pattern=r"^[^\x00]+$", description="Fingerprint of the group.", examples=[FINGERPRINT])
]
Window = Annotated[
    float,
    DurationInput(60, 31 * 86_400),
    Query(description="How far back to look: seconds or a text; 31 days at most.", examples=["24h"]),
]
OfKind = Annotated[
    str | None, Query(max_length=200, pattern=STORABLE, description="Only this kind.", examples=["send_invoice"])
]
InState = Annotated[Literal["open", "muted"] | None, Query(description="Only such groups.", examples=["open"])]
Sort = Annotated[
    Literal["recent", "count", "new"],
    Query(description="Last failure, most failures within the window, or newest group first.", examples=["recent"]),
]
Most = Annotated[int, Query(ge=1, le=500, description="Most groups of the answer.", examples=[50])]
_MISSING = ("failure-group-not-found",)


@routes.get("/failures", needs=Permission.READ)
async def list_failures(
    desk: CurrentDesk,
    *,
    window: Window = 86_400,
    kind: OfKind = None,
    state: InState = None,
    sort: Sort = "recent",
    limit: Most = 50,
) -> FailureGroupsAnswer:
    """Failures within the window by cause: retries and ends, counted exactly.

    Without `jobs:read_all` a caller sees the groups of its tenant, and without a tenant none.
    """
    muted = None if state is None else state == "muted"
    return FailureGroupsAnswer.of(
        await desk.failures.list(window=window, kind=kind, muted=muted, sort=sort, limit=limit)
    )


@routes.get("/failures/{fingerprint}", needs=Permission.READ, problems=_MISSING)
async def get_failure(desk: CurrentDesk, fingerprint: Fingerprint, window: Window = 86_400) -> FailureGroupDetailAnswer:
    """One failure group with the traceback of a sample. Its failed jobs: `GET /jobs?q=fingerprint:…`."""
    return FailureGroupDetailAnswer.whole(await desk.failures.get(fingerprint, window=window))


@routes.post("/failures/{fingerprint}/mute", needs=Permission.RETRY, problems=_MISSING)
async def mute_failure(
    desk: CurrentDesk, fingerprint: Fingerprint, order: MuteBody | None = None
) -> FailureGroupAnswer:
    """Set a group aside as known; it goes on counting. Of a caller's tenant alone, unless it may read all jobs."""
    note = None if order is None else order.note
    return FailureGroupAnswer.of(await desk.failures.mute(fingerprint, note=note))


@routes.post("/failures/{fingerprint}/unmute", needs=Permission.RETRY, problems=_MISSING)
async def unmute_failure(
    desk: CurrentDesk, fingerprint: Fingerprint, order: MuteBody | None = None
) -> FailureGroupAnswer:
    """Open a muted group again."""
    note = None if order is None else order.note
    return FailureGroupAnswer.of(await desk.failures.unmute(fingerprint, note=note))
