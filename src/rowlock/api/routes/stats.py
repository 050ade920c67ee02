"""Statistics. No read walks a whole table: live jobs are counted up to a limit, ends as they happen."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query

from rowlock.api.dependencies import CurrentDesk
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routing import Routes
from rowlock.api.schemas.base import YEAR, DurationInput
from rowlock.api.schemas.fields import STORABLE
from rowlock.api.schemas.stats import (
    BacklogsAnswer,
    FailuresAnswer,
    KindFailuresAnswer,
    OverviewAnswer,
    ReferencesAnswer,
    RunningsAnswer,
    SeriesListAnswer,
    TenantAnswer,
    TenantsAnswer,
    ThroughputAnswer,
    WorkAnswer,
)
from rowlock.api.schemas.workers import BacklogAnswer, RunningAnswer
from rowlock.model.access import Permission

routes = Routes("stats")
Window = Annotated[
    float, DurationInput(0.001, YEAR), Query(description="How far back to look: seconds or a text.", examples=["1h"])
]
LongerThan = Annotated[
    float, DurationInput(0, YEAR), Query(description="Least run time: seconds or a text.", examples=["10m"])
]
Most = Annotated[int, Query(ge=1, le=500, description="Most entries of the answer.", examples=[100])]
ReferenceName = Annotated[
    str | None,
    Query(max_length=1000, pattern=STORABLE, description="Only this reference; `tag` for tags.", examples=["project"]),
]
ReferenceValue = Annotated[
    str | None, Query(max_length=1000, pattern=STORABLE, description="Only this value of it.", examples=["7"])
]
Phase = Annotated[
    str | None, Query(max_length=1000, pattern=STORABLE, description="Only jobs in this phase.", examples=["render"])
]

SeriesWindow = Annotated[
    float,
    DurationInput(60, 31 * 86_400),
    Query(description="How far back to look: seconds or a text; 31 days at most.", examples=["24h"]),
]
SeriesOf = Annotated[
    Literal["kind", "lane"] | None, Query(description="A series for each kind or lane; else one.", examples=["lane"])
]
OfKind = Annotated[
    str | None, Query(max_length=200, pattern=STORABLE, description="Only this kind.", examples=["send_invoice"])
]
OfLane = Annotated[
    str | None, Query(max_length=100, pattern=STORABLE, description="Only this lane.", examples=["reports"])
]
MostSeries = Annotated[int, Query(ge=1, le=100, description="Most series; the others are one, (other).", examples=[20])]


@routes.get("/stats/overview", needs=Permission.WORKERS_VIEW)
async def get_overview(desk: CurrentDesk, window: Window = 3600) -> OverviewAnswer:
    """Jobs by state, lanes with running, slots and oldest wait, and workers."""
    return OverviewAnswer.of(await desk.stats.overview(window=window))


@routes.get("/stats/backlog", needs=Permission.WORKERS_VIEW)
async def get_backlog(desk: CurrentDesk) -> BacklogsAnswer:
    """Queued jobs by kind, with the lane that serves the kind and the oldest wait."""
    return BacklogsAnswer(items=[BacklogAnswer.of(each) for each in await desk.stats.backlog()])


@routes.get("/stats/running", needs=Permission.WORKERS_VIEW)
async def get_running(desk: CurrentDesk, limit: Most = 500) -> RunningsAnswer:
    """Running jobs with their phase, worker and references; the longest running first."""
    return RunningsAnswer(items=[RunningAnswer.of(each) for each in await desk.stats.running(limit=limit)])


@routes.get("/stats/references", needs=RoutePermissions((Permission.WORKERS_VIEW, Permission.READ_ALL)))
async def get_references(
    desk: CurrentDesk,
    name: ReferenceName = None,
    value: ReferenceValue = None,
    phase: Phase = None,
    limit: Most = 500,
) -> ReferencesAnswer:
    """Running jobs by reference, phase and kind, such as project 7 in phase editions."""
    found = await desk.stats.references(name, value, phase=phase, limit=limit)
    return ReferencesAnswer(items=[WorkAnswer.of(each) for each in found])


@routes.get("/stats/tenants", needs=Permission.WORKERS_VIEW)
async def get_tenants(desk: CurrentDesk, window: Window = 3600, limit: Most = 500) -> TenantsAnswer:
    """How many jobs ended for each tenant within the window, also per second."""
    return TenantsAnswer(items=[TenantAnswer.of(each) for each in await desk.stats.tenants(window, limit=limit)])


@routes.get("/stats/slow", needs=Permission.WORKERS_VIEW)
async def get_slow(
    desk: CurrentDesk,
    longer_than: LongerThan = 600,
    limit: Most = 500,
) -> RunningsAnswer:
    """Jobs that have been running for longer than `longer_than`, the longest first."""
    found = await desk.stats.slow(longer_than, limit=limit)
    return RunningsAnswer(items=[RunningAnswer.of(each) for each in found])


@routes.get("/stats/failures", needs=Permission.WORKERS_VIEW)
async def get_failures(desk: CurrentDesk, window: Window = 3600) -> KindFailuresAnswer:
    """How jobs ended within the window, by kind, with the failure rate and the last error."""
    found = await desk.stats.failures(window)
    return KindFailuresAnswer(window=window, items=[FailuresAnswer.of(each) for each in found])


@routes.get("/stats/throughput", needs=Permission.WORKERS_VIEW)
async def get_throughput(desk: CurrentDesk, window: Window = 300) -> ThroughputAnswer:
    """How many jobs ended within the window, also per second."""
    found = await desk.stats.throughput(window)
    return ThroughputAnswer.of(found)


@routes.get("/stats/series", needs=Permission.WORKERS_VIEW)
async def get_series(
    desk: CurrentDesk,
    *,
    window: SeriesWindow = 3600,
    by: SeriesOf = None,
    kind: OfKind = None,
    lane: OfLane = None,
    limit: MostSeries = 20,
) -> SeriesListAnswer:
    """Ended jobs, retries and durations over time, by kind or lane if asked."""
    return SeriesListAnswer.of(await desk.stats.series(window, by=by, kind=kind, lane=lane, limit=limit))
