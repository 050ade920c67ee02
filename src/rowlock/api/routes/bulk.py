"""Bulk orders: one order for many jobs, after a dry run; and the operation that carries it out."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Path, Request
from starlette.responses import Response

from rowlock.api.dependencies import CurrentDesk, base_url
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routing import Routes
from rowlock.api.schemas.job_actions import BulkOrder, OperationAnswer
from rowlock.desk.operation_driver import NEEDED
from rowlock.errors import WrongState
from rowlock.model import ids
from rowlock.model.access import Permission

routes = Routes("jobs")
_OF_THE_ACTION = RoutePermissions((Permission.READ,), by_case={str(action): need for action, need in NEEDED.items()})
OperationId = Annotated[int, Path(ge=1, lt=2**63, description="Id of the operation.", examples=[12])]
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": OperationAnswer, "description": "The dry run: nothing was changed."},
    202: {"description": "The order is carried out in batches; `Location` names the operation."},
}


@routes.post(
    "/jobs/bulk",
    needs=_OF_THE_ACTION,
    status_code=202,
    response_model=OperationAnswer,
    responses=_ANSWERS,
    problems=("invalid-search", "invalid-id", "invalid-option", "bulk-refused", "job-not-found"),
)
async def order_jobs(request: Request, desk: CurrentDesk, order: BulkOrder) -> Response:
    """Give one order to many jobs, found by a search or named by ids.

    200: the dry run, with the number of jobs, five of them, and the filter_hash. 202: the order is carried out.
    """
    operation = await desk.jobs.bulk(
        order.action,
        search=order.search,
        ids=None if order.ids is None else [ids.parse(each) for each in order.ids],
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


@routes.get("/operations/{operation_id}", needs=Permission.READ, problems=("operation-not-found",))
async def get_operation(desk: CurrentDesk, operation_id: OperationId) -> OperationAnswer:
    """How far a bulk order has come."""
    return OperationAnswer.of(await desk.operations.get(operation_id))


@routes.post("/operations/{operation_id}/cancel", needs=_OF_THE_ACTION, problems=("operation-not-found",))
async def cancel_operation(desk: CurrentDesk, operation_id: OperationId) -> OperationAnswer:
    """Stop a bulk order after the current batch; what is done stays done."""
    try:
        return OperationAnswer.of(await desk.operations.cancel(operation_id))
    except WrongState:
        return OperationAnswer.of(await desk.operations.get(operation_id))
