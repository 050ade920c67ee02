"""Shapes: jobs as the wire has them. Ids are public ones, instants RFC 3339 in UTC, durations seconds."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from rowlock.model import ids
from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock.model.count import Count
    from rowlock.model.explanation import Explanation
    from rowlock.model.job import Act, Attempt, Job
    from rowlock.model.progress import Progress

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"^[^\x00]*$")]
"""A key or label that PostgreSQL can store."""
Note = Annotated[str, StringConstraints(max_length=10_000, pattern=r"^[^\x00]*$")]
Seconds = Annotated[float, Field(ge=0, le=10 * 366 * 86_400)]
Priority = Annotated[int, Field(ge=-100, le=100)]


class Answer(BaseModel):
    """A body that goes out."""


class Body(BaseModel):
    """A body that comes in: what it does not know is refused."""

    model_config = ConfigDict(extra="forbid")


class PhaseAnswer(Answer):
    """A named part of an attempt. ended_at null: it is under way, or the attempt ended within it."""

    name: str
    started_at: datetime | None
    ended_at: datetime | None
    done: float
    total: float | None


class ItemCountsAnswer(Answer):
    """How many items are where. total null: the handler did not say how many there will be."""

    in_progress: int
    completed: int
    skipped: int
    failed: int
    total: int | None


class ProgressAnswer(Answer):
    """What the attempt reported last. total null: unknown; rate: units a second; eta_s: until the phase's end."""

    phase: str | None
    done: float
    total: float | None
    fraction: float | None
    rate: float | None
    eta_s: float | None
    message: str | None
    reported_at: datetime | None
    phases: list[PhaseAnswer]
    items: ItemCountsAnswer | None

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
            eta_s=None if progress.eta is None else progress.eta.total_seconds(),
            message=progress.message,
            reported_at=progress.reported_at,
            phases=[PhaseAnswer.model_validate(phase, from_attributes=True) for phase in progress.phases],
            items=None if counts is None else ItemCountsAnswer.model_validate(counts, from_attributes=True),
        )


class JobAnswer(Answer):
    """A job as it stood when it was read."""

    id: str = Field(examples=[ids.encode(1)])
    kind: str
    state: State
    priority: int
    attempt: int
    max_attempts: int
    lane: str | None
    worker: str | None
    tenant: str | None
    submitted_by: str | None
    created_at: datetime
    run_after: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    too_old_at: datetime | None
    cancel_requested: bool
    unique_key: str | None
    gate_key: str | None
    tags: list[str]
    refs: dict[str, Any]
    meta: dict[str, Any]
    args: dict[str, Any]
    result: Any
    errors: dict[str, Any] | None
    progress: ProgressAnswer | None
    workflow: str | None = Field(description="The workflow it is a step of.")
    step: str | None = Field(description="Its name there.")

    @classmethod
    def of(cls, job: Job, **more: object) -> JobAnswer:
        """From the desk's value; secrets are redacted there."""
        values = {name: getattr(job, name) for name in cls.model_fields if name not in {*more, "id", "progress"}}
        progress = None if job.progress is None else ProgressAnswer.of(job.progress)
        return cls.model_validate({**values, **more, "id": job.public_id, "progress": progress})


class SubmittedAnswer(JobAnswer):
    """The job that a submission made. deduplicated: it was there already, under the unique_key."""

    deduplicated: bool = False


class CountAnswer(Answer):
    """How many. exact false: counting stopped there, so it is at least this many."""

    value: int
    exact: bool

    @classmethod
    def of(cls, count: Count) -> CountAnswer:
        """From the desk's value."""
        return cls(value=count.value, exact=not count.capped)


class AttemptAnswer(Answer):
    """One earlier run that the job itself does not tell of."""

    attempt: int | None
    worker: str | None
    started_at: datetime | None
    ended_at: datetime
    outcome: str
    error: dict[str, Any] | None

    @classmethod
    def of(cls, attempt: Attempt) -> AttemptAnswer:
        """From the desk's value."""
        return cls.model_validate(attempt, from_attributes=True)


class ActAnswer(Answer):
    """What a person ordered."""

    at: datetime
    verb: str
    by: str | None
    note: str | None

    @classmethod
    def of(cls, act: Act) -> ActAnswer:
        """From the desk's value."""
        return cls.model_validate(act, from_attributes=True)


class AttemptsAnswer(Answer):
    """Earlier runs, and what people ordered, the oldest first."""

    attempts: list[AttemptAnswer]
    acts: list[ActAnswer]


class ReasonAnswer(Answer):
    """One thing that holds. code: stable, for programs."""

    code: str
    text: str
    details: dict[str, Any]


class ExplanationAnswer(Answer):
    """Why a job is not running: every reason that holds, the most decisive first."""

    job_id: str
    verdict: str
    reasons: list[ReasonAnswer]

    @classmethod
    def of(cls, explanation: Explanation) -> ExplanationAnswer:
        """From the desk's value."""
        return cls(
            job_id=explanation.job.public_id,
            verdict=explanation.verdict,
            reasons=[
                ReasonAnswer(
                    code=reason.code,
                    text=reason.text,
                    details={key: _wire(value) for key, value in reason.details.items()},
                )
                for reason in explanation.reasons
            ],
        )


def _wire(value: object) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value


class Submission(Body):
    """A new job: what to do, and how. tenant and submitted_by are the caller's unless it may act for others."""

    kind: Text
    args: dict[str, Any] = Field(default_factory=dict)
    priority: Priority | None = None
    run_at: datetime | None = Field(default=None, description="Not before then; with a time zone.")
    run_in_s: Seconds | None = None
    expires_in_s: Seconds | None = None
    max_age_s: Seconds | None = None
    max_attempts: Annotated[int, Field(ge=1, le=32_767)] | None = None
    unique_key: Text | None = None
    unique_scope: Literal["live", "waiting"] = "live"
    on_conflict: Literal["reject", "keep", "replace", "debounce"] = "keep"
    max_wait_s: Seconds | None = None
    gate: Text | None = None
    tags: Annotated[list[Text], Field(max_length=100)] | None = None
    refs: dict[Text, Any] | None = None
    meta: dict[str, Any] | None = None
    approval: bool = Field(default=False, description="Demand a person's approval; false never waives the kind's.")
    tenant: Text | None = None
    submitted_by: Text | None = None


class JobChange(Body):
    """What is to change of a job that waits; what is left out or null stays. args and tags replace all there were."""

    args: dict[str, Any] | None = None
    run_after: datetime | None = Field(default=None, description="Not before then; with a time zone. Past: now.")
    run_in_s: Seconds | None = None
    tags: Annotated[list[Text], Field(max_length=100)] | None = None
    priority: Priority | None = None
    note: Note | None = None


class Order(Body):
    """What a person adds to an order."""

    note: Note | None = None


class CancelOrder(Order):
    """stop: end it now, whatever its handler does; the late result is refused."""

    stop: bool = False


class PriorityOrder(Order):
    """Another place in the queue."""

    priority: Priority
