"""Health: whether the process lives, may be sent requests, and may be replaced."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import PlainTextResponse, Response

from rowlock.api.dependencies import Asked, Door
from rowlock.api.problems import outage_of
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer
from rowlock.errors import MissingExtra, RowlockError
from rowlock.model.access import Permission
from rowlock.store.schema import migrate

routes = Routes("health")
_PATIENCE: Final = 3.0
"""Seconds for the checks: less than what probes usually wait."""
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_MOST: Final = 1000
"""Running jobs looked at."""


class HealthAnswer(Answer):
    """The process answers."""

    status: str = "ok"


class ReadyAnswer(Answer):
    """ready: requests can be answered. problems: why not, without names of servers or schemas."""

    ready: bool
    problems: list[str]


class DeployAnswer(Answer):
    """safe: nothing that runs would be harmed by replacing the workers now. waiting_for: kinds of jobs that would."""

    safe: bool
    problems: list[str]
    waiting_for: dict[str, int]


@routes.get("/healthz", needs=None)
async def get_health() -> HealthAnswer:
    """The process lives. Asks nothing of the database: restarting would not bring that back."""
    return HealthAnswer()


@routes.get("/readyz", needs=None, response_model=ReadyAnswer, responses={503: {"model": ReadyAnswer}})
async def get_readiness(door: Door) -> Response:
    """The database answers and its schema fits this code (the same version, or one ahead)."""
    found = await _problems(door)
    return _answer(ReadyAnswer(ready=not found, problems=found), ok=not found)


@routes.get("/readyz/deploy", needs=None, response_model=DeployAnswer, responses={503: {"model": DeployAnswer}})
async def get_deploy_readiness(door: Door) -> Response:
    """Ready, and no job runs whose kind says that it must not be run again (on_worker_lost "fail" or "hold").

    Other jobs go back to the queue without losing an attempt when their worker is replaced.
    """
    found, busy = await _problems(door), dict[str, int]()
    if not found:
        once = {name for name, handler in door.app.handlers.items() if handler.kind.on_worker_lost != "retry"}
        for job in await door.app.stats.slow(0, limit=_MOST):
            if job.kind in once:
                busy[job.kind] = busy.get(job.kind, 0) + 1
    safe = not found and not busy
    return _answer(DeployAnswer(safe=safe, problems=found, waiting_for=busy), ok=safe)


@routes.get(
    "/metrics",
    needs=Permission.WORKERS_VIEW,
    response_class=PlainTextResponse,
    responses={200: {"content": {_METRICS: {}}}, 501: {"description": "missing-extra"}},
)
async def get_metrics(door: Door, desk: Asked) -> Response:
    """Everything that operators count, in the format that Prometheus reads."""
    desk.guard.demand(Permission.WORKERS_VIEW)
    if door.metrics is None:
        raise MissingExtra("prometheus-client", "prometheus")
    return Response(await door.metrics.text(), media_type=_METRICS)


async def _problems(door: Door) -> list[str]:
    try:
        async with asyncio.timeout(_PATIENCE):
            database = door.app.database()
            async with database.connection() as connection:
                await migrate.require(connection, database.schema)
    except TimeoutError:
        return ["the database does not answer in time"]
    except RowlockError as error:
        return [outage_of(error)]
    return []


def _answer(answer: Answer, *, ok: bool) -> Response:
    headers = {} if ok else {"Retry-After": "5"}
    return Response(answer.model_dump_json(), 200 if ok else 503, headers, media_type="application/json")
