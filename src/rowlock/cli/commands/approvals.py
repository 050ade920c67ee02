"""rowlock approvals: jobs that wait for approval, and rules that approve in advance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext, current_user
from rowlock.cli.option_values import named_arguments
from rowlock.cli.screen import records
from rowlock.cli.screen.output import compact, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.approval import ApprovalStatus, Rule

group = typer.Typer(no_args_is_help=True, help="List jobs that wait for approval, and approve in advance.")
rules = typer.Typer(no_args_is_help=True, help="Rules that approve jobs in advance.")
group.add_typer(rules, name="rule")
_COLUMNS: Final = ("id", "kind", "by", "needs", "given by", "since", "answer by")
_RULE_COLUMNS: Final = ("rule", "kind", "submitted by", "tenant", "args", "added by", "added", "note")
By = Annotated[str | None, typer.Option(help="Author of the rule; default: your user name.")]


@command(group, "ls")
async def ls(
    context: CommandContext,
    query: Annotated[
        str, typer.Argument(metavar="[SEARCH]", help="Search among them, such as 'kind:pay* by:ada'.")
    ] = "",
    *,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Cursor of the next page.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of jobs.")] = 50,
) -> None:
    """List jobs that wait for approval, the oldest first. Approve them with: rowlock jobs approve."""
    desk = context.app.approvals
    page = await desk.pending(query, limit=limit, after=after)
    found = [(job, await desk.standing(job.id)) for job in page.items]
    cells = [
        [
            job.public_id,
            job.kind,
            job.submitted_by or "",
            _needs(standing),
            ", ".join(standing.approvers),
            moment(job.created_at),
            moment(standing.answer_by),
        ]
        for job, standing in found
    ]
    shown = [{**records.job(job), "approval": records.approval(standing, job.public_id)} for job, standing in found]
    context.screen.table(_COLUMNS, cells, shown, "Nothing waits for approval.", ("given by", "answer by"))
    if page.next is not None and not context.screen.as_json:
        context.screen.note(f"{page.count} in all; the next page: --after {page.next}")


@command(rules, "ls")
async def rules_ls(context: CommandContext) -> None:
    """List the rules; the first rule that fits a job decides."""
    _show(context, await context.app.approvals.rules(), "No rules.")


@command(rules, "add")
async def rules_add(
    context: CommandContext,
    *,
    kind: Annotated[str | None, typer.Option(help="Only this kind; a * at the end matches any ending.")] = None,
    submitted_by: Annotated[str | None, typer.Option(help="Only jobs of this submitter.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only jobs of this tenant.")] = None,
    args: Annotated[str | None, typer.Option(metavar="JSON", help="Only jobs that have exactly these values.")] = None,
    contains: Annotated[bool, typer.Option("--contains", help="Lists and objects in --args may hold more.")] = False,
    by: By = None,
    note: Annotated[str | None, typer.Option(help="Reason.")] = None,
) -> None:
    """Approve future jobs that fit all of these conditions. The rule counts as your approval."""
    added = await context.app.approvals.add_rule(
        kind=kind,
        submitted_by=submitted_by,
        tenant=tenant,
        args=named_arguments(args),
        args_match="contains" if contains else "exact",
        by=by or current_user(),
        note=note,
    )
    _show(context, [added], "")


@command(rules, "rm")
async def rules_rm(
    context: CommandContext, rule_id: Annotated[int, typer.Argument(metavar="RULE", help="Number of the rule.")]
) -> None:
    """Remove a rule; jobs that it approved stay approved."""
    _show(context, [await context.app.approvals.remove_rule(rule_id)], "")


def _needs(standing: ApprovalStatus) -> str:
    people = standing.approval.approvers
    return f"{people} " + ("person" if people == 1 else "people") + ", four eyes" * bool(standing.approval.four_eyes)


def _compared(rule: Rule) -> str:
    if not rule.args:
        return ""
    return compact(rule.args) if rule.args_match == "exact" else f"contains {compact(rule.args)}"


def _show(context: CommandContext, found: Sequence[Rule], empty: str) -> None:
    cells = [
        [
            str(rule.id),
            rule.kind or "*",
            rule.submitted_by or "",
            rule.tenant or "",
            _compared(rule),
            rule.created_by or "",
            moment(rule.created_at),
            rule.note or "",
        ]
        for rule in found
    ]
    shown = [records.approval_rule(rule) for rule in found]
    context.screen.table(_RULE_COLUMNS, cells, shown, empty, ("added", "note", "tenant"))
