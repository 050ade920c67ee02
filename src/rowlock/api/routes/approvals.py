"""Approvals over the wire: what waits for a person, how far a job has come, and what is approved in advance."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Request
from starlette.responses import Response

from rowlock.api.dependencies import Asked, Cursor, JobId, Limit
from rowlock.api.routes.jobs import JobsAnswer, Search, page_of
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer, Body, Note, Text
from rowlock.model.access import Permission
from rowlock.model.approval import Rule, Standing

routes = Routes("approvals")
RuleId = Annotated[int, Path(ge=1, lt=2**63)]


class StandingAnswer(Answer):
    """How far the approval of a job has come. needed: how many must approve; four_eyes: its submitter does not count.

    approvers: who did; answer_by: when it expires unanswered, null for never.
    """

    job_id: str
    needed: int
    four_eyes: bool
    approvers: list[str]
    answer_by: datetime | None

    @classmethod
    def of(cls, job_id: str, standing: Standing) -> StandingAnswer:
        """From the desk's value."""
        return cls(
            job_id=job_id,
            needed=standing.approval.approvers,
            four_eyes=standing.approval.four_eyes,
            approvers=list(standing.approvers),
            answer_by=standing.answer_by,
        )


class RuleAnswer(Answer):
    """An approval given in advance by created_by, to jobs that fit all it names; null fits everything."""

    id: str
    kind: str | None
    submitted_by: str | None
    tenant: str | None
    args: dict[str, Any] | None
    note: str | None
    created_by: str | None
    created_at: datetime

    @classmethod
    def of(cls, rule: Rule) -> RuleAnswer:
        """From the desk's value."""
        values = {name: getattr(rule, name) for name in cls.model_fields}
        return cls.model_validate(values | {"id": str(rule.id)})


class RulesAnswer(Answer):
    """Every rule, the oldest first: the first one that fits a job counts."""

    items: list[RuleAnswer]


class NewRule(Body):
    """What to approve in advance: all that is given must fit. kind: a name, or its beginning and a *."""

    kind: Text | None = None
    submitted_by: Text | None = None
    tenant: Text | None = None
    args: dict[str, Any] | None = None
    note: Note | None = None


@routes.get("/approvals", needs=Permission.READ, response_model=JobsAnswer)
async def list_pending(
    request: Request, desk: Asked, q: Search = "", *, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Jobs that wait for a person, the oldest first; the search is one among them."""
    return page_of(request, await desk.approvals.pending(q, limit=limit, after=cursor))


@routes.get("/jobs/{job_id}/approval", needs=Permission.READ)
async def get_approval(desk: Asked, job_id: JobId) -> StandingAnswer:
    """What the approval of a job takes, who gave theirs, and until when it must be answered."""
    return StandingAnswer.of(job_id, await desk.approvals.standing(job_id))


@routes.get("/approvals/rules", needs=Permission.APPROVE)
async def list_rules(desk: Asked) -> RulesAnswer:
    """Every rule that approves in advance, the oldest first."""
    return RulesAnswer(items=[RuleAnswer.of(rule) for rule in await desk.approvals.rules()])


@routes.post("/approvals/rules", needs=Permission.APPROVE, status_code=201)
async def add_rule(desk: Asked, new: NewRule) -> RuleAnswer:
    """Approve in advance what fits; jobs that are pending already stay so. It counts as your approval."""
    rule = await desk.approvals.add_rule(
        kind=new.kind, submitted_by=new.submitted_by, tenant=new.tenant, args=new.args, note=new.note
    )
    return RuleAnswer.of(rule)


@routes.delete("/approvals/rules/{rule_id}", needs=Permission.APPROVE)
async def remove_rule(desk: Asked, rule_id: RuleId) -> RuleAnswer:
    """Take a rule away; what it approved stays approved. Answers with the rule as it was."""
    return RuleAnswer.of(await desk.approvals.remove_rule(rule_id))
