"""Jobs as the holder of an embed token sees them: state and progress, and what the token shows besides."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, doc
from rowlock.api.schemas.events import (
    EventModel,
    JobLogEvent,
    JobProgressEvent,
    JobStreamFrame,
    StreamEndEvent,
    UnavailableEvent,
)
from rowlock.api.schemas.fields import INSTANT, LATER
from rowlock.api.schemas.job_details import PositionAnswer
from rowlock.api.schemas.jobs import ProgressAnswer
from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock.model.embed_token import EmbedGrant
    from rowlock.model.explanation import QueuePosition
    from rowlock.model.job import Job


class EmbeddedJobAnswer(Answer):
    """A job for a page of the application's own users. Arguments, labels, lane and worker are never shown."""

    id: fields.PublicId
    kind: fields.Kind
    state: fields.JobState
    attempt: fields.Attempt
    max_attempts: fields.MaxAttempts
    created_at: fields.CreatedAt
    run_after: fields.RunAfter
    claimed_at: fields.ClaimedAt
    finished_at: fields.FinishedAt
    cancel_requested: fields.CancelRequested
    progress: Annotated[ProgressAnswer | None, doc("Last progress report of the attempt; null: none.")]
    result: Annotated[Any, doc("Return value of the handler; null also where the token does not show it.", None)]
    error: Annotated[
        dict[str, Any] | None, doc("Error of the last attempt; null also where the token does not show it.", None)
    ]
    position: Annotated[
        PositionAnswer | None,
        doc("Its place in the queue; null: it waits for no worker. Not in lists and streams."),
    ]
    may_cancel: Annotated[bool, doc("Whether the token allows to cancel it, and it has not ended.", True)]

    @classmethod
    def of(cls, job: Job, grant: EmbedGrant, position: QueuePosition | None = None) -> EmbeddedJobAnswer:
        """From the desk's value, and what the token shows of it."""
        return cls(
            id=job.public_id,
            kind=job.kind,
            state=job.state,
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            created_at=job.created_at,
            run_after=job.run_after,
            claimed_at=job.claimed_at,
            finished_at=job.finished_at,
            cancel_requested=job.cancel_requested,
            progress=None if job.progress is None else ProgressAnswer.of(job.progress),
            result=job.result if "result" in grant.show else None,
            error=dict(job.errors) if job.errors and "error" in grant.show else None,
            position=None if position is None else PositionAnswer.of(position),
            may_cancel=grant.may_cancel and not job.is_final,
        )


class EmbeddedJobsAnswer(Answer):
    """A page of a person's own jobs, newest first."""

    items: Annotated[list[EmbeddedJobAnswer], doc("Jobs of this page.")]
    before: Annotated[str | None, doc("Send it back for the next page; null: this is the last one.", fields.JOB_ID)]


class EmbeddedStateData(EventModel):
    """The job came into another state, or will start at another time."""

    id: fields.PublicId
    kind: fields.Kind
    at: Annotated[datetime | None, doc("When it happened; absent: unknown.", INSTANT)] = None
    state: Annotated[State | None, doc("State of the job; absent: unchanged.", "running")] = None
    attempt: Annotated[int | None, doc("Number of the attempt; absent: unchanged or unknown.", 1)] = None
    run_after: Annotated[datetime | None, doc("The job starts no sooner; absent: unchanged.", LATER)] = None
    error: Annotated[
        dict[str, Any] | None, doc("Error of the attempt; absent also where the token does not show it.", fields.ERROR)
    ] = None


class EmbeddedSnapshotEvent(JobStreamFrame):
    """The job as it stands; the first event without Last-Event-ID."""

    event: Annotated[Literal["snapshot"], doc("Name of the event.", "snapshot")]
    data: Annotated[EmbeddedJobAnswer, doc("Data of the event.")]


class EmbeddedStateEvent(JobStreamFrame):
    """Any other change, under the name that it has in the stream of the job."""

    event: Annotated[
        Literal[
            "job.created",
            "job.approved",
            "job.claimed",
            "job.cancelling",
            "job.retrying",
            "job.waiting",
            "job.released",
            "job.held",
            "job.reopened",
            "job.updated",
            "job.completed",
            "job.completed_with_errors",
            "job.failed",
            "job.cancelled",
            "job.expired",
        ],
        doc("Name of the event.", "job.claimed"),
    ]
    data: Annotated[EmbeddedStateData, doc("Data of the event.")]


EmbeddedStreamEvent = Annotated[
    EmbeddedSnapshotEvent | JobProgressEvent | JobLogEvent | EmbeddedStateEvent | StreamEndEvent | UnavailableEvent,
    Field(discriminator="event"),
]
"""Every event of GET /embed/jobs/{id}/stream; log lines only where the token shows them."""
