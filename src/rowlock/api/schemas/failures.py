"""Failure groups."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, Body, doc
from rowlock.api.schemas.fields import INSTANT, LATER, NoteText
from rowlock.model import ids

if TYPE_CHECKING:
    from rowlock.model.failure_group import FailureGroup, FailureGroups

FINGERPRINT = "4f0c1d2e9ab83c77"


class FailureGroupAnswer(Answer):
    """Failures with the same cause: one kind, class, message (without what differs) and function of the application."""

    fingerprint: Annotated[str, doc("Name of the group; a search finds its jobs by it.", FINGERPRINT)]
    kind: fields.Kind
    state: Annotated[Literal["open", "muted"], doc("`muted`: a person has set it aside as known.", "open")]
    other: Annotated[bool, doc("True: everything beyond the most groups of its kind.", False)]
    type: Annotated[str | None, doc("Class of the exception; null: there was none.", "ConnectionError")]
    reason: Annotated[str | None, doc("Why the attempt ended; null: unknown.", "attempts exhausted")]
    message: Annotated[str | None, doc("Message without numbers, ids and quoted texts.", "no answer within <n> s")]
    frame: Annotated[str | None, doc("Function of the application; null: unknown.", "billing/mail.py:send")]
    first_seen: Annotated[datetime, doc("When the first failure was written.", INSTANT)]
    last_seen: Annotated[datetime, doc("When the last failure was written.", LATER)]
    failed: Annotated[int, doc("Jobs that failed for good, since the first failure.", 12)]
    retried: Annotated[int, doc("Failed attempts whose job was tried again, since the first failure.", 30)]
    within: Annotated[int, doc("Failures within the window, of both sorts.", 7)]
    steps: Annotated[list[int], doc("Failures by step of the window, oldest first.", [0, 2, 5])]
    last_job_id: Annotated[str | None, doc("Public id of the job that failed last.", fields.JOB_ID)]
    muted_at: Annotated[datetime | None, doc("When it was muted; null: it is open.", INSTANT)]
    muted_by: Annotated[str | None, doc("Who muted it; null: it is open, or unknown.", "ada@example.com")]
    note: fields.NoteOrNull

    @classmethod
    def of(cls, group: FailureGroup) -> FailureGroupAnswer:
        """From the desk's value."""
        return cls(**_members(group))


class FailureGroupsAnswer(Answer):
    """Failure groups of a window."""

    since: Annotated[datetime, doc("Beginning of the first step.", INSTANT)]
    step: Annotated[float, doc("Seconds of a step: 3600, 14400 (over 2 days) or 86400 (over 8 days).", 3600.0)]
    items: Annotated[list[FailureGroupAnswer], doc("Groups in the order asked for.")]

    @classmethod
    def of(cls, found: FailureGroups) -> FailureGroupsAnswer:
        """From the desk's value."""
        items = [FailureGroupAnswer.of(group) for group in found.groups]
        return cls(since=found.since, step=found.step.total_seconds(), items=items)


class FailureGroupDetailAnswer(FailureGroupAnswer):
    """One failure group, with a sample."""

    sample: Annotated[
        dict[str, Any] | None,
        doc("Error of one of them: reason, type, message, frame and traceback; null: it is gone.", fields.ERROR),
    ]

    @classmethod
    def whole(cls, group: FailureGroup) -> FailureGroupDetailAnswer:
        """From the desk's value."""
        return cls(**_members(group), sample=None if group.error is None else dict(group.error))


class MuteBody(Body):
    """Why a group is muted or opened again."""

    note: Annotated[NoteText | None, doc("Reason, for colleagues and the audit.", "waits for the new mail server")] = (
        None
    )


def _members(group: FailureGroup) -> dict[str, Any]:
    error, last = group.error or {}, group.last_job_id
    same = ("fingerprint", "kind", "other", "message", "first_seen", "last_seen", "failed", "retried", "within")
    return {
        **{name: getattr(group, name) for name in (*same, "muted_at", "muted_by", "note")},
        **{name: _text(error.get(name)) for name in ("type", "reason", "frame")},
        "state": "muted" if group.is_muted else "open",
        "steps": list(group.steps),
        "last_job_id": None if last is None else ids.encode(last),
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
