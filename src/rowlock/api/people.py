"""People over the wire: who am I, and what this door can do."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec

from rowlock.api.asked import Asked, Door
from rowlock.api.route import Routes
from rowlock.api.shapes import Answer

routes = Routes("access")


class MeAnswer(Answer):
    """Who asks, and what they may do."""

    subject: str
    display: str
    kind: str
    tenant: str | None
    roles: list[str]
    permissions: list[str]


class FeaturesAnswer(Answer):
    """What this door can do, for clients that adapt."""

    version: str
    read_only: bool
    metrics: bool


@routes.get("/me", needs=None)
async def get_me(desk: Asked) -> MeAnswer:
    """Who asks, and what they may do."""
    who = desk.principal
    return MeAnswer(
        subject=who.subject,
        display=who.name,
        kind=who.kind,
        tenant=who.tenant,
        roles=list(who.roles),
        permissions=sorted(who.permissions),
    )


@routes.get("/features", needs=None)
async def get_features(door: Door, _desk: Asked) -> FeaturesAnswer:
    """What this door can do."""
    return FeaturesAnswer(
        version=metadata.version("rowlock"),
        read_only=door.read_only,
        metrics=find_spec("prometheus_client") is not None,
    )
