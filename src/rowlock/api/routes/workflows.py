"""Workflows: the graph of their steps, orders for all of it; and signals for jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body as Content
from fastapi import Depends, Path, Query, Request
from starlette.responses import Response

from rowlock.api.dependencies import CurrentDesk, Cursor, JobId, Limit, links
from rowlock.api.routing import Routes
from rowlock.api.schemas.job_actions import Order, Signal, SignalledAnswer
from rowlock.api.schemas.workflows import GraphAnswer, RetryOrder, WorkflowAnswer, WorkflowsAnswer
from rowlock.model import ids
from rowlock.model.access import Permission
from rowlock.model.workflow import WorkflowState

routes = Routes("workflows")
SignalName = Annotated[
    str, Path(max_length=1000, pattern=r"^[^\x00]+$", description="Name of the signal.", examples=["approved"])
]
States = Annotated[
    list[WorkflowState] | None,
    Query(max_length=10, description="Only workflows in these states; may be repeated.", examples=[["running"]]),
]
WorkflowName = Annotated[
    str | None,
    Query(max_length=200, pattern=r"^[^\x00]+$", description="Only workflows of this name.", examples=["publish"]),
]


def public_workflow_id(
    workflow_id: Annotated[
        str, Path(description="Public id of the workflow; its number works too.", examples=[ids.encode_workflow(1)])
    ],
) -> str:
    """The public id of the workflow in the path, which may have any case and grouping, or be the number."""
    return ids.encode_workflow(ids.parse_workflow(workflow_id))


WorkflowId = Annotated[str, Depends(public_workflow_id)]
OptionalOrder = Annotated[Order, Content(default_factory=Order)]


@routes.get("/workflows", needs=Permission.READ, response_model=WorkflowsAnswer, problems=("invalid-cursor",))
async def list_workflows(
    request: Request,
    desk: CurrentDesk,
    *,
    state: States = None,
    name: WorkflowName = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Workflows, newest first, without their steps."""
    page = await desk.workflows.list(states=state, name=name, after=cursor, limit=limit)
    items = [WorkflowAnswer.of(view) for view in page.items]
    answer = WorkflowsAnswer(items=items, next_cursor=page.next)
    headers = links(request, next=page.next)
    return Response(answer.model_dump_json(), headers=headers, media_type="application/json")


@routes.get("/workflows/{workflow_id}", needs=Permission.READ)
async def get_workflow(desk: CurrentDesk, workflow_id: WorkflowId) -> GraphAnswer:
    """A workflow with the graph of its steps."""
    return GraphAnswer.of(await desk.workflows.get(workflow_id))


@routes.post("/workflows/{workflow_id}/cancel", needs=Permission.CANCEL, problems=("conflict",))
async def cancel_workflow(desk: CurrentDesk, workflow_id: WorkflowId, order: OptionalOrder) -> GraphAnswer:
    """Cancel waiting steps, ask running ones to stop, then undo completed ones that declare how."""
    return GraphAnswer.of(await desk.workflows.cancel(workflow_id, note=order.note))


@routes.post(
    "/workflows/{workflow_id}/retry", needs=Permission.RETRY, problems=("conflict", "invalid-option", "unique-conflict")
)
async def retry_workflow(
    desk: CurrentDesk, workflow_id: WorkflowId, order: Annotated[RetryOrder, Content(default_factory=RetryOrder)]
) -> GraphAnswer:
    """Run a step and all steps behind it again; without `from_step`, the steps that failed."""
    return GraphAnswer.of(await desk.workflows.retry(workflow_id, order.from_step, note=order.note))


@routes.post("/jobs/{job_id}/signals/{name:path}", needs=Permission.EDIT, problems=("conflict", "invalid-option"))
async def send_signal(desk: CurrentDesk, job_id: JobId, name: SignalName, signal: Signal) -> SignalledAnswer:
    """Send a job a signal that it waits for, or will wait for; the first one of a name counts."""
    done = await desk.jobs.signal(job_id, name, signal.payload, note=signal.note)
    answer = SignalledAnswer.of(done.job, sent=done.what == "sent")
    return SignalledAnswer.model_validate(answer, from_attributes=True)
