"""Approvals of pending jobs, and rules that approve in advance."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, Body, doc
from rowlock.api.schemas.fields import INSTANT, Text
from rowlock.api.schemas.jobs import NoteField
from rowlock.model.approval import ApprovalStatus, ArgsMatch, Rule

_ARGS = {"amount": 100}
ArgsMatchField = Annotated[
    ArgsMatch,
    doc("Compare exactly (exact), or accept lists and objects that hold more (contains).", "exact"),
]


class ApprovalAnswer(Answer):
    """How far the approval of a job has come."""

    job_id: fields.PublicId
    needed: Annotated[int, doc("How many people must approve.", 2)]
    four_eyes: Annotated[bool, doc("True: the approval of its submitter does not count.", True)]
    approvers: Annotated[list[str], doc("Subjects that approved so far.", ["ada@example.com"])]
    answer_by: Annotated[datetime | None, doc("The job expires unanswered then; null: never.", INSTANT)]

    @classmethod
    def of(cls, job_id: str, standing: ApprovalStatus) -> ApprovalAnswer:
        """From the desk's value."""
        return cls(
            job_id=job_id,
            needed=standing.approval.approvers,
            four_eyes=bool(standing.approval.four_eyes),
            approvers=list(standing.approvers),
            answer_by=standing.answer_by,
        )


class RuleAnswer(Answer):
    """A rule that approves jobs in advance, in the name of its creator."""

    id: Annotated[str, doc("Id of the rule.", "4")]
    kind: Annotated[str | None, doc("Kind of these jobs, or its beginning and a *; null: any.", "pay*")]
    submitted_by: Annotated[str | None, doc("Submitter of these jobs; null: any.", "billing")]
    tenant: Annotated[str | None, doc("Tenant of these jobs; null: any.", "acme")]
    args: Annotated[dict[str, Any] | None, doc("Arguments that these jobs must have; null: any.", _ARGS)]
    args_match: ArgsMatchField
    note: fields.NoteOrNull
    created_by: Annotated[str | None, doc("Subject whose approval it counts as; null: unknown.", "ada@example.com")]
    created_at: fields.CreatedAt

    @classmethod
    def of(cls, rule: Rule) -> RuleAnswer:
        """From the desk's value."""
        values = {name: getattr(rule, name) for name in cls.model_fields}
        return cls.model_validate(values | {"id": str(rule.id)})


class RulesAnswer(Answer):
    """Every rule."""

    items: Annotated[list[RuleAnswer], doc("Rules, oldest first; the first one that fits a job counts.")]


class NewRule(Body):
    """A rule to create: a job must match every field that is given."""

    kind: Annotated[Text | None, doc("Kind, or its beginning and a *; null: any.", "pay*")] = None
    submitted_by: Annotated[Text | None, doc("Submitter; null: any.", "billing")] = None
    tenant: Annotated[Text | None, doc("Tenant; null: any.", "acme")] = None
    args: Annotated[
        dict[str, Any] | None, doc("Arguments that a job must have, others may have any value; null: any.", _ARGS)
    ] = None
    args_match: ArgsMatchField = "exact"
    note: NoteField = None
