"""Lanes: read, create, change under If-Match, pause and resume."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from starlette.responses import JSONResponse, Response

from rowlock.api.dependencies import CurrentDesk, IfMatch, IfNoneMatch, conditional, expected, outdated, require_match
from rowlock.api.lane_names import LANE_NAMES
from rowlock.api.routing import Routes
from rowlock.api.schemas.lanes import LaneAnswer, LaneChange, NewLane
from rowlock.api.schemas.workers import LaneLoadAnswer, LanesAnswer
from rowlock.desk.lanes import NO_CAP
from rowlock.errors import WrongState
from rowlock.model.access import Permission
from rowlock.model.lane import Lane

routes = Routes("lanes")
Name = Annotated[
    str, Path(max_length=100, pattern=r"^[^\x00]+$", description="Name of the lane.", examples=["reports"])
]
_MISSING = ("lane-not-found",)


@routes.get("/admin/workers/lanes", needs=Permission.WORKERS_VIEW, response_model=LanesAnswer)
async def list_lanes(desk: CurrentDesk) -> Response:
    """Every lane, by name, with its use: running jobs, slots of all workers, and what waits for it."""
    loads = await desk.lanes.loads()
    return JSONResponse({"items": [_body(LaneLoadAnswer.loaded(load)) for load in loads]})


@routes.get("/admin/workers/lanes/{name}", needs=Permission.WORKERS_VIEW, response_model=LaneAnswer, problems=_MISSING)
async def get_lane(desk: CurrentDesk, name: Name, if_none_match: IfNoneMatch = None) -> Response:
    """One lane, with the ETag that a change must send."""
    lane = await desk.lanes.get(name)
    return conditional(_body(LaneAnswer.of(lane)), etag_of(lane), if_none_match)


@routes.post(
    "/admin/workers/lanes",
    needs=Permission.WORKERS_MANAGE,
    status_code=201,
    response_model=LaneAnswer,
    problems=("invalid-option", "conflict"),
)
async def create_lane(desk: CurrentDesk, new: NewLane) -> Response:
    """Create a lane; 409 when one of that name exists. It takes its kinds from the lanes that had them."""
    lane = await desk.lanes.create(
        new.name,
        kinds=new.kinds,
        slots=new.slots,
        max_total=new.max_total,
        order=new.order,
        poll_interval=new.poll_interval,
        heartbeat_timeout=new.heartbeat_timeout,
        progress_timeout=new.progress_timeout,
        rate=None if new.rate is None else new.rate.rate(),
        aging_interval=new.aging_interval,
        must_be_new=True,
    )
    return _shown(lane, 201)


@routes.patch(
    "/admin/workers/lanes/{name}",
    needs=Permission.WORKERS_MANAGE,
    response_model=LaneAnswer,
    problems=(*_MISSING, "invalid-option"),
)
async def change_lane(desk: CurrentDesk, name: Name, change: LaneChange, if_match: IfMatch) -> Response:
    """Change a lane, if If-Match names its current version; workers follow within two seconds."""
    desk.guard.demand(Permission.WORKERS_MANAGE, unsafe=True, scoped=True)
    lane = await desk.lanes.get_for_change(name)
    require_match(if_match, etag_of(lane), _body(LaneAnswer.of(lane)))
    removed = {name for name in change.model_fields_set if getattr(change, name) is None}
    try:
        lane = await desk.lanes.set(
            name,
            kinds=change.kinds,
            slots=change.slots,
            max_total=NO_CAP if "max_total" in removed else change.max_total,
            order=change.order,
            poll_interval=change.poll_interval,
            heartbeat_timeout=change.heartbeat_timeout,
            progress_timeout=0 if "progress_timeout" in removed else change.progress_timeout,
            requires_approval=change.requires_approval,
            rate="off" if "rate" in removed else None if change.rate is None else change.rate.rate(),
            aging_interval=0 if "aging_interval" in removed else change.aging_interval,
            enabled=change.enabled,
            version=expected(if_match, lane.version),
        )
    except WrongState as error:
        # Another change came between the read above and the write.
        now = await desk.lanes.get_for_change(name)
        raise outdated(etag_of(now), _body(LaneAnswer.of(now))) from error
    return _shown(lane)


@routes.post(
    "/admin/workers/lanes/{name}/pause", needs=Permission.WORKERS_MANAGE, response_model=LaneAnswer, problems=_MISSING
)
async def pause_lane(desk: CurrentDesk, name: Name) -> Response:
    """Start no more jobs of this lane; running ones go on. The same as drain."""
    return _shown(await desk.lanes.drain(name))


@routes.post(
    "/admin/workers/lanes/{name}/drain", needs=Permission.WORKERS_MANAGE, response_model=LaneAnswer, problems=_MISSING
)
async def drain_lane(desk: CurrentDesk, name: Name) -> Response:
    """Start no more jobs of this lane; running ones go on."""
    return _shown(await desk.lanes.drain(name))


@routes.post(
    "/admin/workers/lanes/{name}/resume", needs=Permission.WORKERS_MANAGE, response_model=LaneAnswer, problems=_MISSING
)
async def resume_lane(desk: CurrentDesk, name: Name) -> Response:
    """Start jobs of this lane again."""
    return _shown(await desk.lanes.resume(name))


def etag_of(lane: Lane) -> str:
    """The ETag of a lane: its version, which every change raises."""
    return f'"{lane.version}"'


def _shown(lane: Lane, status: int = 200) -> Response:
    return JSONResponse(_body(LaneAnswer.of(lane)), status, headers={"ETag": etag_of(lane)})


def _body(answer: LaneAnswer) -> dict[str, Any]:
    """A lane as JSON, with the names that this API has for its fields."""
    return LANE_NAMES.get().write(answer.model_dump(mode="json"))
