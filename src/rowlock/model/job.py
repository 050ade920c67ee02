"""Job and Claim: the row as users see it, and the right to write to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rowlock.model import ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from rowlock.model.progress import Progress
    from rowlock.model.state import State


class Claim(NamedTuple):
    """The right to write to a running job; the fence tells this attempt from every other."""

    job_id: int
    fence: int


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job about to be enqueued, but for its arguments: every option is checked."""

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
    """The name under which its keys are unique: the kind's, or its first one when it was renamed."""
    gate_key: str | None = None
    tags: tuple[str, ...] | None = None
    refs: str | None = None
    meta: str | None = None
    rate_keys: tuple[str, ...] | None = None
    rate_weight: int = 1


@dataclass(frozen=True, slots=True)
class Attempt:
    """One earlier run that the job's own row cannot tell."""

    fence: int
    attempt: int | None
    worker: str | None
    started_at: datetime | None
    ended_at: datetime
    outcome: str
    error: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Act:
    """What a person ordered, when and why."""

    at: datetime
    verb: str
    by: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stood when it was read; args and result are decoded JSON with secrets redacted.

    args: what was given. A default of the handler's is not stored with them, as it is the code's and may change with
    it; `ctx.job` has it.
    """

    id: int
    kind: str
    state: State
    priority: int
    attempt: int
    max_attempts: int
    created_at: datetime
    run_after: datetime
    fence: int = 0
    seq: int = 0
    losses: int = 0
    lane: str | None = None
    worker: str | None = None
    tenant: str | None = None
    submitted_by: str | None = None
    claimed_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    too_old_at: datetime | None = None
    cancel_requested: bool = False
    unique_key: str | None = None
    gate_key: str | None = None
    tags: Sequence[str] = ()
    refs: Mapping[str, object] = field(default_factory=dict)
    meta: Mapping[str, object] = field(default_factory=dict)
    args: Mapping[str, object] = field(default_factory=dict)
    args_version: int = 1
    result: object = None
    errors: Mapping[str, object] | None = None
    progress: Progress | None = None
    last_progress_at: datetime | None = None
    """When the attempt last reported anything, a log line included."""
    workflow_id: int | None = None
    step: str | None = None
    """Its name in that workflow."""

    @property
    def public_id(self) -> str:
        """The id to show to people: Crockford Base32 with a check symbol."""
        return ids.encode(self.id)

    @property
    def workflow(self) -> str | None:
        """The public id of the workflow it is a step of."""
        return None if self.workflow_id is None else ids.encode_workflow(self.workflow_id)

    @property
    def is_final(self) -> bool:
        """Whether only a person's retry leads on from here."""
        return self.state.is_final
