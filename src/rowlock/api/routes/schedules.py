"""Schedules: read, create, change under If-Match, pause, resume, run, backfill."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from rowlock.api.dependencies import CurrentDesk, IfMatch, IfNoneMatch, conditional, expected, outdated, require_match
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routing import Routes
from rowlock.api.schemas.jobs import JobAnswer
from rowlock.api.schemas.schedules import (
    BackfillAnswer,
    BackfillRange,
    NewSchedule,
    RunsAnswer,
    ScheduleAnswer,
    ScheduleChange,
    SchedulesAnswer,
)
from rowlock.desk.schedules import MOST_SLOTS
from rowlock.errors import WrongState
from rowlock.model import ids
from rowlock.model.access import Permission
from rowlock.model.schedule import Schedule

routes = Routes("schedules")
Name = Annotated[
    str,
    Path(max_length=200, pattern=r"^[^\x00]+$", description="Name of the schedule.", examples=["nightly-report"]),
]
NumberOfRuns = Annotated[int, Query(ge=1, le=MOST_SLOTS, description="How many slots.", examples=[5])]
_MISSING = ("schedule-not-found",)
_ENQUEUES = (*_MISSING, "kind-not-found", "invalid-arguments", "invalid-option", "conflict")


@routes.get("/schedules", needs=Permission.SCHEDULES_VIEW)
async def list_schedules(desk: CurrentDesk) -> SchedulesAnswer:
    """Every schedule that you may see, by name."""
    return SchedulesAnswer(items=[ScheduleAnswer.of(item) for item in await desk.schedules.list()])


@routes.get("/schedules/{name}", needs=Permission.SCHEDULES_VIEW, response_model=ScheduleAnswer, problems=_MISSING)
async def get_schedule(desk: CurrentDesk, name: Name, if_none_match: IfNoneMatch = None) -> Response:
    """One schedule, with the ETag that a change must send."""
    answer = ScheduleAnswer.of(await desk.schedules.get(name))
    return conditional(answer, _etag(answer), if_none_match)


@routes.get("/schedules/{name}/next", needs=Permission.SCHEDULES_VIEW, problems=_MISSING)
async def list_next_runs(desk: CurrentDesk, name: Name, n: NumberOfRuns = 5) -> RunsAnswer:
    """Its next slots from now on, paused or not."""
    return RunsAnswer(items=await desk.schedules.next(name, n))


@routes.post(
    "/schedules",
    needs=RoutePermissions((Permission.SCHEDULES_MANAGE,), also={"for another tenant": Permission.SUBMIT_AS}),
    status_code=201,
    response_model=ScheduleAnswer,
    problems=("kind-not-found", "invalid-arguments", "invalid-option", "conflict"),
)
async def create_schedule(desk: CurrentDesk, new: NewSchedule) -> Response:
    """Create a schedule, first due at its next slot; 409 when one of that name exists."""
    made = await desk.schedules.create(
        new.name,
        new.kind,
        new.cron,
        every=new.every,
        tz=new.tz,
        missed=new.missed,
        most_missed=new.most_missed,
        overlap=new.overlap,
        windows=[each.window() for each in new.windows],
        args=new.args,
        options=new.options.model_dump(exclude_none=True),
        tenant=new.tenant,
        enabled=new.enabled,
    )
    return _shown(made, 201)


@routes.patch(
    "/schedules/{name}",
    needs=Permission.SCHEDULES_MANAGE,
    response_model=ScheduleAnswer,
    problems=(*_MISSING, "kind-not-found", "invalid-arguments", "invalid-option"),
)
async def change_schedule(desk: CurrentDesk, name: Name, change: ScheduleChange, if_match: IfMatch) -> Response:
    """Change a schedule, if If-Match names its current version; workers follow at once."""
    desk.guard.demand(Permission.SCHEDULES_MANAGE, unsafe=True, scoped=True)  # before the version is compared
    before = await desk.schedules.get_for_change(name)
    answer = ScheduleAnswer.of(before)
    require_match(if_match, _etag(answer), answer)
    try:
        changed = await desk.schedules.edit(
            name,
            kind=change.kind,
            cron=change.cron,
            every=change.every,
            tz=change.tz,
            missed=change.missed,
            most_missed=change.most_missed,
            overlap=change.overlap,
            windows=None if change.windows is None else [each.window() for each in change.windows],
            args=change.args,
            options=None if change.options is None else change.options.model_dump(exclude_none=True),
            enabled=change.enabled,
            version=expected(if_match, before.version),
        )
    except WrongState as error:
        # Another change came between the read above and the write.
        now = ScheduleAnswer.of(await desk.schedules.get_for_change(name))
        raise outdated(_etag(now), now) from error
    return _shown(changed)


@routes.delete("/schedules/{name}", needs=Permission.SCHEDULES_MANAGE, problems=_MISSING)
async def delete_schedule(desk: CurrentDesk, name: Name) -> ScheduleAnswer:
    """Delete a schedule; its jobs stay. Answers with it as it was. Code that declares it creates it again."""
    return ScheduleAnswer.of(await desk.schedules.delete(name))


@routes.post(
    "/schedules/{name}/pause",
    needs=Permission.SCHEDULES_MANAGE,
    response_model=ScheduleAnswer,
    problems=_MISSING,
)
async def pause_schedule(desk: CurrentDesk, name: Name) -> Response:
    """Enqueue no more jobs; those enqueued already go on."""
    return _shown(await desk.schedules.pause(name))


@routes.post(
    "/schedules/{name}/resume",
    needs=Permission.SCHEDULES_MANAGE,
    response_model=ScheduleAnswer,
    problems=_MISSING,
)
async def resume_schedule(desk: CurrentDesk, name: Name) -> Response:
    """Enqueue jobs again; `missed` decides about the slots that passed meanwhile."""
    return _shown(await desk.schedules.resume(name))


@routes.post(
    "/schedules/{name}/reset",
    needs=Permission.SCHEDULES_MANAGE,
    response_model=ScheduleAnswer,
    problems=(*_MISSING, "conflict"),
)
async def reset_schedule(desk: CurrentDesk, name: Name) -> Response:
    """Reset it to its declaration in code; 409 when no code declares it."""
    return _shown(await desk.schedules.reset(name))


@routes.post("/schedules/{name}/run", needs=Permission.SCHEDULES_MANAGE, status_code=202, problems=_ENQUEUES)
async def run_schedule(desk: CurrentDesk, name: Name) -> JobAnswer:
    """Enqueue one job now; the next slot stays where it is."""
    return JobAnswer.of(await desk.schedules.run(name))


@routes.post("/schedules/{name}/backfill", needs=Permission.SCHEDULES_MANAGE, problems=_ENQUEUES)
async def backfill_schedule(desk: CurrentDesk, name: Name, backfill: BackfillRange) -> BackfillAnswer:
    """List the slots of a range that have no job; without dry_run, enqueue a job for each, all or none."""
    done = await desk.schedules.backfill(name, backfill.start, backfill.end, dry_run=backfill.dry_run)
    return BackfillAnswer(
        slots=list(done.slots),
        already=list(done.already),
        jobs=[ids.encode(job) for job in done.jobs],
        dry_run=done.dry_run,
    )


def _etag(answer: ScheduleAnswer) -> str:
    """The ETag of a schedule: its version. Changes raise it; a run does not, so that it never blocks a change."""
    return f'"{answer.version}"'


def _shown(schedule: Schedule, status: int = 200) -> Response:
    answer = ScheduleAnswer.of(schedule)
    headers = {"ETag": _etag(answer)}
    return Response(answer.model_dump_json(), status, media_type="application/json", headers=headers)
