"""Approval: whether people must approve a job before it runs, how many, and by when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from rowlock.errors import ConfigurationError
from rowlock.model.times.duration import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from rowlock.model.times.duration import Duration

ArgsMatch: TypeAlias = Literal["exact", "contains"]
_MOST: Final = 100
_NEEDED, _FOUR_EYES, _MORE = 1, 4, 3


@dataclass(frozen=True, slots=True)
class Approval:
    """The approval that a job needs before it may run."""

    approvers: int = 1
    """People who must approve, 1 to 100."""
    four_eyes: bool | None = None
    """Whether the submitter's own approval is refused. None: to callers with permissions, over REST; True: to the
    library and the command line too, which must then name submitter and approver; False: to nobody."""
    expires_in: Duration | None = None
    """Time they have; a job that is not answered in time ends as expired. None: no limit."""

    def __post_init__(self) -> None:
        if not isinstance(self.approvers, int) or not 1 <= self.approvers <= _MOST:
            message = f"approvers must be from 1 to {_MOST}; got {self.approvers!r}."
            raise ConfigurationError(message)
        if self.answer_in is not None and not self.answer_in:
            message = "expires_in of an approval must leave some time to answer; got 0."
            raise ConfigurationError(message)

    @property
    def answer_in(self) -> timedelta | None:
        """expires_in as a timedelta."""
        return None if self.expires_in is None else duration(self.expires_in, "expires_in")

    @property
    def code(self) -> int:
        """As the column jobs.approval stores it: bit 0 needed, bit 2 four eyes, from bit 3 how many beyond one."""
        return _NEEDED | (_FOUR_EYES if self.four_eyes else 0) | ((self.approvers - 1) << _MORE)

    @property
    def stored(self) -> list[object]:
        """Its values as a JSON list."""
        seconds = None if self.answer_in is None else self.answer_in.total_seconds()
        return [self.approvers, self.four_eyes, seconds]

    @classmethod
    def of(cls, code: int, expires_in: Duration | None = None) -> Approval:
        """The approval that a stored code stands for."""
        return cls((code >> _MORE) + 1, True if code & _FOUR_EYES else None, expires_in)


def demanded(*asked: bool | Approval) -> Approval | None:
    """The strictest combination of several demands; None: none of them demands approval."""
    demands = [Approval() if one is True else one for one in asked if one]
    if not demands:
        return None
    times = [one.answer_in for one in demands if isinstance(one, Approval) and one.answer_in is not None]
    given = [one for one in demands if isinstance(one, Approval)]
    return Approval(
        max(one.approvers for one in given),
        True if any(one.four_eyes for one in given) else given[0].four_eyes,
        min(times) if times else None,
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """An approval in advance for jobs that match every field it sets. It counts as given by `created_by`."""

    id: int
    kind: str | None
    submitted_by: str | None
    tenant: str | None
    args: Mapping[str, object] | None
    note: str | None
    created_by: str | None
    created_at: datetime
    args_match: ArgsMatch = "exact"
    """exact: the arguments that the rule names have these very values; contains: they contain them."""


@dataclass(frozen=True, slots=True)
class ApprovalStatus:
    """Who has approved a pending job so far. answer_by: when it expires unanswered."""

    approval: Approval
    approvers: Sequence[str]
    answer_by: datetime | None
