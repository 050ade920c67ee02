"""app.approvals: jobs that wait for a person's approval, and rules that approve jobs in advance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from rowlock.desk.audit import record
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.desk.search import JobSearch
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.errors import InvalidOption, RuleNotFound
from rowlock.model import redact, stored_args
from rowlock.model.access import Permission
from rowlock.model.approval import Approval, ApprovalStatus, ArgsMatch, Rule
from rowlock.model.options import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowlock.model.page import Page
    from rowlock.store.database import Database, Record


class Approvals:
    """Pending jobs and approval rules. app.jobs approves and rejects."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard
        self._visible_jobs = VisibleJobs(database, guard)

    @reads(Permission.READ, scoped=True)
    async def pending(self, text: str = "", *, limit: int = 50, after: str | None = None) -> Page:
        """Jobs that wait for approval, the oldest first; text: a search among them."""
        job_search = JobSearch(self._open, self._guard, self._visible_jobs)
        return await job_search.page(f"state:pending {text}".strip(), limit=limit, after=after, sort="oldest")

    @reads(Permission.READ, scoped=True)
    async def standing(self, job_id: int | str) -> ApprovalStatus:
        """How many approvals a job needs, who has approved, and when it expires without an answer."""
        number = (await self._visible_jobs.one(job_id)).id
        (row,) = await self._open().fetch("approval_of", id=number)
        return approval_status_of(row, principal=self._guard.principal.is_known)

    @reads(Permission.APPROVE)
    async def rules(self) -> Sequence[Rule]:
        """Every rule, the oldest first; the first rule that fits a job decides."""
        return await self._rules()

    async def _rules(self) -> list[Rule]:
        found = [_rule(row) for row in await self._open().fetch("approval_rules")]
        own = self._guard.principal.tenant
        return found if self._guard.sees_all else [rule for rule in found if own is not None and rule.tenant == own]

    @changes(Permission.APPROVE)
    async def add_rule(
        self,
        *,
        kind: str | None = None,
        submitted_by: str | None = None,
        tenant: str | None = None,
        args: Mapping[str, object] | None = None,
        args_match: ArgsMatch = "exact",
        by: str | None = None,
        note: str | None = None,
    ) -> Rule:
        """Approve future jobs that fit all of these conditions; jobs already pending stay pending.

        kind: a name, or its beginning and a *. args: the arguments named here must have these very values, others may
        have any; with args_match="contains" lists and mappings may hold more. The rule counts as one approval, by its
        author, and not for the author's own jobs.
        """
        if args_match not in get_args(ArgsMatch):
            message = f'args_match is "exact" or "contains"; got {args_match!r}.'
            raise InvalidOption(message)
        if redact.has_marks(args):
            message = f"A rule compares what people can read; {', '.join(sorted(redact.MARKS))} cannot be keys in args."
            raise InvalidOption(message)
        if kind is None and submitted_by is None and tenant is None and not args:
            message = "A rule must name what it approves: a kind, a submitter, a tenant or arguments."
            raise InvalidOption(message)
        if not self._guard.sees_all:
            tenant = self._within(tenant)
        async with self._open().transaction() as session:
            (row,) = await session.fetch(
                "approval_rule_add",
                kind=kind,
                submitted_by=submitted_by,
                of_tenant=tenant,
                args=as_json(args, "args"),
                args_match=args_match,
                note=note,
                by_whom=None if self._guard.principal.is_anonymous else self._guard.name_of(by),
            )
            await record(session, self._guard, "rule.add", f"rule:{row['id']}", after=_audit_fields(row), note=note)
        return _rule(row)

    def _within(self, tenant: str | None) -> str | None:
        own = self._guard.principal.tenant
        if own is None:
            self._guard.demand(Permission.READ_ALL)
        if tenant not in (None, own):
            message = f"A rule of yours holds for your tenant {own!r}, not for {tenant!r}."
            raise InvalidOption(message)
        return own

    @changes(Permission.APPROVE)
    async def remove_rule(self, rule_id: int) -> Rule:
        """Remove a rule and return it; jobs that it approved stay approved."""
        seen = any(rule.id == rule_id for rule in await self._rules())
        async with self._open().transaction() as session:
            found = await session.fetch("approval_rule_remove", id=rule_id) if seen else []
            if found:
                await record(session, self._guard, "rule.remove", f"rule:{rule_id}", before=_audit_fields(found[0]))
                return _rule(found[0])
        message = f"There is no approval rule {rule_id}."
        raise RuleNotFound(message)


def approval_status_of(row: Record, *, principal: bool) -> ApprovalStatus:
    """A standing from its row. principal: the caller has permissions of its own, so others must approve its jobs."""
    approval = Approval.of(row["approval"])
    if principal and not row["own_approval"]:
        approval = replace(approval, four_eyes=True)
    return ApprovalStatus(approval, tuple(row["approvers"] or ()), row["answer_by"])


def _rule(row: Record) -> Rule:
    return Rule(
        id=row["id"],
        kind=row["kind"],
        submitted_by=row["submitted_by"],
        tenant=row["tenant"],
        args=None if row["args"] is None else stored_args.of_row(row["args"])[0],
        note=row["note"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        args_match=row["args_match"],
    )


def _audit_fields(row: Record) -> dict[str, object]:
    rule = _rule(row)
    return {
        name: getattr(rule, name) for name in ("kind", "submitted_by", "tenant", "args", "args_match", "created_by")
    }
