"""Operation: an order for many jobs, carried out in batches, and its progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast, get_args

from rowlock.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowlock.model.count import Count
    from rowlock.model.job import Job

Action: TypeAlias = Literal["cancel", "retry", "approve", "reject", "priority", "delete"]
ACTIONS: Final = get_args(Action)


@dataclass(frozen=True, slots=True)
class Operation:
    """A bulk order. state: preview (a dry run, id None), running, completed, failed or cancelled.

    count, samples: the jobs found by the dry run, or at the start. done: jobs that took the order; skipped: jobs that
    could not, or changed meanwhile; failed: jobs whose batch the database refused. filter_hash: send it back to carry
    out this very preview.
    """

    action: Action
    filter_hash: str
    state: str = "preview"
    id: int | None = None
    search: str | None = None
    count: Count | None = None
    samples: Sequence[Job] = ()
    priority: int | None = None
    expected_max: int | None = None
    done: int = 0
    skipped: int = 0
    failed: int = 0
    error: str | None = None
    by: str | None = None
    note: str | None = None
    created_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.state != "running"


def checked_action(action: str) -> Action:
    """Return the action if it is one."""
    if action not in ACTIONS:
        message = f"There is no bulk action {action!r}; there are {', '.join(ACTIONS)}."
        raise InvalidOption(message)
    return cast("Action", action)
