"""Jobs and pages of jobs in answers, and the bodies that submit or change a job."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, Body, doc, seconds
from rowlock.api.schemas.fields import INSTANT, CountAnswer, Duration, NoteText, PriorityNumber, Text

if TYPE_CHECKING:
    from rowlock.model.job import Job
    from rowlock.model.page import Page
    from rowlock.model.progress import Progress

NoteField = Annotated[NoteText | None, doc("Note for the history and the audit; null: none.", "requested by finance")]
PriorityField = Annotated[PriorityNumber | None, doc("Priority from -100 to 100; null: that of the kind.", 10)]
TagsField = Annotated[fields.TagList | None, doc("Tags; null: none.", ["nightly"])]
RunInField = Annotated[Duration | None, doc("Start no sooner than this long from now; null: at once.", "10m")]
ExpiresInField = Annotated[
    Duration | None, doc("The job expires when it has not started this long after it was due; null: never.", "1h")
]
MaxAgeField = Annotated[
    Duration | None, doc("The job ends, even while it runs, this long after it was submitted; null: never.", "24h")
]
MaxAttemptsField = Annotated[
    int | None, doc("Attempts before the job fails for good; null: that of the kind.", 5, ge=1, le=32_767)
]
MetaField = Annotated[dict[str, Any] | None, doc("Free JSON that Rowlock stores; null: none.", {"source": "web"})]


class PhaseAnswer(Answer):
    """A named part of an attempt."""

    name: Annotated[str, doc("Name that the handler gave the phase.", "render")]
    started_at: Annotated[datetime | None, doc("When the phase began; null: unknown.", INSTANT)]
    ended_at: Annotated[datetime | None, doc("When it ended; null: it is under way or the attempt ended in it.", None)]
    done: Annotated[float, doc("How many units of the phase are done.", 30)]
    total: Annotated[float | None, doc("How many units the phase has; null: unknown.", 120)]


class ItemCountsAnswer(Answer):
    """How many items of a job are in which state."""

    in_progress: Annotated[int, doc("Items that were begun and have not ended.", 2)]
    completed: Annotated[int, doc("Items that are completed.", 30)]
    skipped: Annotated[int, doc("Items that needed nothing done.", 1)]
    failed: Annotated[int, doc("Items that failed.", 0)]
    total: Annotated[int | None, doc("All items; null: the handler did not say how many there will be.", 120)]


class ProgressAnswer(Answer):
    """The last progress report of an attempt."""

    phase: Annotated[str | None, doc("Name of the current phase; null: none.", "render")]
    done: Annotated[float, doc("How many units of the current phase are done.", 30)]
    total: Annotated[float | None, doc("How many units the current phase has; null: unknown.", 120)]
    fraction: Annotated[float | None, doc("done / total, from 0 to 1; null: the total is unknown.", 0.25)]
    rate: Annotated[float | None, doc("Units per second since the phase began; null: unknown.", 2.5)]
    eta: Annotated[float | None, doc("Seconds until the current phase ends at that rate; null: unknown.", 36.0)]
    message: Annotated[str | None, doc("Last message of the handler; null: none.", "page 30 of 120")]
    reported_at: Annotated[datetime | None, doc("When the handler reported this; null: unknown.", INSTANT)]
    phases: Annotated[list[PhaseAnswer], doc("All phases of the attempt so far, the current one last.")]
    items: Annotated[ItemCountsAnswer | None, doc("Counts of the job's items; null: it reported none.")]

    @classmethod
    def of(cls, progress: Progress) -> ProgressAnswer:
        """From the desk's value."""
        counts = progress.items
        return cls(
            phase=progress.phase,
            done=progress.done,
            total=progress.total,
            fraction=progress.fraction,
            rate=progress.rate,
            eta=seconds(progress.eta),
            message=progress.message,
            reported_at=progress.reported_at,
            phases=[PhaseAnswer.model_validate(phase, from_attributes=True) for phase in progress.phases],
            items=None if counts is None else ItemCountsAnswer.model_validate(counts, from_attributes=True),
        )


class JobAnswer(Answer):
    """A job as it stood when it was read."""

    id: fields.PublicId
    kind: fields.Kind
    state: fields.JobState
    priority: fields.Priority
    attempt: fields.Attempt
    max_attempts: fields.MaxAttempts
    losses: fields.Losses
    runs: fields.Runs
    lane: fields.LaneOrNull
    worker: fields.WorkerOrNull
    tenant: fields.TenantOrNull
    submitted_by: fields.SubmitterOrNull
    created_at: fields.CreatedAt
    run_after: fields.RunAfter
    claimed_at: fields.ClaimedAt
    finished_at: fields.FinishedAt
    expires_at: Annotated[
        datetime | None, doc("A job that has not started by then expires; null: it never does.", "2026-03-01T10:30:00Z")
    ]
    too_old_at: Annotated[
        datetime | None, doc("The job ends then, even while it runs; null: no limit.", "2026-03-02T09:30:00Z")
    ]
    cancel_requested: fields.CancelRequested
    unique_key: fields.UniqueKeyOrNull
    gate_key: Annotated[str | None, doc("Key of the gate that limits how many run at once; null: none.", "org:7")]
    tags: fields.Tags
    refs: fields.Refs
    meta: fields.Meta
    args: fields.Args
    result: Annotated[Any, doc("Return value of the handler as JSON; null until the job has completed.", {"pages": 3})]
    errors: Annotated[
        dict[str, Any] | None, doc("Error of the last attempt, or those collected by items; null: none.", fields.ERROR)
    ]
    progress: Annotated[ProgressAnswer | None, doc("Last progress report of the attempt; null: none.")]
    workflow: Annotated[
        str | None, doc("Public id of the workflow that the job is a step of; null: none.", fields.WORKFLOW_ID)
    ]
    step: Annotated[str | None, doc("Name of the step in that workflow; null: it is no step.", "render")]
    backend_job_id: Annotated[
        str | None,
        doc("Id that its carrier gave to its newest message; null: PostgreSQL delivers it.", fields.BACKEND_ID),
    ]

    @classmethod
    def of(cls, job: Job, **more: object) -> JobAnswer:
        """From the desk's value, where secrets are masked. more: fields of a subclass."""
        values = {name: getattr(job, name) for name in cls.model_fields if name not in {*more, "id", "progress"}}
        progress = None if job.progress is None else ProgressAnswer.of(job.progress)
        return cls.model_validate({**values, **more, "id": job.public_id, "progress": progress})


class SubmittedAnswer(JobAnswer):
    """The job of a submission."""

    deduplicated: Annotated[bool, doc("True: a job with this unique_key existed, and this is it.", False)]


class JobsAnswer(Answer):
    """A page of jobs."""

    items: Annotated[list[JobAnswer], doc("Jobs of this page.")]
    next_cursor: fields.NextCursor
    prev_cursor: Annotated[str | None, doc("Cursor of the previous page; null: this is the first one.", None)]
    count: Annotated[CountAnswer, doc("How many jobs the search finds in all.", {"value": 1200, "exact": True})]
    cut_off: Annotated[
        bool, doc("True: the search stopped before it had read every job; next_cursor continues it.", False)
    ]
    suggestion: Annotated[
        str | None, doc("A corrected search, when nothing was found and a word looks mistyped; null: none.", None)
    ]

    @classmethod
    def of(cls, page: Page) -> JobsAnswer:
        """From the desk's value."""
        return cls(
            items=[JobAnswer.of(job) for job in page.items],
            next_cursor=page.next,
            prev_cursor=page.previous,
            count=CountAnswer.of(page.count),
            cut_off=page.cut_off,
            suggestion=page.suggestion,
        )


class Submission(Body):
    """A new job. Only `kind` is required; every other field has the default of the kind or the one named."""

    kind: Annotated[Text, doc("Kind of the job.", "send_invoice")]
    args: Annotated[dict[str, Any], doc("Arguments by name; default: none.", {"order_id": 42})] = Field(
        default_factory=dict
    )
    priority: PriorityField = None
    run_at: Annotated[
        datetime | None, doc("Start no sooner than this instant, with a time zone; null: now.", INSTANT)
    ] = None
    run_in: RunInField = None
    expires_in: ExpiresInField = None
    max_age: MaxAgeField = None
    max_attempts: MaxAttemptsField = None
    unique_key: Annotated[
        Text | None, doc("No two live jobs of the kind share this key; null: none.", "invoice:42")
    ] = None
    unique_scope: Annotated[
        Literal["live", "waiting"], doc("Whether running jobs (live) or only waiting ones hold the unique_key.", "live")
    ] = "live"
    on_conflict: Annotated[
        Literal["reject", "keep", "replace", "debounce"],
        doc("What happens when the unique_key is taken: 409, the existing job, a replacement, or a delay.", "keep"),
    ] = "keep"
    max_wait: Annotated[
        Duration | None, doc("With debounce: run at the latest this long after the first call; null: no limit.", "5m")
    ] = None
    gate: Annotated[Text | None, doc("Gate that limits how many jobs of one key run at once; null: none.", "org:7")] = (
        None
    )
    tags: TagsField = None
    refs: Annotated[dict[Text, Any] | None, doc("References to your own objects; null: none.", {"project": 7})] = None
    meta: MetaField = None
    approval: Annotated[bool, doc("True: a person must approve the job; false keeps the rule of the kind.", False)] = (
        False
    )
    tenant: Annotated[Text | None, doc("Tenant; null: that of the caller. Others need jobs:submit_as.", "acme")] = None
    submitted_by: Annotated[
        Text | None, doc("Submitter; null: the caller. Others need jobs:submit_as.", "ada@example.com")
    ] = None


class JobChange(Body):
    """Changes to a waiting job. Absent and null fields stay as they are."""

    args: Annotated[
        dict[str, Any] | None, doc("All arguments, replacing the old ones; null: unchanged.", {"order_id": 43})
    ] = None
    run_after: Annotated[
        datetime | None, doc("Start no sooner than this instant; past: now; null: unchanged.", INSTANT)
    ] = None
    run_in: Annotated[Duration | None, doc("Start no sooner than this long from now; null: unchanged.", "10m")] = None
    tags: Annotated[fields.TagList | None, doc("All tags, replacing the old ones; null: unchanged.", ["nightly"])] = (
        None
    )
    priority: Annotated[PriorityNumber | None, doc("Priority from -100 to 100; null: unchanged.", 10)] = None
    note: NoteField = None
