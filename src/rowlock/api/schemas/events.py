"""Events of the two streams, each with the schema of its data. The field `event` tells them apart.

A server-sent event has an id, a name and data; in these models they are `id`, `event` and `data`, the data parsed. The
routes send events that `rowlock.model.event` and `rowlock.model.feed` derive; a test holds them to these models.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import ProblemBody, doc
from rowlock.api.schemas.fields import INSTANT
from rowlock.api.schemas.job_actions import OperationAnswer
from rowlock.api.schemas.jobs import ItemCountsAnswer, JobAnswer
from rowlock.api.schemas.lanes import LaneAnswer
from rowlock.api.schemas.schedules import ScheduleAnswer
from rowlock.api.schemas.stats import OverviewAnswer
from rowlock.api.schemas.workers import WorkerAnswer
from rowlock.model.state import State

By = Annotated[str | None, doc("Subject of the person who did it; absent: unknown.", "ada@example.com")]
Note = Annotated[str | None, doc("Note of that person; absent: none.", "requested by finance")]
EventError = Annotated[dict[str, Any] | None, doc("Reason, type and message of the error; absent: none.", fields.ERROR)]
AttemptOrNull = Annotated[int | None, doc("Number of the attempt; null: unknown.", 1)]
StateAfter = Annotated[State, doc("State of the job after the event.", "running")]
JobStreamId = Annotated[str, doc("Position to resume from: send it back as Last-Event-ID.", "3.0.2.0")]
FeedId = Annotated[str | None, doc("Position to resume from; absent: as before.", "1763291644861.9215:9217:9215")]


class EventModel(BaseModel):
    """Part of an event. Unknown members are refused, so that tests notice an undocumented one."""

    model_config = ConfigDict(extra="forbid")


# --- Data of a job's stream -------------------------------------------------------------------------------------------


class JobEventData(EventModel):
    """Members of every event about a job."""

    id: fields.PublicId
    kind: fields.Kind
    at: Annotated[datetime | None, doc("When it happened; absent: unknown.", INSTANT)] = None
    state: StateAfter


class JobCreatedData(JobEventData):
    """The job was enqueued."""

    priority: fields.Priority


class JobDecisionData(JobEventData):
    """A person approved, cancelled or retried the job."""

    by: By = None
    note: Note = None


class JobClaimedData(JobEventData):
    """A worker claimed the job and runs it."""

    attempt: AttemptOrNull
    worker: fields.WorkerOrNull
    lane: Annotated[str | None, doc("Lane that claimed it; absent for earlier attempts.", "reports")] = None


class JobProgressData(JobEventData):
    """The handler reported progress."""

    phase: Annotated[str | None, doc("Name of the current phase; null: none.", "render")]
    done: Annotated[float, doc("How many units of the current phase are done.", 30)]
    total: Annotated[float | None, doc("How many units the current phase has; null: unknown.", 120)]
    fraction: Annotated[float | None, doc("done / total, from 0 to 1; null: the total is unknown.", 0.25)]
    message: Annotated[str | None, doc("Last message of the handler; null: none.", "page 30 of 120")]
    eta: Annotated[float | None, doc("Seconds until the current phase ends; null: unknown.", 36.0)]
    items: Annotated[ItemCountsAnswer | None, doc("Counts of the job's items; absent: it reported none.")] = None


class JobLogData(EventModel):
    """The handler logged a line."""

    id: fields.PublicId
    kind: fields.Kind
    at: Annotated[datetime | None, doc("When it was logged; absent: unknown.", INSTANT)] = None
    n: Annotated[str, doc("Number of the line; grows over all attempts.", "4294967297")]
    level: Annotated[str, doc("Level of the line.", "INFO")]
    logger: Annotated[str, doc("Name of the logger.", "shop.invoices")]
    message: Annotated[str, doc("The formatted message.", "rendered page 17")]
    missed: Annotated[int | None, doc("Lines right before it that were dropped; absent: none.", 3)] = None


class JobRequeuedData(JobEventData):
    """An attempt ended without an end of the job."""

    attempt: AttemptOrNull
    outcome: Annotated[str, doc("How the attempt ended: failed, lost, snoozed, interrupted …", "failed")]
    error: EventError = None
    run_after: Annotated[datetime | None, doc("The next attempt starts no sooner; absent: unknown.", INSTANT)] = None


class JobWaitingData(JobEventData):
    """The handler waits for a signal and has given its slot back."""

    attempt: AttemptOrNull
    signal: Annotated[str | None, doc("Name of the signal; null: unknown.", "approved")]


class JobUpdatedData(EventModel):
    """The row changed in another way: priority, parked at a gate, released, replaced."""

    id: fields.PublicId
    kind: fields.Kind
    at: Annotated[datetime | None, doc("When it changed; absent: unknown.", INSTANT)] = None
    state: Annotated[State | None, doc("State of the job; absent: unchanged.", "queued")] = None
    priority: Annotated[int | None, doc("Priority of the job; absent: unchanged.", 10)] = None
    run_after: Annotated[datetime | None, doc("The job starts no sooner; absent: unchanged.", INSTANT)] = None
    by: By = None
    note: Note = None


class JobEndedData(JobDecisionData):
    """The job reached a final state."""

    error: EventError = None


class StreamEndData(EventModel):
    """Nothing follows in this stream."""

    id: fields.PublicId
    state: Annotated[State | None, doc("Final state of the job; null: the job was removed.", "completed")]
    reason: Annotated[Literal["removed"] | None, doc("removed: the job was deleted; absent otherwise.", "removed")] = (
        None
    )


# --- Events of a job's stream -----------------------------------------------------------------------------------------


class JobStreamFrame(EventModel):
    """Members of every event of a job's stream."""

    id: JobStreamId


class SnapshotEvent(JobStreamFrame):
    """The job as GET /jobs/{id} shows it: the first event of a stream without a Last-Event-ID."""

    event: Annotated[Literal["snapshot"], doc("Name of the event.", "snapshot")]
    data: Annotated[JobAnswer, doc("The job.")]


class JobCreatedEvent(JobStreamFrame):
    """The job was enqueued."""

    event: Annotated[Literal["job.created"], doc("Name of the event.", "job.created")]
    data: Annotated[JobCreatedData, doc("Data of the event.")]


class JobApprovedEvent(JobStreamFrame):
    """A person approved the job; its state is `pending` while others still have to."""

    event: Annotated[Literal["job.approved"], doc("Name of the event.", "job.approved")]
    data: Annotated[JobDecisionData, doc("Data of the event.")]


class JobClaimedEvent(JobStreamFrame):
    """A worker claimed the job and runs it."""

    event: Annotated[Literal["job.claimed"], doc("Name of the event.", "job.claimed")]
    data: Annotated[JobClaimedData, doc("Data of the event.")]


class JobProgressEvent(JobStreamFrame):
    """The handler reported progress; of several reports at once, the newest."""

    event: Annotated[Literal["job.progress"], doc("Name of the event.", "job.progress")]
    data: Annotated[JobProgressData, doc("Data of the event.")]


class JobLogEvent(JobStreamFrame):
    """The handler logged a line."""

    event: Annotated[Literal["job.log"], doc("Name of the event.", "job.log")]
    data: Annotated[JobLogData, doc("Data of the event.")]


class JobCancellingEvent(JobStreamFrame):
    """The job runs and was asked to stop."""

    event: Annotated[Literal["job.cancelling"], doc("Name of the event.", "job.cancelling")]
    data: Annotated[JobDecisionData, doc("Data of the event.")]


class JobRetryingEvent(JobStreamFrame):
    """The attempt ended and the job goes back to the queue."""

    event: Annotated[Literal["job.retrying"], doc("Name of the event.", "job.retrying")]
    data: Annotated[JobRequeuedData, doc("Data of the event.")]


class JobHeldEvent(JobStreamFrame):
    """The attempt ended and a person decides what follows."""

    event: Annotated[Literal["job.held"], doc("Name of the event.", "job.held")]
    data: Annotated[JobRequeuedData, doc("Data of the event.")]


class JobWaitingEvent(JobStreamFrame):
    """The handler waits for a signal and has given its slot back."""

    event: Annotated[Literal["job.waiting"], doc("Name of the event.", "job.waiting")]
    data: Annotated[JobWaitingData, doc("Data of the event.")]


class JobReleasedEvent(JobStreamFrame):
    """The signal came, or the time for it is over."""

    event: Annotated[Literal["job.released"], doc("Name of the event.", "job.released")]
    data: Annotated[JobEventData, doc("Data of the event.")]


class JobReopenedEvent(JobStreamFrame):
    """A person retries the ended job."""

    event: Annotated[Literal["job.reopened"], doc("Name of the event.", "job.reopened")]
    data: Annotated[JobDecisionData, doc("Data of the event.")]


class JobUpdatedEvent(JobStreamFrame):
    """The row changed in another way."""

    event: Annotated[Literal["job.updated"], doc("Name of the event.", "job.updated")]
    data: Annotated[JobUpdatedData, doc("Data of the event.")]


class JobEndedEvent(JobStreamFrame):
    """The job reached a final state, which the name repeats."""

    event: Annotated[
        Literal["job.completed", "job.completed_with_errors", "job.failed", "job.cancelled", "job.expired"],
        doc("Name of the event.", "job.completed"),
    ]
    data: Annotated[JobEndedData, doc("Data of the event.")]


class StreamEndEvent(JobStreamFrame):
    """Nothing follows; a client that comes back with this id gets 204."""

    event: Annotated[Literal["end"], doc("Name of the event.", "end")]
    data: Annotated[StreamEndData, doc("Data of the event.")]


class UnavailableEvent(EventModel):
    """The database cannot serve; the client should come back with the id it had."""

    event: Annotated[Literal["unavailable"], doc("Name of the event.", "unavailable")]
    data: Annotated[ProblemBody, doc("The problem.")]


JobStreamEvent = Annotated[
    SnapshotEvent
    | JobCreatedEvent
    | JobApprovedEvent
    | JobClaimedEvent
    | JobProgressEvent
    | JobLogEvent
    | JobCancellingEvent
    | JobRetryingEvent
    | JobHeldEvent
    | JobWaitingEvent
    | JobReleasedEvent
    | JobReopenedEvent
    | JobUpdatedEvent
    | JobEndedEvent
    | StreamEndEvent
    | UnavailableEvent,
    Field(discriminator="event"),
]
"""Every event of GET /jobs/{id}/stream."""


# --- Events of the feed -----------------------------------------------------------------------------------------------


class ChangedJobData(EventModel):
    """A job that changed, as it is now."""

    event: Annotated[
        str, doc("The last change: job.created, job.claimed, or job. and the state reached.", "job.claimed")
    ]
    id: fields.PublicId
    seq: Annotated[int, doc("Grows with each change of the job: ignore a change with a seq you have seen.", 2)]
    kind: fields.Kind
    state: fields.JobState
    attempt: fields.Attempt
    priority: fields.Priority
    lane: fields.LaneOrNull
    tenant: fields.TenantOrNull
    run_after: fields.RunAfter
    created_at: fields.CreatedAt
    claimed_at: fields.ClaimedAt
    finished_at: fields.FinishedAt


class FeedJobsData(EventModel):
    """Jobs that changed since the last event."""

    changes: Annotated[list[ChangedJobData], doc("Changed jobs, in no order between jobs.")]
    lag: Annotated[float, doc("Seconds that the oldest of these changes may have waited.", 0.502)]


class FeedLanesData(EventModel):
    """Every lane."""

    items: Annotated[list[LaneAnswer], doc("Lanes by name.")]


class FeedWorkersData(EventModel):
    """Every worker."""

    items: Annotated[list[WorkerAnswer], doc("Workers.")]


class FeedResyncData(EventModel):
    """Changes were left out."""

    reason: Annotated[str, doc("Why changes were left out.", "read too slowly")]


class FeedFrame(EventModel):
    """Members of every event of the feed."""

    id: FeedId = None


class FeedJobsEvent(FeedFrame):
    """Jobs that changed; sent twice a second at most."""

    event: Annotated[Literal["jobs"], doc("Name of the event.", "jobs")]
    data: Annotated[FeedJobsData, doc("Data of the event.")]


class FeedLanesEvent(FeedFrame):
    """Every lane: first, and whenever one of them changed."""

    event: Annotated[Literal["lanes"], doc("Name of the event.", "lanes")]
    data: Annotated[FeedLanesData, doc("Data of the event.")]


class FeedWorkersEvent(FeedFrame):
    """Every worker: first, and whenever one of them changed."""

    event: Annotated[Literal["workers"], doc("Name of the event.", "workers")]
    data: Annotated[FeedWorkersData, doc("Data of the event.")]


class FeedStatsEvent(FeedFrame):
    """The statistics of GET /stats/overview, every five seconds."""

    event: Annotated[Literal["stats"], doc("Name of the event.", "stats")]
    data: Annotated[OverviewAnswer, doc("The statistics.")]


class FeedSchedulesData(EventModel):
    """Every schedule that the caller may see."""

    items: Annotated[list[ScheduleAnswer], doc("Schedules by name.")]


class FeedSchedulesEvent(FeedFrame):
    """Every visible schedule: first, and whenever one of them fired, was paused or changed."""

    event: Annotated[Literal["schedules"], doc("Name of the event.", "schedules")]
    data: Annotated[FeedSchedulesData, doc("Data of the event.")]


class FeedOperationsData(EventModel):
    """The newest bulk operations that the caller may see."""

    items: Annotated[list[OperationAnswer], doc("At most 20, the newest first.")]


class FeedOperationsEvent(FeedFrame):
    """The newest bulk operations: first, and whenever one of them began, went on or ended."""

    event: Annotated[Literal["operations"], doc("Name of the event.", "operations")]
    data: Annotated[FeedOperationsData, doc("Data of the event.")]


class FeedResyncEvent(FeedFrame):
    """Changes were left out: fetch again what you show. The feed goes on."""

    event: Annotated[Literal["resync"], doc("Name of the event.", "resync")]
    data: Annotated[FeedResyncData, doc("Data of the event.")]


FeedStreamEvent = Annotated[
    FeedJobsEvent
    | FeedLanesEvent
    | FeedWorkersEvent
    | FeedStatsEvent
    | FeedSchedulesEvent
    | FeedOperationsEvent
    | FeedResyncEvent
    | UnavailableEvent,
    Field(discriminator="event"),
]
"""Every event of GET /events."""
