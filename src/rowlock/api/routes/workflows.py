"""Workflows over the wire: their graph of steps, and orders for all of it. Signals for jobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Body as Content
from fastapi import Depends, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from rowlock.api.dependencies import Asked, Cursor, JobId, Limit, links
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer, Body, JobAnswer, Note, Order, Text
from rowlock.model import ids
from rowlock.model.access import Permission
from rowlock.model.state import State
from rowlock.model.workflow import WorkflowState

if TYPE_CHECKING:
    from rowlock.model.workflow import WorkflowView

routes = Routes("workflows")
Name = Annotated[str, Path(max_length=1000, pattern=r"^[^\x00]+$", description="The signal's name.")]


def workflow_of(
    workflow_id: Annotated[str, Path(description="A public workflow id.", examples=[ids.encode_workflow(1)])],
) -> str:
    """The workflow that the path names; plain numbers are no names outside."""
    return ids.encode_workflow(ids.decode_workflow(workflow_id))


WorkflowId = Annotated[str, Depends(workflow_of)]
Said = Annotated[Order, Content(default_factory=Order)]


class WorkflowAnswer(Answer):
    """A workflow. open, failed …: how many steps; verdict: how it ends once undone; undo_error: why it cannot be."""

    id: str = Field(examples=[ids.encode_workflow(1)])
    name: str
    state: WorkflowState
    total: int
    open: int
    failed: int
    cancelled: int
    with_errors: int
    verdict: str | None
    undo_error: str | None
    cancel_requested: bool
    tenant: str | None
    submitted_by: str | None
    unique_key: str | None
    meta: dict[str, Any]
    created_at: datetime
    finished_at: datetime | None


class NodeAnswer(Answer):
    """One step. undo: the kind that takes it back; undoes: the step it takes back; signal: what it waits for."""

    name: str
    job_id: str
    kind: str
    state: State
    attempt: int
    max_attempts: int
    any_of: bool
    undo: str | None
    undoes: str | None
    signal: str | None
    until: datetime | None
    created_at: datetime
    run_after: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    errors: dict[str, Any] | None


class EdgeAnswer(Answer):
    """One step waits for another. met null: that one has not ended."""

    upstream: str
    downstream: str
    needs: str
    met: bool | None


class GraphAnswer(WorkflowAnswer):
    """A workflow with its steps, in the order they were added, and who waits for whom."""

    nodes: list[NodeAnswer]
    edges: list[EdgeAnswer]


class WorkflowsAnswer(Answer):
    """A page, newest first. An empty one with a next_cursor: none so far."""

    items: list[WorkflowAnswer]
    next_cursor: str | None


class RetryOrder(Order):
    """from_step: that one and everything behind it; without it, what failed."""

    from_step: Text | None = None


class Signal(Body):
    """What the job is told."""

    payload: Any = None
    note: Note | None = None


class SignalledAnswer(JobAnswer):
    """The job. sent false: a signal of that name came before, and the first one counts."""

    sent: bool


@routes.get("/workflows", needs=Permission.READ, response_model=WorkflowsAnswer)
async def list_workflows(
    request: Request,
    desk: Asked,
    *,
    state: Annotated[list[WorkflowState] | None, Query(max_length=10)] = None,
    name: Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]+$")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Workflows, newest first, without their steps."""
    page = await desk.workflows.list(states=state, name=name, after=cursor, limit=limit)
    items = [WorkflowAnswer.model_validate(_values(view, WorkflowAnswer)) for view in page.items]
    answer = WorkflowsAnswer(items=items, next_cursor=page.next)
    headers = links(request, next=page.next)
    return Response(answer.model_dump_json(), headers=headers, media_type="application/json")


@routes.get("/workflows/{workflow_id}", needs=Permission.READ)
async def get_workflow(desk: Asked, workflow_id: WorkflowId) -> GraphAnswer:
    """A workflow with the graph of its steps."""
    return graph_of(await desk.workflows.get(workflow_id))


@routes.post("/workflows/{workflow_id}/cancel", needs=Permission.CANCEL)
async def cancel_workflow(desk: Asked, workflow_id: WorkflowId, said: Said) -> GraphAnswer:
    """End what waits, ask what runs to stop, then undo what completed and says how."""
    return graph_of(await desk.workflows.cancel(workflow_id, note=said.note))


@routes.post("/workflows/{workflow_id}/retry", needs=Permission.RETRY)
async def retry_workflow(
    desk: Asked, workflow_id: WorkflowId, said: Annotated[RetryOrder, Content(default_factory=RetryOrder)]
) -> GraphAnswer:
    """Run a step and everything behind it again, the rest as it is."""
    return graph_of(await desk.workflows.retry(workflow_id, said.from_step, note=said.note))


@routes.post("/jobs/{job_id}/signals/{name:path}", needs=Permission.EDIT)
async def send_signal(desk: Asked, job_id: JobId, name: Name, said: Signal) -> SignalledAnswer:
    """Send a job the signal it waits for, or will wait for; the first one of a name counts."""
    done = await desk.jobs.signal(job_id, name, said.payload, note=said.note)
    answer = SignalledAnswer.of(done.job, sent=done.what == "sent")
    return SignalledAnswer.model_validate(answer, from_attributes=True)


def graph_of(view: WorkflowView) -> GraphAnswer:
    """From the desk's value."""
    nodes = [
        {**{name: getattr(step, name) for name in NodeAnswer.model_fields}, "job_id": step.public_id}
        for step in view.steps
    ]
    return GraphAnswer.model_validate(
        {**_values(view, WorkflowAnswer), "nodes": nodes, "edges": [_edge(edge) for edge in view.edges]}
    )


def _values(view: WorkflowView, shape: type[Answer]) -> dict[str, object]:
    return {**{name: getattr(view, name) for name in shape.model_fields}, "id": view.public_id}


def _edge(edge: object) -> dict[str, object]:
    return {name: getattr(edge, name) for name in EdgeAnswer.model_fields}
