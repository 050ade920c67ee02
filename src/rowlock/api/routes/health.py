"""Health: whether the process is alive, may get requests, and may be replaced; and metrics."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rowlock.api.dependencies import CurrentDesk, Door
from rowlock.api.problems import Problem, outage_of
from rowlock.api.routing import Routes
from rowlock.api.schemas.application import DeployAnswer, HealthAnswer, ReadyAnswer
from rowlock.api.schemas.base import Answer
from rowlock.errors import Forbidden, MissingExtra, NotAuthenticated, RowlockError
from rowlock.model.access import Permission
from rowlock.store.schema import migrate

routes = Routes("health")
_TIMEOUT: Final = 3.0
"""Seconds for the checks: less than probes usually wait."""
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_MOST: Final = 1000
"""Running jobs that the deploy check reads."""


@routes.get("/healthz", needs=None)
async def get_health() -> HealthAnswer:
    """The process is alive. It does not ask the database, which a restart would not bring back."""
    return HealthAnswer()


@routes.get("/readyz", needs=None, response_model=ReadyAnswer, responses={503: {"model": ReadyAnswer}})
async def get_readiness(door: Door) -> Response:
    """The database answers and its schema fits this code (the same version, or one ahead)."""
    found = await _problems(door)
    return _answer(ReadyAnswer(ready=not found, problems=found), ok=not found)


@routes.get("/readyz/deploy", needs=None, response_model=DeployAnswer, responses={503: {"model": DeployAnswer}})
async def get_deploy_readiness(request: Request, door: Door) -> Response:
    """Ready, and no job is running whose kind must not run twice (`on_worker_lost` is "fail" or "hold").

    Other jobs go back to the queue without losing an attempt when their worker is replaced. Kinds are named to callers
    with the permission workers:view; others get the number of jobs.
    """
    found, busy = await _problems(door), dict[str, int]()
    if not found:
        once = {name for name, handler in door.app.handlers.items() if handler.kind.on_worker_lost != "retry"}
        for job in await door.app.stats.slow(0, limit=_MOST):
            if job.kind in once:
                busy[job.kind] = busy.get(job.kind, 0) + 1
    safe = not found and not busy
    named = busy if busy and await _may_view_workers(request, door) else {}
    return _answer(DeployAnswer(safe=safe, problems=found, waiting_jobs=sum(busy.values()), waiting_for=named), ok=safe)


@routes.get(
    "/metrics",
    needs=Permission.WORKERS_VIEW,
    response_class=PlainTextResponse,
    responses={200: {"description": "The metrics.", "content": {_METRICS: {"schema": {"type": "string"}}}}},
    problems=("missing-extra",),
)
async def get_metrics(door: Door, desk: CurrentDesk) -> Response:
    """All metrics, in the Prometheus text format."""
    desk.guard.demand(Permission.WORKERS_VIEW)
    if door.metrics is None:
        raise MissingExtra("prometheus-client", "prometheus")
    return Response(await door.metrics.text(), media_type=_METRICS)


async def _may_view_workers(request: Request, door: Door) -> bool:
    """Whether the caller is known and may; probes send no credentials."""
    try:
        return (await door.principal(request)).may(Permission.WORKERS_VIEW)
    except (Problem, NotAuthenticated, Forbidden):
        return False


async def _problems(door: Door) -> list[str]:
    try:
        async with asyncio.timeout(_TIMEOUT):
            database = door.app.database()
            async with database.connection() as connection:
                await migrate.require(connection, database.schema)
    except TimeoutError:
        return ["the database does not answer in time"]
    except RowlockError as error:
        return [outage_of(error)]
    return []


async def schema_version(door: Door) -> int | None:
    """The version of the tables; None: the database did not answer in time."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            database = door.app.database()
            async with database.connection() as connection:
                return await migrate.version_of(connection, database.schema)
    except (TimeoutError, RowlockError):
        return None


def _answer(answer: Answer, *, ok: bool) -> Response:
    headers = {} if ok else {"Retry-After": "5"}
    return Response(answer.model_dump_json(), 200 if ok else 503, headers, media_type="application/json")
