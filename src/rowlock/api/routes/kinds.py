"""Kinds over the wire: what may be submitted, and with which arguments."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from rowlock.api.dependencies import Asked, Door
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer
from rowlock.flow.kinds.handler import find_handler
from rowlock.model.access import Permission
from rowlock.model.kind import Kind

routes = Routes("kinds")
Name = Annotated[str, Path(max_length=200)]


class KindAnswer(Answer):
    """What jobs of a kind do unless a submission says otherwise. lane: where the code would put it."""

    name: str
    lane: str | None
    priority: int
    max_attempts: int
    timeout_s: float | None
    approval: bool
    aliases: list[str]
    description: str | None

    @classmethod
    def of(cls, kind: Kind, description: str | None) -> KindAnswer:
        """From what the decorator said."""
        return cls(
            name=kind.name,
            lane=kind.lane,
            priority=kind.priority,
            max_attempts=kind.retry.attempts,
            timeout_s=None if kind.timeout is None else kind.timeout.total_seconds(),
            approval=bool(kind.approval),
            aliases=list(kind.aliases),
            description=description,
        )


class KindsAnswer(Answer):
    """Every kind of the application that serves, by name."""

    items: list[KindAnswer]


@routes.get("/kinds", needs=Permission.READ)
async def list_kinds(door: Door, desk: Asked) -> KindsAnswer:
    """Every kind of the application that serves, by name."""
    desk.guard.demand(Permission.READ)
    tasks = sorted(door.app.tasks.items())
    kinds = [(door.app.handlers[name].kind, task.__doc__) for name, task in tasks]
    return KindsAnswer(items=[KindAnswer.of(kind, text) for kind, text in kinds])


@routes.get("/kinds/{kind}/schema", needs=Permission.READ)
async def get_kind_schema(door: Door, desk: Asked, kind: Name) -> dict[str, Any]:
    """The JSON Schema of a kind's arguments: for forms, and to check before submitting."""
    desk.guard.demand(Permission.READ)
    handler = find_handler(door.app.handlers, door.app.task(kind).kind)
    return handler.codec.json_schema()
