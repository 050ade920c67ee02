"""rowlock workflows: read and follow workflows and give them orders."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rowlock.cli import completion
from rowlock.cli.command import command
from rowlock.cli.commands.jobs import By, Note
from rowlock.cli.context import CommandContext, current_user
from rowlock.cli.exit_codes import Exit
from rowlock.cli.screen import records, workflow_lines
from rowlock.cli.screen.output import compact, moment, span
from rowlock.model.workflow import WorkflowState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.workflow import WorkflowView

group = typer.Typer(no_args_is_help=True, help="Read workflows and give them orders.")
WorkflowId = Annotated[str, typer.Argument(metavar="ID", help="Id of the workflow.")]
_COLUMNS: Final = ("id", "name", "state", "steps", "open", "failed", "created", "ended")
_SPARE: Final = ("created", "failed", "open")
_LOOK_EVERY: Final = 0.5
"""Seconds between two polls of watch."""


@command(group, "ls")
async def ls(
    context: CommandContext,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only this state; may be repeated.", autocompletion=completion.one_of(*WorkflowState)),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only workflows with this name.")] = None,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Cursor of the next page.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of workflows.")] = 50,
) -> None:
    """List workflows, newest first."""
    page = await context.desk.workflows.list(states=state or None, name=name, after=after, limit=limit)
    _show(context, page.items, "No workflows.")
    if page.next is not None and not context.screen.as_json:
        context.screen.note(f"there may be more: --after {page.next}")


@command(group, "show")
async def show(context: CommandContext, workflow_id: WorkflowId) -> None:
    """Show a workflow with its steps, each below the steps it depends on."""
    view = await context.desk.workflows.get(workflow_id)
    record = records.workflow_graph(view)
    if context.screen.as_json:
        context.screen.json(record)
        return
    context.screen.fields(_fields(view), record)
    context.screen.line("")
    context.screen.table(workflow_lines.COLUMNS, workflow_lines.rows(view), record, "No steps.", workflow_lines.SPARE)


@command(group, "cancel")
async def cancel(context: CommandContext, workflow_id: WorkflowId, by: By = None, note: Note = None) -> None:
    """Cancel waiting steps, ask running ones to stop, then undo completed steps that have an undo step."""
    _show(context, [await context.desk.workflows.cancel(workflow_id, by=by or current_user(), note=note)], "")


@command(group, "retry")
async def retry(
    context: CommandContext,
    workflow_id: WorkflowId,
    step: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="STEP",
            help="First step to run again, with the steps behind it; default: the failed ones.",
        ),
    ] = None,
    by: By = None,
    note: Note = None,
) -> None:
    """Run a step and the steps behind it again."""
    _show(context, [await context.desk.workflows.retry(workflow_id, step, by=by or current_user(), note=note)], "")


@command(group, "watch")
async def watch(context: CommandContext, workflow_id: WorkflowId) -> None:
    """Follow a workflow until it has ended: a line per change, or an object with --json. Ctrl-C does not affect it.

    Exit code 1 unless it succeeded.
    """
    known: dict[str, str] = {}
    while True:
        view = await context.desk.workflows.get(workflow_id)
        for step in view.steps:
            before, known[step.name] = known.get(step.name), str(step.state)
            if before != step.state:
                record = {
                    "name": step.name,
                    "job_id": step.public_id,
                    "kind": step.kind,
                    "state": step.state,
                    "previous": before,
                }
                _print_change(context, record, f"{step.name}: {before + ' → ' if before else ''}{step.state}")
        if view.is_final:
            _print_change(
                context, {"id": view.public_id, "state": view.state}, f"{view.public_id} {view.name}: {view.state}"
            )
            if not view.state.is_success:
                raise typer.Exit(Exit.FAILED)
            return
        await asyncio.sleep(_LOOK_EVERY)


def _print_change(context: CommandContext, record: dict[str, Any], text: str) -> None:
    context.screen.line(compact(record) if context.screen.as_json else text)


def _show(context: CommandContext, views: Sequence[WorkflowView], empty: str) -> None:
    rows = [
        [
            view.public_id,
            view.name,
            str(view.state) + ", cancel requested" * (view.cancel_requested and not view.is_final),
            str(view.total),
            str(view.open),
            str(view.failed),
            moment(view.created_at),
            moment(view.finished_at),
        ]
        for view in views
    ]
    context.screen.table(_COLUMNS, rows, [records.workflow(view) for view in views], empty, _SPARE)


def _fields(view: WorkflowView) -> dict[str, str]:
    states = Counter(str(step.state) for step in view.steps)
    return {
        "id": view.public_id,
        "name": view.name,
        "state": str(view.state) + ", cancel requested" * (view.cancel_requested and not view.is_final),
        "ends as": view.verdict if view.verdict and not view.is_final else "",
        "not undone": view.undo_error or "",
        "steps": f"{len(view.steps):,}: " + ", ".join(f"{n:,} {state}" for state, n in states.most_common()),
        "tenant": view.tenant or "",
        "submitted by": view.submitted_by or "",
        "created": moment(view.created_at),
        "finished": moment(view.finished_at),
        "took": span(view.finished_at - view.created_at) if view.finished_at else "",
        "unique key": view.unique_key or "",
        "meta": compact(view.meta) if view.meta else "",
    }
