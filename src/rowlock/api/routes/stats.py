"""Statistics over the wire. No count is unbounded."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query

from rowlock.api.dependencies import Asked
from rowlock.api.routes.workers import BacklogAnswer, LaneLoadAnswer, RunningAnswer, WorkerAnswer
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer, CountAnswer
from rowlock.model import ids
from rowlock.model.access import Permission
from rowlock.model.workload import Failures, Overview, TenantLoad, Work

routes = Routes("stats")
Window = Annotated[float, Query(gt=0, le=366 * 86_400, description="Seconds to look back.")]

Most = Annotated[int, Query(ge=1, le=500)]
Word = Annotated[str | None, Query(max_length=1000, pattern=r"^[^\x00]*$")]


class OverviewAnswer(Answer):
    """Jobs by state, lanes and workers. states: live jobs and kept failures; ended: ends within the window."""

    at: datetime
    window_s: float
    states: dict[str, CountAnswer]
    ended: dict[str, CountAnswer]
    lanes: list[LaneLoadAnswer]
    workers: list[WorkerAnswer]

    @classmethod
    def of(cls, overview: Overview) -> OverviewAnswer:
        """From the desk's value."""
        return cls(
            at=overview.at,
            window_s=overview.window.total_seconds(),
            states={state: CountAnswer.of(count) for state, count in overview.states.items()},
            ended={state: CountAnswer.of(count) for state, count in overview.ended.items()},
            lanes=[LaneLoadAnswer.loaded(load) for load in overview.lanes],
            workers=[WorkerAnswer.of(worker) for worker in overview.workers],
        )


class BacklogsAnswer(Answer):
    """Queued jobs by kind, the longest wait first."""

    items: list[BacklogAnswer]


class RunningsAnswer(Answer):
    """Jobs in slots, the longest running first."""

    items: list[RunningAnswer]


class FailuresAnswer(Answer):
    """How jobs of one kind ended within the window. rate: between 0 and 1."""

    kind: str
    ended: CountAnswer
    failed: CountAnswer
    rate: float
    last_failed_at: datetime | None
    last_failed_id: str | None
    last_error: dict[str, Any] | None

    @classmethod
    def of(cls, failures: Failures) -> FailuresAnswer:
        """From the desk's value."""
        last = failures.last_failed_id
        return cls(
            kind=failures.kind,
            ended=CountAnswer.of(failures.ended),
            failed=CountAnswer.of(failures.failed),
            rate=failures.rate,
            last_failed_at=failures.last_failed_at,
            last_failed_id=None if last is None else ids.encode(last),
            last_error=None if failures.last_error is None else dict(failures.last_error),
        )


class KindFailuresAnswer(Answer):
    """By kind, the most failures first."""

    window_s: float
    items: list[FailuresAnswer]


class TenantAnswer(Answer):
    """What ended for one tenant (null: jobs without one). window_s: shorter where counting was capped."""

    tenant: str | None
    ended: CountAnswer
    failed: CountAnswer
    window_s: float
    per_second: float

    @classmethod
    def of(cls, load: TenantLoad) -> TenantAnswer:
        """From the desk's value."""
        return cls(
            tenant=load.tenant,
            ended=CountAnswer.of(load.ended),
            failed=CountAnswer.of(load.failed),
            window_s=load.window.total_seconds(),
            per_second=load.per_second,
        )


class TenantsAnswer(Answer):
    """By tenant, the busiest first."""

    items: list[TenantAnswer]


class WorkAnswer(Answer):
    """What runs for one reference (or tag, under the name `tag`), by phase and kind. longest_s: the run time so far."""

    name: str
    value: str
    phase: str | None
    kind: str
    running: int
    longest_s: float

    @classmethod
    def of(cls, work: Work) -> WorkAnswer:
        """From the desk's value."""
        return cls(
            name=work.name,
            value=work.value,
            phase=work.phase,
            kind=work.kind,
            running=work.running,
            longest_s=work.longest.total_seconds(),
        )


class ReferencesAnswer(Answer):
    """By reference, phase and kind, the most jobs first."""

    items: list[WorkAnswer]


class ThroughputAnswer(Answer):
    """Ends within the window; where counting was capped, window_s is the part that was counted."""

    ended: CountAnswer
    window_s: float
    per_second: float


@routes.get("/stats/overview", needs=Permission.WORKERS_VIEW)
async def get_overview(desk: Asked, window_s: Window = 3600) -> OverviewAnswer:
    """Jobs by state, lanes with running, slots and oldest wait, and workers."""
    return OverviewAnswer.of(await desk.stats.overview(window=window_s))


@routes.get("/stats/backlog", needs=Permission.WORKERS_VIEW)
async def get_backlog(desk: Asked) -> BacklogsAnswer:
    """Queued jobs by kind, with the lane that serves it: due, scheduled, oldest wait."""
    return BacklogsAnswer(items=[BacklogAnswer.of(each) for each in await desk.stats.backlog()])


@routes.get("/stats/running", needs=Permission.WORKERS_VIEW)
async def get_running(desk: Asked, limit: Most = 500) -> RunningsAnswer:
    """What runs now, with its phase, worker and references; the longest running first."""
    return RunningsAnswer(items=[RunningAnswer.of(each) for each in await desk.stats.running(limit=limit)])


@routes.get("/stats/references", needs=Permission.WORKERS_VIEW)
async def get_references(
    desk: Asked,
    name: Word = None,
    value: Word = None,
    phase: Word = None,
    limit: Most = 500,
) -> ReferencesAnswer:
    """What runs now by reference, phase and kind, such as project 7 in phase editions. Takes jobs:read_all too."""
    found = await desk.stats.references(name, value, phase=phase, limit=limit)
    return ReferencesAnswer(items=[WorkAnswer.of(each) for each in found])


@routes.get("/stats/tenants", needs=Permission.WORKERS_VIEW)
async def get_tenants(desk: Asked, window_s: Window = 3600, limit: Most = 500) -> TenantsAnswer:
    """How many jobs ended for each tenant within the window, and how many that is a second."""
    return TenantsAnswer(items=[TenantAnswer.of(each) for each in await desk.stats.tenants(window_s, limit=limit)])


@routes.get("/stats/slow", needs=Permission.WORKERS_VIEW)
async def get_slow(
    desk: Asked,
    longer_than_s: Annotated[float, Query(ge=0, le=366 * 86_400)] = 600,
    limit: Most = 500,
) -> RunningsAnswer:
    """Jobs that have been running for longer than this, the longest first."""
    found = await desk.stats.slow(longer_than_s, limit=limit)
    return RunningsAnswer(items=[RunningAnswer.of(each) for each in found])


@routes.get("/stats/failures", needs=Permission.WORKERS_VIEW)
async def get_failures(desk: Asked, window_s: Window = 3600) -> KindFailuresAnswer:
    """How jobs ended within the window, by kind: ended, failed, rate, the last error."""
    found = await desk.stats.failures(window_s)
    return KindFailuresAnswer(window_s=window_s, items=[FailuresAnswer.of(each) for each in found])


@routes.get("/stats/throughput", needs=Permission.WORKERS_VIEW)
async def get_throughput(desk: Asked, window_s: Window = 300) -> ThroughputAnswer:
    """How many jobs ended within the window, and how many that is a second."""
    found = await desk.stats.throughput(window_s)
    return ThroughputAnswer(
        ended=CountAnswer.of(found.ended), window_s=found.window.total_seconds(), per_second=found.per_second
    )
