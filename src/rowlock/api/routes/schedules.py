"""Schedules over the wire: read, create, change under If-Match, pause, resume, run, backfill."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field
from starlette.responses import Response

from rowlock.api.dependencies import Asked, IfMatch, IfNoneMatch, conditional, matched, outdated
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer, Body, JobAnswer, Priority, Seconds, Text
from rowlock.desk.schedules import MOST_SLOTS
from rowlock.errors import WrongState
from rowlock.model import ids
from rowlock.model.access import Permission
from rowlock.model.schedule import Schedule
from rowlock.model.window import Window

routes = Routes("schedules")
Name = Annotated[str, Path(max_length=200, pattern=r"^[^\x00]+$")]
ScheduleName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00@/]+$")]
CronText = Annotated[str, Field(min_length=1, max_length=200, examples=["0 2 * * *"])]
Every = Annotated[float, Field(ge=1, le=366 * 86_400)]
Zone = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w+/-]+$", examples=["Europe/London"])]
Missed = Literal["none", "latest", "all"]
Overlap = Literal["queue", "skip", "cancel"]
Most = Annotated[int, Field(ge=1, le=10_000)]


class WindowShape(Body):
    """Hours in which it does not fire. days: those on which it begins, as sat,sun; none: all. defer: to its end."""

    hours: Annotated[str, Field(max_length=20, examples=["22:00-06:00"])]
    days: Annotated[str, Field(max_length=100, pattern=r"^[a-zA-Z, ]*$")] = ""
    then: Literal["skip", "defer"] = "skip"


Windows = Annotated[list[WindowShape], Field(max_length=20)]


class OptionsShape(Body):
    """Options of its jobs."""

    priority: Priority | None = None
    expires_in: Seconds | str | None = None
    max_age: Seconds | str | None = None
    max_attempts: Annotated[int, Field(ge=1, le=32_767)] | None = None
    tags: Annotated[list[Text], Field(max_length=100)] | None = None
    refs: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None


class ScheduleAnswer(Answer):
    """A schedule. next_at null: never; skipped_at: the last slot that was not fired, and why; declared: in code."""

    name: str
    kind: str
    args: dict[str, Any]
    options: dict[str, Any]
    cron: str | None
    every_s: float | None
    tz: str
    missed: Missed
    most_missed: int
    overlap: Overlap
    windows: list[WindowShape]
    tenant: str | None
    submitted_by: str | None
    enabled: bool
    declared: bool
    next_at: datetime | None
    last_at: datetime | None
    last_job: str | None
    skipped_at: datetime | None
    skipped_why: str | None
    version: int
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(cls, item: Schedule) -> ScheduleAnswer:
        """From the desk's value."""
        as_they_are = {name: getattr(item, name) for name in cls.model_fields if hasattr(item, name)}
        own = {
            "every_s": None if item.every is None else item.every.total_seconds(),
            "windows": [WindowShape(hours=each.hours, days=each.days, then=each.then) for each in item.windows],
            "declared": item.declared is not None,
            "last_job": None if item.last_job is None else ids.encode(item.last_job),
        }
        return cls(**{**as_they_are, **own})


class SchedulesAnswer(Answer):
    """Every schedule in sight, by name."""

    items: list[ScheduleAnswer]


class RunsAnswer(Answer):
    """Its next slots."""

    items: list[datetime]


class BackfillAnswer(Answer):
    """slots: those that have had no job and get one; already: those that have; jobs: what was enqueued."""

    slots: list[datetime]
    already: list[datetime]
    jobs: list[str]
    dry_run: bool


class NewSchedule(Body):
    """A schedule to create: cron or every_s."""

    name: ScheduleName
    kind: Text
    args: dict[str, Any] = Field(default_factory=dict)
    options: OptionsShape = Field(default_factory=OptionsShape)
    cron: CronText | None = None
    every_s: Every | None = None
    tz: Zone = "UTC"
    missed: Missed = "latest"
    most_missed: Most = 100
    overlap: Overlap = "queue"
    windows: Windows = Field(default_factory=list)
    tenant: Text | None = None
    enabled: bool = True


class ScheduleChange(Body):
    """What is to change; what is left out stays. cron takes the place of every_s, and every_s that of cron."""

    kind: Text | None = None
    args: dict[str, Any] | None = None
    options: OptionsShape | None = None
    cron: CronText | None = None
    every_s: Every | None = None
    tz: Zone | None = None
    missed: Missed | None = None
    most_missed: Most | None = None
    overlap: Overlap | None = None
    windows: Windows | None = None
    enabled: bool | None = None


class Range(Body):
    """From start until before end, both in the past. dry_run: only tell."""

    start: datetime
    end: datetime
    dry_run: bool = True


@routes.get("/schedules", needs=Permission.SCHEDULES_VIEW)
async def list_schedules(desk: Asked) -> SchedulesAnswer:
    """Every schedule in sight, by name."""
    return SchedulesAnswer(items=[ScheduleAnswer.of(item) for item in await desk.schedules.list()])


@routes.get("/schedules/{name}", needs=Permission.SCHEDULES_VIEW, response_model=ScheduleAnswer)
async def get_schedule(desk: Asked, name: Name, if_none_match: IfNoneMatch = None) -> Response:
    """One schedule, with the ETag that a change must name."""
    answer = ScheduleAnswer.of(await desk.schedules.get(name))
    return conditional(answer, _etag(answer), if_none_match)


@routes.get("/schedules/{name}/next", needs=Permission.SCHEDULES_VIEW)
async def list_next_runs(desk: Asked, name: Name, n: Annotated[int, Query(ge=1, le=MOST_SLOTS)] = 5) -> RunsAnswer:
    """The next runs from now on, whether it is paused or not."""
    return RunsAnswer(items=await desk.schedules.next(name, n))


@routes.post("/schedules", needs=Permission.SCHEDULES_MANAGE, status_code=201, response_model=ScheduleAnswer)
async def create_schedule(desk: Asked, new: NewSchedule) -> Response:
    """Create a schedule, first due at its next slot; 409 when there is one of that name."""
    made = await desk.schedules.create(
        new.name,
        new.kind,
        new.cron,
        every=new.every_s,
        tz=new.tz,
        missed=new.missed,
        most_missed=new.most_missed,
        overlap=new.overlap,
        windows=_windows(new.windows) or (),
        args=new.args,
        options=new.options.model_dump(exclude_none=True),
        tenant=new.tenant,
        enabled=new.enabled,
    )
    return _shown(made, 201)


@routes.patch("/schedules/{name}", needs=Permission.SCHEDULES_MANAGE, response_model=ScheduleAnswer)
async def change_schedule(desk: Asked, name: Name, change: ScheduleChange, if_match: IfMatch = None) -> Response:
    """Change what is given, if the schedule still is as If-Match says; workers follow at once."""
    desk.guard.demand(Permission.SCHEDULES_MANAGE, unsafe=True)
    before = await desk.schedules.get(name)
    answer = ScheduleAnswer.of(before)
    matched(if_match, _etag(answer), answer)
    try:
        changed = await desk.schedules.edit(
            name,
            kind=change.kind,
            cron=change.cron,
            every=change.every_s,
            tz=change.tz,
            missed=change.missed,
            most_missed=change.most_missed,
            overlap=change.overlap,
            windows=_windows(change.windows),
            args=change.args,
            options=None if change.options is None else change.options.model_dump(exclude_none=True),
            enabled=change.enabled,
            version=before.version,
        )
    except WrongState as error:
        # Between the read above and the write somebody else was quicker.
        now = ScheduleAnswer.of(await desk.schedules.get(name))
        raise outdated(_etag(now), now) from error
    return _shown(changed)


@routes.delete("/schedules/{name}", needs=Permission.SCHEDULES_MANAGE)
async def delete_schedule(desk: Asked, name: Name) -> ScheduleAnswer:
    """Remove a schedule; its jobs stay. Answers with it as it was. Code that declares it writes it again."""
    return ScheduleAnswer.of(await desk.schedules.delete(name))


@routes.post("/schedules/{name}/pause", needs=Permission.SCHEDULES_MANAGE, response_model=ScheduleAnswer)
async def pause_schedule(desk: Asked, name: Name) -> Response:
    """Fire nothing more; jobs that are enqueued already go on."""
    return _shown(await desk.schedules.pause(name))


@routes.post("/schedules/{name}/resume", needs=Permission.SCHEDULES_MANAGE, response_model=ScheduleAnswer)
async def resume_schedule(desk: Asked, name: Name) -> Response:
    """Fire again; what was due meanwhile was missed, and goes by its rule for that."""
    return _shown(await desk.schedules.resume(name))


@routes.post("/schedules/{name}/reset", needs=Permission.SCHEDULES_MANAGE, response_model=ScheduleAnswer)
async def reset_schedule(desk: Asked, name: Name) -> Response:
    """Back to what the code says of it; 409 when none does."""
    return _shown(await desk.schedules.reset(name))


@routes.post("/schedules/{name}/run", needs=Permission.SCHEDULES_MANAGE, status_code=202)
async def run_schedule(desk: Asked, name: Name) -> JobAnswer:
    """Enqueue one job now; the next slot stays where it is."""
    return JobAnswer.of(await desk.schedules.run(name))


@routes.post("/schedules/{name}/backfill", needs=Permission.SCHEDULES_MANAGE)
async def backfill_schedule(desk: Asked, name: Name, asked: Range) -> BackfillAnswer:
    """The slots of a range that have had no job; without dry_run, a job is enqueued for each, all or none."""
    done = await desk.schedules.backfill(name, asked.start, asked.end, dry_run=asked.dry_run)
    return BackfillAnswer(
        slots=list(done.slots),
        already=list(done.already),
        jobs=[ids.encode(job) for job in done.jobs],
        dry_run=done.dry_run,
    )


def _windows(shapes: list[WindowShape] | None) -> list[Window] | None:
    return None if shapes is None else [Window(each.hours, each.days, each.then) for each in shapes]


def _etag(answer: ScheduleAnswer) -> str:
    """Of its version, which every change raises; a firing does not, so it never gets in the way of a change."""
    return f'"{answer.version}"'


def _shown(schedule: Schedule, status: int = 200) -> Response:
    answer = ScheduleAnswer.of(schedule)
    headers = {"ETag": _etag(answer)}
    return Response(answer.model_dump_json(), status, media_type="application/json", headers=headers)
