"""The database as operators see it, deploys, and what changed in a span of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import Query
from pydantic import AwareDatetime

from rowlock.api.dependencies import CurrentDesk, Door
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routing import Routes
from rowlock.api.schemas.fields import INSTANT, LATER
from rowlock.api.schemas.system import (
    ChangesAnswer,
    DeployMarkerAnswer,
    DeploysAnswer,
    DoctorAnswer,
    SystemAnswer,
)
from rowlock.model.access import Permission

routes = Routes("system")
From = Annotated[
    AwareDatetime | None,
    Query(alias="from", description="Beginning; without it, a day before `to`.", examples=[INSTANT]),
]
To = Annotated[AwareDatetime | None, Query(alias="to", description="End; without it, now.", examples=[LATER])]
Most = Annotated[int, Query(ge=1, le=1000, description="Most entries of the answer.", examples=[100])]
_DAY: Final = timedelta(days=1)


@routes.get("/system", needs=Permission.WORKERS_VIEW)
async def get_system(desk: CurrentDesk) -> SystemAnswer:
    """Versions, sizes of tables and indexes, dead rows, the oldest transaction, retention and upkeep."""
    return SystemAnswer.of(await desk.system.status())


@routes.get("/system/doctor", needs=RoutePermissions((Permission.WORKERS_VIEW, Permission.READ_ALL)))
async def get_doctor(door: Door, desk: CurrentDesk) -> DoctorAnswer:
    """What `rowlock doctor` finds: settings of the server, schema, vacuum, lanes, workers and jobs."""
    return DoctorAnswer.of(await desk.system.examine(door.app.settings, sorted(door.app.handlers)))


@routes.get("/deploys", needs=Permission.WORKERS_VIEW, problems=("invalid-option",))
async def list_deploys(desk: CurrentDesk, since: From = None, until: To = None, *, limit: Most = 100) -> DeploysAnswer:
    """The first worker of each version of the application, with failure rates before and after; 31 days by default."""
    end = _end(until)
    found = await desk.system.deploys(since or _before(end, 31), end, limit=limit)
    return DeploysAnswer(items=[DeployMarkerAnswer.of(deploy) for deploy in found])


@routes.get(
    "/changes",
    needs=RoutePermissions((Permission.AUDIT_READ, Permission.WORKERS_VIEW)),
    problems=("invalid-option",),
)
async def list_changes(desk: CurrentDesk, since: From = None, until: To = None, *, limit: Most = 200) -> ChangesAnswer:
    """What may explain an incident, as one list: deploys, orders of people, bulk operations, new failure groups.

    Orders beyond single jobs: for lanes, schedules, limits, workers, approval rules and roles. A day by default; a
    caller without `jobs:read_all` sees what its tenant changed.
    """
    end = _end(until)
    return ChangesAnswer.of(await desk.system.changes(since or _before(end, 1), end, limit=limit))


def _end(until: datetime | None) -> datetime:
    # A little ahead: the database's clock may be, and what just happened belongs into the list.
    return datetime.now(UTC) + timedelta(minutes=1) if until is None else until


def _before(end: datetime, days: int) -> datetime:
    first = datetime.min.replace(tzinfo=UTC)
    return end - days * _DAY if end - first > days * _DAY else first
