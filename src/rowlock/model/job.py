"""Job: a row as users see it. Claim: the right to write to a running one. NewJob: one about to be enqueued."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from rowlock.model import ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from rowlock.model.progress import Progress
    from rowlock.model.state import State


class Claim(NamedTuple):
    """The right to write to a running job; every transition raises the fence, so an old claim is refused."""

    job_id: int
    fence: int


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job about to be enqueued, without its arguments; its options are checked already."""

    kind: str
    priority: int = 0
    share: int = 0
    approval: int = 0
    """0: not needed; else the code of an Approval."""
    answer_in: timedelta | None = None
    run_at: datetime | None = None
    run_in: timedelta | None = None
    expires_in: timedelta | None = None
    max_age: timedelta | None = None
    max_attempts: int = 5
    tenant: str | None = None
    submitted_by: str | None = None
    unique_key: str | None = None
    unique_scope: str | None = None
    on_conflict: str = "keep"
    max_wait: timedelta | None = None
    idempotency_key: str | None = None
    keep_key: timedelta | None = None
    scope: str | None = None
    """The name under which its keys are unique: the kind's first name, if it was renamed."""
    gate_key: str | None = None
    tags: tuple[str, ...] | None = None
    refs: str | None = None
    meta: str | None = None
    rate_keys: tuple[str, ...] | None = None
    rate_weight: int = 1


@dataclass(frozen=True, slots=True)
class Attempt:
    """An earlier attempt that the job's own row does not describe."""

    fence: int
    attempt: int | None
    worker: str | None
    started_at: datetime | None
    ended_at: datetime
    outcome: str
    error: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Relative:
    """A job beside another one.

    relation: the other waits for it (parent) or is waited for by it (child); it is a hook after an outcome of the other
    (hook), or the job after whose outcome the other runs as a hook (hooked).
    met: whether the child got what it waited for; None: not known yet, or a hook.
    """

    relation: str
    id: int
    kind: str
    state: State
    step: str | None
    met: bool | None


@dataclass(frozen=True, slots=True)
class Act:
    """An order that a person gave to a job. by: the person; note: the reason given."""

    at: datetime
    verb: str
    by: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Job:
    """A copy of a job's row as it was when it was read; args and result are decoded JSON with secrets redacted.

    The default of a parameter belongs to the code and may change with it, so it is not stored: args has it in
    `ctx.job` alone.
    """

    id: int
    """Number of the job; numbers of jobs rise but have gaps."""
    kind: str
    """Name of what to do."""
    state: State
    """Where the job is in its life."""
    priority: int
    """-100 to 100, higher first."""
    attempt: int
    """Attempts counted so far, the running one included."""
    max_attempts: int
    """Attempts the job may use."""
    created_at: datetime
    """When it was enqueued."""
    run_after: datetime
    """It may start from this moment on; also its position in the queue."""
    fence: int = 0
    """Raised by one on every transition; a claim is the pair of id and fence."""
    seq: int = 0
    """Raised by one on every change of the row; orders the job's own stream of events."""
    losses: int = 0
    """Times it was lost: its worker died or fell silent, its child process died, or it made no progress."""
    runs: int = 0
    """Times a worker claimed it to run it, this run included. Only grows, unlike attempt, which a loss, a snooze or a
    shutdown does not raise, and a retry by a person sets back to 0."""
    lane: str | None = None
    """Lane that claimed it; None while it waits."""
    worker: str | None = None
    """Name of the worker that runs it or ran it last."""
    tenant: str | None = None
    """Tenant it belongs to."""
    submitted_by: str | None = None
    """Subject that submitted it."""
    claimed_at: datetime | None = None
    """When its current or last attempt was claimed."""
    finished_at: datetime | None = None
    """When it reached a final state."""
    expires_at: datetime | None = None
    """It ends as expired if it still waits at this moment."""
    too_old_at: datetime | None = None
    """It is ended at this moment in any state, running included (`max_age`)."""
    cancel_requested: bool = False
    """Whether it runs and was asked to stop."""
    unique_key: str | None = None
    """Its unique key, with the kind or `*` in front."""
    gate_key: str | None = None
    """Gate it passes before it runs."""
    tags: Sequence[str] = ()
    """Labels to search by."""
    refs: Mapping[str, object] = field(default_factory=dict)
    """References to the application's own objects, to search by."""
    meta: Mapping[str, object] = field(default_factory=dict)
    """Free JSON of the application."""
    args: Mapping[str, object] = field(default_factory=dict)
    """Arguments as they were given to enqueue(), secrets redacted."""
    args_version: int = 1
    """Version of the arguments, as `version=` of the kind that encoded them."""
    result: object = None
    """What the handler returned."""
    errors: Mapping[str, object] | None = None
    """Last error, or the collected errors of a job that completed with errors."""
    progress: Progress | None = None
    """Phase, counters and items that the job reported; None: nothing."""
    last_progress_at: datetime | None = None
    """When the attempt last reported anything, a log line included."""
    workflow_id: int | None = None
    """Number of the workflow it is a step of."""
    step: str | None = None
    """Name of the step in that workflow."""
    backend_job_id: str | None = None
    """Id that its carrier, such as arq or Celery, gave to its newest message; None: PostgreSQL delivers it."""

    @property
    def public_id(self) -> str:
        """The id to show to people: Crockford Base32 with a check symbol."""
        return ids.encode(self.id)

    @property
    def workflow(self) -> str | None:
        """Public id of the workflow it is a step of."""
        return None if self.workflow_id is None else ids.encode_workflow(self.workflow_id)

    @property
    def is_final(self) -> bool:
        """Whether it has ended; only a retry by a person leads on."""
        return self.state.is_final

    def without_content(self) -> Job:
        """The job for a caller that may give it orders and may not read it: without owner, labels, values and keys."""
        return replace(
            self,
            tenant=None,
            submitted_by=None,
            unique_key=None,
            gate_key=None,
            tags=(),
            refs={},
            meta={},
            args={},
            result=None,
            errors=None,
            progress=None,
        )
