"""FailureGroup: failures with the same cause, over retries and ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

FailureSort: TypeAlias = Literal["recent", "count", "new"]
"""The order of groups: last failure first, most failures within the window first, or newest group first."""
MOST_GROUPS: Final = 500
"""Failure groups of one kind, counted once per tenant; further failures of the kind are one group, (other)."""
FAILURE_SORTS: Final[tuple[FailureSort, ...]] = ("recent", "count", "new")


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures of one kind with the same class, message and function; what differs in messages is left out.

    failed: jobs that failed for good; retried: attempts after which the job was tried again.
    within: failures within the window, by step in `steps`. other: everything beyond the most groups of a kind.
    error: a sample with reason, type, message, frame and, of a single group, the traceback; None: it is gone.
    """

    fingerprint: str
    kind: str
    message: str | None
    first_seen: datetime
    last_seen: datetime
    failed: int
    retried: int
    within: int
    last_job_id: int | None
    error: Mapping[str, object] | None = field(repr=False)
    muted_at: datetime | None = None
    muted_by: str | None = None
    note: str | None = None
    other: bool = False
    steps: Sequence[int] = ()

    @property
    def is_muted(self) -> bool:
        """Whether a person has muted it."""
        return self.muted_at is not None


@dataclass(frozen=True, slots=True)
class FailureGroups:
    """Groups with failures within a window. since: beginning of the first step; step: length of each."""

    since: datetime
    step: timedelta
    groups: Sequence[FailureGroup]
