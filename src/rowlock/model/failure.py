"""Failure: what went wrong, as on_failure and on_exhausted hooks receive it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, or why its job ended. Secrets of the job's arguments are removed.

    reason      "failed" (an attempt, another follows), "attempts exhausted", "not retried", "quarantined",
                "worker lost", "too old", "expired", "undecodable", …
    type        the exception's class, module included; None when there was no exception
    traceback   as Python prints it, shortened; None when there was no exception
    attempt     the attempt that failed, 1 for the first; 0 when the job never ran
    """

    reason: str
    message: str
    attempt: int
    type: str | None = None
    traceback: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None, attempt: int) -> Self:
        """Make a failure of the error that is stored with a job."""
        about = stored or {}
        reason = str(about.get("reason") or "failed")
        return cls(reason, str(about.get("message") or reason), attempt, about.get("type"), about.get("traceback"))
