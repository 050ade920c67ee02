"""RowlockAPI: the REST door of one application, alone or inside another."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import Response

from rowlock.api import openapi, problems
from rowlock.api.loopback import Loopback
from rowlock.api.problems import BEARER, REQUEST_ID, Problem
from rowlock.api.routes import (
    approvals,
    bulk,
    health,
    items_and_logs,
    job_orders,
    jobs,
    kinds,
    lanes,
    limits,
    locks,
    people,
    schedules,
    stats,
    streams,
    workers,
    workflows,
)
from rowlock.api.routing import Route, finished, name
from rowlock.api.sse import LIFE
from rowlock.api.submit import JobSubmission
from rowlock.errors import WaitTimeout
from rowlock.outage_log import OutageLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.requests import HTTPConnection, Request

    from rowlock.app import Rowlock
    from rowlock.desk.access import Desk
    from rowlock.model.access import Principal
    from rowlock.model.job import Job

PREFIX: Final = "/api/v1"
_ROUTES: Final = (
    jobs.routes,
    bulk.routes,
    items_and_logs.routes,
    job_orders.orders,
    workflows.routes,
    approvals.routes,
    kinds.routes,
    lanes.routes,
    limits.routes,
    # Fixed words before {worker}: the first route that fits answers.
    job_orders.admin,
    workers.routes,
    schedules.routes,
    locks.routes,
    stats.routes,
    people.routes,
    streams.routes,
)
logger = logging.getLogger("rowlock.api")
_BODY: Final = 64 * 1024
"""Bytes of a body beside the arguments."""


class Authenticator(Protocol):
    """Says who asks."""

    async def authenticate(self, connection: HTTPConnection, /) -> Principal | None:
        """The principal, or None when this request says nothing of one."""


class Metrics(Protocol):
    """What /metrics shows."""

    async def text(self) -> bytes:
        """In the format that Prometheus reads."""


class RowlockAPI:
    """The REST door. asgi: to serve or mount; router: to include; lifespan: for a host that has one.

    auth: who asks; without it only this machine is served. read_only: every change is refused. read_seconds: after
    which a read is given up. metrics: what /metrics shows, a RowlockCollector.
    """

    def __init__(
        self,
        app: Rowlock,
        *,
        auth: Authenticator | Sequence[Authenticator] | None = None,
        read_only: bool = False,
        read_seconds: float = 5.0,
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = metrics
        self.app, self.read_only, self.read_seconds = app, read_only, read_seconds
        self.body_limit = app.settings.args_limit + _BODY
        chain = (Loopback(),) if auth is None else (auth,) if not isinstance(auth, (list, tuple)) else tuple(auth)
        self._auth: tuple[Authenticator, ...] = chain
        self.submissions = JobSubmission(app)
        self.stream_seconds: float | None = LIFE
        """How long a stream lives; None where a server of our own ends them when it leaves."""
        self.router, self._outer = self._router(_ROUTES), self._router((health.routes,))
        self.asgi = self._build()
        self._starting = asyncio.Lock()
        self._started = False
        self.outage = OutageLog(logger, "requests wait for the database", "requests are answered again")

    def _router(self, subjects: Sequence[Any]) -> APIRouter:
        router = APIRouter(route_class=type("Route", (Route,), {"door": self}))
        for routes in subjects:
            routes.into(router)
        return router

    def _build(self) -> FastAPI:
        asgi = FastAPI(
            title="Rowlock",
            openapi_url=f"{PREFIX}/openapi.json",
            docs_url=None,
            redoc_url=None,
            lifespan=self.lifespan,
            # A redirect is no answer to an order, and behind a proxy it leads elsewhere.
            redirect_slashes=False,
        )
        asgi.include_router(self.router, prefix=PREFIX)
        asgi.include_router(self._outer)
        asgi.openapi = self.openapi  # type: ignore[method-assign]  # how FastAPI lets it be replaced
        # What no route answers: unknown paths and methods, and what breaks before a route is found.
        for error in (HTTPException, Exception):
            asgi.add_exception_handler(error, self._outside)
        return asgi

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return openapi.describe(self.asgi)

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """Opens the database before the first request and closes it after the last. A host without one: no matter."""
        with contextlib.suppress(Exception):
            await self.start()
        try:
            yield
        finally:
            await self.close()

    async def start(self) -> None:
        """Open the database, once; a mounted application never hears of a lifespan, so every request asks for it."""
        if self._started:
            return
        async with self._starting:
            if not self._started:
                # The embedded server takes its time to start, in which the loop serves others.
                await asyncio.to_thread(self.app.database)
                self._started = True

    async def close(self) -> None:
        """Leave the database; a later request starts again."""
        self._started = False
        await self.app.close()

    def close_streams(self) -> None:
        """End every open stream, so that a server that waits for connections can leave."""
        self.app.streams.close()

    async def desk(self, request: Request) -> Desk:
        """The desk of whoever asks; unauthenticated when nobody knows them."""
        for each in self._auth:
            principal = await each.authenticate(request)
            if principal is not None:
                address = request.client.host if request.client else None
                return self.app.desk(
                    principal, read_only=self.read_only, request_id=request.scope[REQUEST_ID], address=address
                )
        raise Problem(
            "unauthenticated",
            "Say who you are: Authorization: Bearer <token>.",
            headers=BEARER,
        )

    async def ended(self, job: Job, seconds: int) -> Job:
        """The job once it has ended, or as it stands after so many seconds."""
        try:
            return await self.app.jobs.wait(job.id, timeout=seconds)
        except WaitTimeout:
            return await self.app.jobs.get(job.id)

    async def _outside(self, request: Request, error: Exception) -> Response:
        name(request)
        where = f"{request.scope.get('root_path', '')}{PREFIX}/openapi.json"
        status = getattr(error, "status_code", None)
        if status == HTTPStatus.NOT_FOUND:
            error = Problem("not-found", f"There is no route {request.url.path}. {where} describes those there are.")
        elif status == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = ", ".join(self._methods(request))
            if request.method == "OPTIONS":
                return finished(request, Response(status_code=HTTPStatus.NO_CONTENT, headers={"Allow": allowed}))
            detail = f"{request.method} does not apply to {request.url.path}; there {allowed} do."
            error = Problem("method-not-allowed", detail, headers={"Allow": allowed})
        return finished(request, problems.answer(request, error))

    def _methods(self, request: Request) -> list[str]:
        """Which ones apply to a path: each route knows its own alone."""
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        below = [(route, path.removeprefix(PREFIX)) for route in self.router.routes]
        found = [*below, *((route, path) for route in self._outer.routes)]
        return sorted(
            {"OPTIONS"}.union(
                *(
                    route.methods or ()
                    for route, rest in found
                    if isinstance(route, Route) and route.path_regex.match(rest)
                )
            )
        )
