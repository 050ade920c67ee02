"""Explanation: why a job is not running, in words for people and codes for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from rowlock.model.count import Count
    from rowlock.model.job import Job


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason. code: stable, for programs; details: the numbers, ids and instants behind the text."""

    code: str
    text: str
    details: Mapping[str, object] = field(default_factory=dict)

    @override
    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Where a due job stands. before: due jobs that its lane starts first, counted up to 1,000.

    start_in: about how long until it starts, at the lane's pace of the last ten minutes; None: not to be said.
    Neither knows jobs that come later with a higher priority, nor gates, rates and caps that hold jobs back.
    """

    before: Count
    lane: str
    start_in: timedelta | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """All reasons, the most decisive first. verdict: the first one as a sentence; str(): all of them."""

    job: Job
    verdict: str
    reasons: Sequence[Reason]
    position: QueuePosition | None = None
    """None: the job is not queued and due, no lane serves its kind, or the lane is fair."""

    @property
    def codes(self) -> list[str]:
        """The codes of the reasons, in their order."""
        return [reason.code for reason in self.reasons]

    @override
    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"  Also: {reason.text}" for reason in self.reasons[1:])])
