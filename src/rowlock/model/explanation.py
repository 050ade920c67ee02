"""Explanation: why a job is not running, in words for people and codes for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
class Explanation:
    """All reasons, the most decisive first. verdict: the first one as a sentence; str(): all of them."""

    job: Job
    verdict: str
    reasons: Sequence[Reason]

    @property
    def codes(self) -> list[str]:
        """The codes of the reasons, in their order."""
        return [reason.code for reason in self.reasons]

    @override
    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"  Also: {reason.text}" for reason in self.reasons[1:])])
