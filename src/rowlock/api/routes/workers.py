"""Workers: which jobs they run since when, and how to drain one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.responses import JSONResponse, Response

from rowlock.api.dependencies import CurrentDesk
from rowlock.api.lane_names import LANE_NAMES
from rowlock.api.routing import Routes
from rowlock.api.schemas.workers import StatusAnswer, WorkerAnswer, WorkersAnswer
from rowlock.model.access import Permission

routes = Routes("workers")
Worker = Annotated[
    str,
    Path(max_length=300, pattern=r"^[^\x00]+$", description="Id or name of the worker.", examples=["web-1:4711"]),
]


@routes.get("/admin/workers/status", needs=Permission.WORKERS_VIEW, response_model=StatusAnswer)
async def get_status(desk: CurrentDesk) -> Response:
    """Lanes with their use, workers with the jobs in their slots, and the queue depth."""
    body = StatusAnswer.of(await desk.workers.status()).model_dump(mode="json")
    return JSONResponse({**body, "lanes": [LANE_NAMES.get().write(lane) for lane in body["lanes"]]})


@routes.post(
    "/admin/workers/{worker}/forget", needs=Permission.WORKERS_MANAGE, problems=("worker-not-found", "conflict")
)
async def forget_worker(desk: CurrentDesk, worker: Worker) -> WorkersAnswer:
    """Declare a silent worker gone: its jobs are lost now, before the heartbeat timeout; 409 while it beats."""
    return WorkersAnswer(items=[WorkerAnswer.of(each) for each in await desk.workers.forget(worker)])


@routes.post(
    "/admin/workers/{worker}/drain", needs=Permission.WORKERS_MANAGE, status_code=202, problems=("worker-not-found",)
)
async def drain_worker(desk: CurrentDesk, worker: Worker) -> WorkersAnswer:
    """Make a worker claim no more, finish its jobs and stop; it learns of it within two seconds."""
    return WorkersAnswer(items=[WorkerAnswer.of(each) for each in await desk.workers.drain(worker)])
