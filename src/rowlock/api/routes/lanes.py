"""Lanes over the wire: read, create, tune under If-Match, pause and resume."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Path
from pydantic import Field
from starlette.responses import Response

from rowlock.api.dependencies import Asked, IfMatch, IfNoneMatch, conditional, matched, outdated
from rowlock.api.rate_shape import RateShape
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer, Body, Text
from rowlock.desk.lanes import NO_CAP
from rowlock.errors import WrongState
from rowlock.model.access import Permission
from rowlock.model.lane import Lane

routes = Routes("lanes")
Name = Annotated[str, Path(max_length=100, pattern=r"^[^\x00]+$")]
LaneName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.*-]+$")]
Kinds = Annotated[list[Text], Field(max_length=1000)]
Slots = Annotated[int, Field(ge=0, le=100_000)]
Total = Annotated[int, Field(ge=0, le=2_000_000_000)]
Poll = Annotated[float, Field(ge=0.01, le=86_400)]
Stale = Annotated[float, Field(ge=1, le=366 * 86_400)]
Stall = Annotated[float, Field(ge=5, le=366 * 86_400)]


class LaneAnswer(Answer):
    """A lane. slots: jobs at once per worker process; max_total: over all workers, null for no cap.

    stale_s: silence after which a worker's jobs are lost; stall_s: time without a report after which a job is.
    """

    name: str
    kinds: list[str]
    slots: int
    max_total: int | None
    order: str
    poll_s: float
    stale_s: float
    stall_s: float | None
    requires_approval: bool
    rate: RateShape | None
    age_s: float | None
    enabled: bool
    version: int
    updated_at: datetime | None

    @classmethod
    def of(cls, lane: Lane) -> LaneAnswer:
        """From the desk's value."""
        return cls(
            name=lane.name,
            kinds=list(lane.kinds),
            slots=lane.slots,
            max_total=lane.max_total,
            order=lane.order,
            poll_s=lane.poll_interval.total_seconds(),
            stale_s=lane.heartbeat_timeout.total_seconds(),
            stall_s=None if lane.progress_timeout is None else lane.progress_timeout.total_seconds(),
            requires_approval=lane.requires_approval,
            rate=None if lane.rate is None else RateShape.of(lane.rate),
            age_s=None if lane.aging_interval is None else lane.aging_interval.total_seconds(),
            enabled=lane.enabled,
            version=lane.version,
            updated_at=lane.updated_at,
        )


class LanesAnswer(Answer):
    """Every lane, by name."""

    items: list[LaneAnswer]


class NewLane(Body):
    """A lane to create."""

    name: LaneName
    kinds: Kinds = Field(default_factory=list)
    slots: Slots = 10
    max_total: Total | None = None
    order: Literal["fast", "strict", "fair"] = "fast"
    poll_s: Poll = 5
    stale_s: Stale = 60
    stall_s: Stall | None = None
    rate: RateShape | None = None
    age_s: Stale | None = None


class LaneChange(Body):
    """What is to change; what is left out stays. max_total, stall_s, rate and age_s null remove them."""

    kinds: Kinds | None = None
    slots: Slots | None = None
    max_total: Total | None = None
    order: Literal["fast", "strict", "fair"] | None = None
    poll_s: Poll | None = None
    stale_s: Stale | None = None
    stall_s: Stall | None = None
    requires_approval: bool | None = None
    rate: RateShape | None = None
    age_s: Stale | None = None
    enabled: bool | None = None


@routes.get("/admin/workers/lanes", needs=Permission.WORKERS_VIEW)
async def list_lanes(desk: Asked) -> LanesAnswer:
    """Every lane, by name."""
    return LanesAnswer(items=[LaneAnswer.of(lane) for lane in await desk.lanes.list()])


@routes.get("/admin/workers/lanes/{name}", needs=Permission.WORKERS_VIEW, response_model=LaneAnswer)
async def get_lane(desk: Asked, name: Name, if_none_match: IfNoneMatch = None) -> Response:
    """One lane, with the ETag that a change must name."""
    lane = await desk.lanes.get(name)
    return conditional(LaneAnswer.of(lane), etag_of(lane), if_none_match)


@routes.post("/admin/workers/lanes", needs=Permission.WORKERS_MANAGE, status_code=201, response_model=LaneAnswer)
async def create_lane(desk: Asked, new: NewLane) -> Response:
    """Create a lane; 409 when there is one of that name. It takes its kinds from the lanes that had them."""
    lane = await desk.lanes.create(
        new.name,
        kinds=new.kinds,
        slots=new.slots,
        max_total=new.max_total,
        order=new.order,
        poll_interval=new.poll_s,
        heartbeat_timeout=new.stale_s,
        progress_timeout=new.stall_s,
        rate=None if new.rate is None else new.rate.rate(),
        aging_interval=new.age_s,
        must_be_new=True,
    )
    return _shown(lane, 201)


@routes.patch("/admin/workers/lanes/{name}", needs=Permission.WORKERS_MANAGE, response_model=LaneAnswer)
async def change_lane(desk: Asked, name: Name, change: LaneChange, if_match: IfMatch = None) -> Response:
    """Change what is given, if the lane still is as If-Match says; workers follow within two seconds."""
    desk.guard.demand(Permission.WORKERS_MANAGE, unsafe=True)
    lane = await desk.lanes.get(name)
    matched(if_match, etag_of(lane), LaneAnswer.of(lane))
    gone = {name for name in change.model_fields_set if getattr(change, name) is None}
    try:
        lane = await desk.lanes.set(
            name,
            kinds=change.kinds,
            slots=change.slots,
            max_total=NO_CAP if "max_total" in gone else change.max_total,
            order=change.order,
            poll_interval=change.poll_s,
            heartbeat_timeout=change.stale_s,
            progress_timeout=0 if "stall_s" in gone else change.stall_s,
            requires_approval=change.requires_approval,
            rate="off" if "rate" in gone else None if change.rate is None else change.rate.rate(),
            aging_interval=0 if "age_s" in gone else change.age_s,
            enabled=change.enabled,
            version=lane.version,
        )
    except WrongState as error:
        # Between the read above and the write somebody else was quicker.
        now = await desk.lanes.get(name)
        raise outdated(etag_of(now), LaneAnswer.of(now)) from error
    return _shown(lane)


@routes.post("/admin/workers/lanes/{name}/pause", needs=Permission.WORKERS_MANAGE, response_model=LaneAnswer)
async def pause_lane(desk: Asked, name: Name) -> Response:
    """Start nothing more in this lane; what runs goes on. The same as drain."""
    return _shown(await desk.lanes.drain(name))


@routes.post("/admin/workers/lanes/{name}/drain", needs=Permission.WORKERS_MANAGE, response_model=LaneAnswer)
async def drain_lane(desk: Asked, name: Name) -> Response:
    """Start nothing more in this lane; what runs goes on."""
    return _shown(await desk.lanes.drain(name))


@routes.post("/admin/workers/lanes/{name}/resume", needs=Permission.WORKERS_MANAGE, response_model=LaneAnswer)
async def resume_lane(desk: Asked, name: Name) -> Response:
    """Start jobs of this lane again."""
    return _shown(await desk.lanes.resume(name))


def etag_of(lane: Lane) -> str:
    """Every change raises the version."""
    return f'"{lane.version}"'


def _shown(lane: Lane, status: int = 200) -> Response:
    body = LaneAnswer.of(lane).model_dump_json()
    return Response(body, status, media_type="application/json", headers={"ETag": etag_of(lane)})
