"""Kinds: what may be submitted, and with which arguments."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from rowlock.api.dependencies import CurrentDesk, Door
from rowlock.api.routing import Routes
from rowlock.api.schemas.application import KindAnswer, KindsAnswer
from rowlock.api.schemas.base import DurationInput
from rowlock.api.schemas.stats import KindStatsAnswer
from rowlock.errors import UnknownKind
from rowlock.flow.kinds.handler import find_handler
from rowlock.model.access import Permission

routes = Routes("kinds")
Name = Annotated[str, Path(max_length=200, description="Name of the kind.", examples=["send_invoice"])]

StatsWindow = Annotated[
    float,
    DurationInput(60, 31 * 86_400),
    Query(description="How far back to look: seconds or a text; 31 days at most.", examples=["24h"]),
]


@routes.get("/kinds", needs=Permission.READ)
async def list_kinds(door: Door, desk: CurrentDesk) -> KindsAnswer:
    """Every kind of the served application, by name."""
    tasks = dict(sorted(door.app.tasks.items()))
    names = await desk.jobs.kinds_for(Permission.READ, tasks)
    kinds = [(door.app.handlers[name].kind, tasks[name].__doc__) for name in names]
    return KindsAnswer(items=[KindAnswer.of(kind, text) for kind, text in kinds])


@routes.get("/kinds/{kind}/schema", needs=Permission.READ, problems=("kind-not-found",))
async def get_kind_schema(door: Door, desk: CurrentDesk, kind: Name) -> dict[str, Any]:
    """The JSON Schema of a kind's arguments, for forms and for checks before submitting."""
    if not await desk.jobs.kinds_for(Permission.READ, [kind]):
        message = f"There is no kind {kind!r} here."
        raise UnknownKind(message)
    handler = find_handler(door.app.handlers, door.app.task(kind).kind)
    return handler.codec.json_schema()


@routes.get("/kinds/{kind}/stats", needs=Permission.WORKERS_VIEW)
async def get_kind_stats(desk: CurrentDesk, kind: Name, window: StatsWindow = 86_400) -> KindStatsAnswer:
    """How jobs of a kind ended, ran and waited within the window, what waits and runs now, and the last error.

    A kind that no job has had answers with zeros.
    """
    return KindStatsAnswer.of(await desk.stats.kind(kind, window))
