"""Bulk over the wire: one order for many jobs, after a look at what it would reach."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path, Request
from pydantic import Field
from starlette.responses import Response

from rowlock.api.dependencies import Asked, base_url
from rowlock.api.routing import Routes
from rowlock.api.shapes import Body, CountAnswer, JobAnswer, Note, Priority
from rowlock.errors import WrongState
from rowlock.model import ids
from rowlock.model.access import Permission
from rowlock.model.operation import Action, Operation

routes = Routes("jobs")
OF_THE_ACTION = "of the action"
OperationId = Annotated[int, Path(ge=1, lt=2**63)]


class BulkOrder(Body):
    """First with dry_run; then with the filter_hash it answered, and expected_max, beyond which no job is touched."""

    action: Action
    search: Annotated[str, Field(max_length=2000)] | None = None
    ids: Annotated[list[str], Field(max_length=10_000)] | None = None
    priority: Priority | None = None
    dry_run: bool = False
    filter_hash: Annotated[str, Field(max_length=200)] | None = None
    expected_max: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    note: Note | None = None


class OperationAnswer(Body):
    """state: preview, running, completed, failed or cancelled. count and samples: of the dry run, or of the start."""

    id: str | None
    action: Action
    state: str
    filter_hash: str
    search: str | None
    priority: int | None
    count: CountAnswer | None
    samples: list[JobAnswer]
    expected_max: int | None
    done: int
    skipped: int
    failed: int
    error: str | None
    by: str | None
    note: str | None
    created_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, operation: Operation) -> OperationAnswer:
        """From the desk's value."""
        values = {name: getattr(operation, name) for name in cls.model_fields}
        made = {
            "id": None if operation.id is None else str(operation.id),
            "count": None if operation.count is None else CountAnswer.of(operation.count),
            "samples": [JobAnswer.of(job) for job in operation.samples],
        }
        return cls.model_validate(values | made)


@routes.post("/jobs/bulk", needs=OF_THE_ACTION, status_code=202, response_model=OperationAnswer)
async def order_jobs(request: Request, desk: Asked, order: BulkOrder) -> Response:
    """Give one order to many jobs, found by a search or named by ids. It takes the permission of the order itself.

    200: the dry run, with how many jobs it would reach, five of them, and the filter_hash; 202: it is carried out.
    """
    operation = await desk.jobs.bulk(
        order.action,
        search=order.search,
        ids=None if order.ids is None else [ids.decode(each) for each in order.ids],
        dry_run=order.dry_run,
        filter_hash=order.filter_hash,
        expected_max=order.expected_max,
        priority=order.priority,
        note=order.note,
    )
    body = OperationAnswer.of(operation).model_dump_json()
    if operation.id is None:
        return Response(body, media_type="application/json")
    headers = {"Location": f"{base_url(request)}/operations/{operation.id}", "Retry-After": "1"}
    return Response(body, 202, headers, media_type="application/json")


@routes.get("/operations/{operation_id}", needs=Permission.READ)
async def get_operation(desk: Asked, operation_id: OperationId) -> OperationAnswer:
    """How far a bulk order has come."""
    return OperationAnswer.of(await desk.operations.get(operation_id))


@routes.post("/operations/{operation_id}/cancel", needs=Permission.READ)
async def cancel_operation(desk: Asked, operation_id: OperationId) -> OperationAnswer:
    """Stop a bulk order after the batch at hand; what is done stays done. Takes the permission of the order too."""
    try:
        return OperationAnswer.of(await desk.operations.cancel(operation_id))
    except WrongState:
        return OperationAnswer.of(await desk.operations.get(operation_id))
