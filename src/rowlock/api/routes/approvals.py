"""Approvals: jobs that wait for a person, how far a job's approval has come, and rules that approve in advance."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from rowlock.api.dependencies import CurrentDesk, Cursor, JobId, Limit
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routes.jobs import Search, page_of
from rowlock.api.routing import Routes
from rowlock.api.schemas.approvals import ApprovalAnswer, NewRule, RuleAnswer, RulesAnswer
from rowlock.api.schemas.jobs import JobsAnswer
from rowlock.model.access import Permission

routes = Routes("approvals")
RuleId = Annotated[int, Path(ge=1, lt=2**63, description="Id of the rule.", examples=[4])]


@routes.get(
    "/approvals", needs=Permission.READ, response_model=JobsAnswer, problems=("invalid-search", "invalid-cursor")
)
async def list_pending(
    request: Request, desk: CurrentDesk, q: Search = "", *, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Jobs that wait for a person's approval, oldest first; the search narrows them down."""
    return page_of(request, await desk.approvals.pending(q, limit=limit, after=cursor))


@routes.get("/jobs/{job_id}/approval", needs=Permission.READ, problems=("conflict",))
async def get_approval(desk: CurrentDesk, job_id: JobId) -> ApprovalAnswer:
    """What the approval of a job needs, who has approved, and when it expires unanswered."""
    return ApprovalAnswer.of(job_id, await desk.approvals.standing(job_id))


@routes.get("/approvals/rules", needs=Permission.APPROVE)
async def list_rules(desk: CurrentDesk) -> RulesAnswer:
    """Every rule that approves in advance, oldest first."""
    return RulesAnswer(items=[RuleAnswer.of(rule) for rule in await desk.approvals.rules()])


@routes.post(
    "/approvals/rules",
    needs=RoutePermissions((Permission.APPROVE,), also={"beyond one's own tenant": Permission.READ_ALL}),
    status_code=201,
    problems=("invalid-option",),
)
async def add_rule(desk: CurrentDesk, new: NewRule) -> RuleAnswer:
    """Create a rule that approves matching jobs in advance, in your name. Jobs that are pending already stay so."""
    rule = await desk.approvals.add_rule(
        kind=new.kind,
        submitted_by=new.submitted_by,
        tenant=new.tenant,
        args=new.args,
        args_match=new.args_match,
        note=new.note,
    )
    return RuleAnswer.of(rule)


@routes.delete("/approvals/rules/{rule_id}", needs=Permission.APPROVE, problems=("rule-not-found",))
async def remove_rule(desk: CurrentDesk, rule_id: RuleId) -> RuleAnswer:
    """Delete a rule; what it approved stays approved. Answers with the rule as it was."""
    return RuleAnswer.of(await desk.approvals.remove_rule(rule_id))
