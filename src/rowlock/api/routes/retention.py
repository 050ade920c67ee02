"""Retention: how long finished jobs stay in this deployment."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from rowlock.api.dependencies import CurrentDesk
from rowlock.api.routing import Routes
from rowlock.api.schemas.retention import (
    RetentionAnswer,
    RetentionChange,
    RetentionResetAnswer,
    RetentionRulesAnswer,
)
from rowlock.model.access import Permission

routes = Routes("retention")
Kind = Annotated[
    str,
    Path(max_length=200, pattern=r"^[^\x00]+$", description="Kind, or * for every kind.", examples=["report"]),
]
FinalState = Annotated[
    str,
    Query(max_length=30, pattern=r"^[a-z_*]+$", description="Final state, or * for all.", examples=["failed"]),
]


@routes.get("/retention", needs=Permission.WORKERS_VIEW)
async def list_retention(desk: CurrentDesk) -> RetentionRulesAnswer:
    """Every retention rule: what counts, what the code says, and where it comes from."""
    return RetentionRulesAnswer(items=[RetentionAnswer.of(rule) for rule in await desk.retention.list()])


@routes.patch(
    "/retention/{kind:path}",
    needs=Permission.WORKERS_MANAGE,
    problems=("kind-not-found", "not-found", "invalid-option"),
)
async def set_retention(
    desk: CurrentDesk, kind: Kind, change: RetentionChange, state: FinalState = "*"
) -> RetentionAnswer:
    """Keep finished jobs of a kind for that long, whatever its code says. Older ones are removed soon."""
    return RetentionAnswer.of(await desk.retention.set(kind, change.keep, state=state))


@routes.delete("/retention/{kind:path}", needs=Permission.WORKERS_MANAGE, problems=("not-found", "invalid-option"))
async def reset_retention(desk: CurrentDesk, kind: Kind, state: FinalState = "*") -> RetentionResetAnswer:
    """Remove the retention that was set here, so that the one in the code counts again."""
    rule = await desk.retention.reset(kind, state=state)
    return RetentionResetAnswer(rule=None if rule is None else RetentionAnswer.of(rule))
