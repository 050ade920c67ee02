"""Workflows and the graph of their steps."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from typing_extensions import override

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, doc
from rowlock.api.schemas.fields import Text
from rowlock.api.schemas.job_actions import Order
from rowlock.model.workflow import WorkflowState

if TYPE_CHECKING:
    from rowlock.model.workflow import WorkflowView


class WorkflowAnswer(Answer):
    """A workflow: jobs that wait for each other."""

    id: fields.WorkflowIdField
    name: Annotated[str, doc("Name of the workflow.", "publish")]
    state: Annotated[WorkflowState, doc("State of the workflow.", "running")]
    total: Annotated[int, doc("All steps.", 5)]
    open: Annotated[int, doc("Steps that have not ended.", 3)]
    failed: Annotated[int, doc("Steps that failed.", 0)]
    cancelled: Annotated[int, doc("Steps that were cancelled.", 0)]
    with_errors: Annotated[int, doc("Steps that completed with errors.", 0)]
    verdict: Annotated[
        str | None, doc("State in which it ends once its steps are undone; null: nothing is undone.", None)
    ]
    undo_error: Annotated[str | None, doc("Why its steps could not be undone; null: they could.", None)]
    cancel_requested: Annotated[bool, doc("Whether a person cancelled it.", False)]
    tenant: fields.TenantOrNull
    submitted_by: fields.SubmitterOrNull
    unique_key: fields.UniqueKeyOrNull
    meta: fields.Meta
    created_at: fields.CreatedAt
    finished_at: fields.FinishedAt

    @classmethod
    def of(cls, view: WorkflowView) -> WorkflowAnswer:
        """From the desk's value."""
        return WorkflowAnswer.model_validate(_values(view))


class NodeAnswer(Answer):
    """One step of a workflow."""

    name: Annotated[str, doc("Name of the step, unique in its workflow.", "render")]
    job_id: fields.PublicId
    kind: fields.Kind
    state: fields.JobState
    attempt: fields.Attempt
    max_attempts: fields.MaxAttempts
    any_of: Annotated[bool, doc("True: one of the steps before it is enough; false: it waits for all.", False)]
    undo: Annotated[str | None, doc("Kind of the job that takes this step back; null: none.", "unpublish")]
    undoes: Annotated[str | None, doc("Name of the step that this one takes back; null: it takes none back.", None)]
    signal: Annotated[str | None, doc("Signal that it waits for; null: none.", None)]
    until: Annotated[datetime | None, doc("When it stops waiting for the signal; null: never.", None)]
    created_at: fields.CreatedAt
    run_after: fields.RunAfter
    claimed_at: fields.ClaimedAt
    finished_at: fields.FinishedAt
    errors: fields.ErrorOrNull


class EdgeAnswer(Answer):
    """One step waits for another."""

    upstream: Annotated[str, doc("Step that is waited for.", "render")]
    downstream: Annotated[str, doc("Step that waits.", "publish")]
    needs: Annotated[str, doc("How the upstream step must end: success, failure, end …", "success")]
    met: Annotated[bool | None, doc("Whether it ended so; null: it has not ended.", None)]


class GraphAnswer(WorkflowAnswer):
    """A workflow with its steps."""

    nodes: Annotated[list[NodeAnswer], doc("Steps in the order in which they were added.")]
    edges: Annotated[list[EdgeAnswer], doc("Which step waits for which.")]

    @classmethod
    @override
    def of(cls, view: WorkflowView) -> GraphAnswer:
        """From the desk's value."""
        nodes = [
            {**{name: getattr(step, name) for name in NodeAnswer.model_fields}, "job_id": step.public_id}
            for step in view.steps
        ]
        edges = [{name: getattr(edge, name) for name in EdgeAnswer.model_fields} for edge in view.edges]
        return cls.model_validate({**_values(view), "nodes": nodes, "edges": edges})


class WorkflowsAnswer(Answer):
    """A page of workflows, newest first; an empty one with a next_cursor found none so far."""

    items: Annotated[list[WorkflowAnswer], doc("Workflows of this page.")]
    next_cursor: fields.NextCursor


class RetryOrder(Order):
    """Which steps run again."""

    from_step: Annotated[
        Text | None, doc("Run this step and all behind it again; null: the steps that failed.", "render")
    ] = None


def _values(view: WorkflowView) -> dict[str, object]:
    return {**{name: getattr(view, name) for name in WorkflowAnswer.model_fields}, "id": view.public_id}
