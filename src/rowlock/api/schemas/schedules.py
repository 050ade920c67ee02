"""Schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import YEAR, Answer, Body, DurationInput, doc, seconds
from rowlock.api.schemas.fields import INSTANT, Text
from rowlock.api.schemas.jobs import ExpiresInField, MaxAgeField, MaxAttemptsField, MetaField, PriorityField, TagsField
from rowlock.model import ids
from rowlock.model.schedule import Missed, Overlap, Schedule
from rowlock.model.times.duration import duration
from rowlock.model.times.window import Then, Window

_DURATIONS: Final = ("expires_in", "max_age")
_CRON: Final = "Cron rule of five fields"
_EVERY: Final = "Fixed interval between two runs"
_TZ: Final = "Time zone of the cron rule and the windows"
_MISSED: Final = "What happens to slots missed while no worker ran: none of them runs, the latest one, or all"
_MOST_MISSED: Final = "Most missed slots that run when `missed` is all"
_OVERLAP: Final = "What happens while the last run is not over: queue another, skip the slot, or cancel the last run"
_WINDOWS: Final = "Hours in which it does not fire"
_HOURS: Final = "Hours on the schedule's clock; may cross midnight."
_DAYS: Final = "Days on which the window begins; empty: every day."
_THEN: Final = "skip leaves out the slots inside the window; defer moves them to its end, as one."
_WINDOW: Final = {"hours": "22:00-06:00", "days": "sat,sun", "then": "skip"}
Every = Annotated[float, DurationInput(1, YEAR)]
CronText = Annotated[str, Field(min_length=1, max_length=200)]
Zone = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w+/-]+$")]
MostMissed = Annotated[int, Field(ge=1, le=10_000)]


class WindowAnswer(Answer):
    """Hours in which a schedule does not fire."""

    hours: Annotated[str, doc(_HOURS, "22:00-06:00")]
    days: Annotated[str, doc(_DAYS, "sat,sun")]
    then: Annotated[Then, doc(_THEN, "skip")]


class WindowBody(Body):
    """Hours in which the schedule shall not fire. Only `hours` is required."""

    hours: Annotated[str, doc(_HOURS, "22:00-06:00", max_length=20)]
    days: Annotated[str, doc(_DAYS, "sat,sun", max_length=100, pattern=r"^[a-zA-Z, ]*$")] = ""
    then: Annotated[Then, doc(_THEN, "skip")] = "skip"

    def window(self) -> Window:
        """The value."""
        return Window(self.hours, self.days, self.then)


WindowBodies = Annotated[list[WindowBody], Field(max_length=20)]


class ScheduleOptions(Body):
    """Options of the jobs that the schedule enqueues. Absent and null fields have the default of the kind."""

    priority: PriorityField = None
    expires_in: ExpiresInField = None
    max_age: MaxAgeField = None
    max_attempts: MaxAttemptsField = None
    tags: TagsField = None
    refs: Annotated[dict[str, Any] | None, doc("References to your own objects; null: none.", {"project": 7})] = None
    meta: MetaField = None


class ScheduleAnswer(Answer):
    """A schedule."""

    name: Annotated[str, doc("Name of the schedule.", "nightly-report")]
    kind: fields.Kind
    args: fields.Args
    options: Annotated[dict[str, Any], doc("Options of its jobs; durations are seconds.", {"max_age": 3600.0})]
    cron: Annotated[str | None, doc(f"{_CRON}; null: it has an interval.", "0 2 * * *")]
    every: Annotated[float | None, doc(f"{_EVERY} in seconds; null: it has a cron rule.", None)]
    tz: Annotated[str, doc(f"{_TZ}.", "Europe/London")]
    missed: Annotated[Missed, doc(f"{_MISSED}.", "latest")]
    most_missed: Annotated[int, doc(f"{_MOST_MISSED}.", 100)]
    overlap: Annotated[Overlap, doc(f"{_OVERLAP}.", "queue")]
    windows: Annotated[list[WindowAnswer], doc(f"{_WINDOWS}.", [_WINDOW])]
    tenant: fields.TenantOrNull
    submitted_by: fields.SubmitterOrNull
    enabled: Annotated[bool, doc("False: it is paused.", True)]
    declared: Annotated[bool, doc("Whether code declares it; false: it was created at run time.", True)]
    next_at: Annotated[datetime | None, doc("Its next slot; null: none follows.", INSTANT)]
    last_at: Annotated[datetime | None, doc("The last slot that fired; null: none so far.", INSTANT)]
    last_job: Annotated[str | None, doc("Public id of the job of that slot; null: none.", fields.JOB_ID)]
    skipped_at: Annotated[datetime | None, doc("The last slot that did not fire; null: none.", None)]
    skipped_why: Annotated[str | None, doc("Why that slot did not fire; null: none was skipped.", None)]
    version: fields.Version
    created_at: Annotated[datetime | None, doc("When it was created; null: not stored yet.", INSTANT)]
    updated_at: fields.UpdatedAt

    @classmethod
    def of(cls, schedule: Schedule) -> ScheduleAnswer:
        """From the desk's value."""
        values = {name: getattr(schedule, name) for name in cls.model_fields}
        own = {
            "options": _options(schedule),
            "every": seconds(schedule.every),
            "windows": [WindowAnswer(hours=each.hours, days=each.days, then=each.then) for each in schedule.windows],
            "declared": schedule.declared is not None,
            "last_job": None if schedule.last_job is None else ids.encode(schedule.last_job),
        }
        return cls(**{**values, **own})


def _options(schedule: Schedule) -> dict[str, Any]:
    """Options as JSON: the database keeps durations as they were written."""
    options = dict(schedule.options)
    for name in _DURATIONS:
        if options.get(name) is not None:
            options[name] = duration(options[name], name).total_seconds()
    return options


class SchedulesAnswer(Answer):
    """Schedules."""

    items: Annotated[list[ScheduleAnswer], doc("Every schedule that you may see, by name.")]


class RunsAnswer(Answer):
    """Slots of a schedule."""

    items: Annotated[list[datetime], doc("Its next slots.", [INSTANT])]


class BackfillAnswer(Answer):
    """The slots of a range."""

    slots: Annotated[list[datetime], doc("Slots that have no job yet and get one.", [INSTANT])]
    already: Annotated[list[datetime], doc("Slots that have a job.", [])]
    jobs: Annotated[list[str], doc("Public ids of the jobs that were enqueued; empty for a dry run.", [fields.JOB_ID])]
    dry_run: Annotated[bool, doc("True: nothing was enqueued.", True)]


class NewSchedule(Body):
    """A schedule to create. `name`, `kind` and one of `cron` and `every` are required."""

    name: Annotated[
        str, doc("Name of the schedule.", "nightly-report", min_length=1, max_length=200, pattern=r"^[^\x00@/]+$")
    ]
    kind: Annotated[Text, doc("Kind of its jobs.", "render_report")]
    args: Annotated[dict[str, Any], doc("Arguments of its jobs by name.", {"pages": 3})] = Field(default_factory=dict)
    options: Annotated[ScheduleOptions, doc("Options of its jobs.", {"max_age": "1h"})] = Field(
        default_factory=ScheduleOptions
    )
    cron: Annotated[CronText | None, doc(f"{_CRON}; null: give every.", "0 2 * * *")] = None
    every: Annotated[Every | None, doc(f"{_EVERY}; null: give cron.", None)] = None
    tz: Annotated[Zone, doc(f"{_TZ}.", "Europe/London")] = "UTC"
    missed: Annotated[Missed, doc(f"{_MISSED}.", "latest")] = "latest"
    most_missed: Annotated[MostMissed, doc(f"{_MOST_MISSED}.", 100)] = 100
    overlap: Annotated[Overlap, doc(f"{_OVERLAP}.", "queue")] = "queue"
    windows: Annotated[WindowBodies, doc(f"{_WINDOWS}.", [_WINDOW])] = Field(default_factory=list)
    tenant: Annotated[Text | None, doc("Tenant of its jobs; null: that of the caller.", "acme")] = None
    enabled: Annotated[bool, doc("False: create it paused.", True)] = True


class ScheduleChange(Body):
    """Changes to a schedule. Absent and null fields stay; `cron` replaces `every`, and `every` replaces `cron`."""

    kind: Annotated[Text | None, doc("Kind of its jobs; null: unchanged.", "render_report")] = None
    args: Annotated[dict[str, Any] | None, doc("All arguments; null: unchanged.", {"pages": 3})] = None
    options: Annotated[ScheduleOptions | None, doc("All options; null: unchanged.", {"max_age": "1h"})] = None
    cron: Annotated[CronText | None, doc(f"{_CRON}; null: unchanged.", "0 3 * * *")] = None
    every: Annotated[Every | None, doc(f"{_EVERY}; null: unchanged.", "15m")] = None
    tz: Annotated[Zone | None, doc(f"{_TZ}; null: unchanged.", "Europe/London")] = None
    missed: Annotated[Missed | None, doc(f"{_MISSED}; null: unchanged.", "latest")] = None
    most_missed: Annotated[MostMissed | None, doc(f"{_MOST_MISSED}; null: unchanged.", 100)] = None
    overlap: Annotated[Overlap | None, doc(f"{_OVERLAP}; null: unchanged.", "queue")] = None
    windows: Annotated[WindowBodies | None, doc(f"{_WINDOWS}; null: unchanged.", [_WINDOW])] = None
    enabled: Annotated[bool | None, doc("False pauses it; null: unchanged.", True)] = None


class BackfillRange(Body):
    """A range of past slots."""

    start: Annotated[datetime, doc("Begin of the range, included.", "2026-02-01T00:00:00Z")]
    end: Annotated[datetime, doc("End of the range, excluded.", "2026-03-01T00:00:00Z")]
    dry_run: Annotated[bool, doc("True: list the slots and enqueue nothing.", True)] = True
