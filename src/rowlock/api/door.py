"""RowlockAPI: the REST API of one application, served alone or inside another one."""

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
from rowlock.api.auth.loopback import Loopback
from rowlock.api.problems import BEARER, REQUEST_ID, Problem
from rowlock.api.routes import (
    access,
    approvals,
    audit,
    bulk,
    health,
    items_and_logs,
    job_actions,
    jobs,
    kinds,
    lanes,
    limits,
    locks,
    schedules,
    stats,
    streams,
    workers,
    workflows,
)
from rowlock.api.routing import Route, set_request_id, with_headers
from rowlock.api.sse import LIFETIME
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
    job_actions.orders,
    workflows.routes,
    approvals.routes,
    kinds.routes,
    lanes.routes,
    limits.routes,
    # Fixed paths before {worker}: the first route that matches answers.
    job_actions.admin,
    workers.routes,
    schedules.routes,
    locks.routes,
    stats.routes,
    access.routes,
    audit.routes,
    streams.routes,
)
logger = logging.getLogger("rowlock.api")
_BODY: Final = 64 * 1024
"""Bytes that a body may have beside the arguments."""


class Authenticator(Protocol):
    """Tells who sends a request."""

    async def authenticate(self, connection: HTTPConnection, /) -> Principal | None:
        """The principal, or None when the request carries nothing that this authenticator reads."""


class Metrics(Protocol):
    """The source of /metrics."""

    async def text(self) -> bytes:
        """All metrics in the Prometheus text format."""


class RowlockAPI:
    """The REST API of an application. Serve or mount `asgi`, or include `router`; `lifespan` is for a host.

    auth: one authenticator or several, tried in turn; without one only this machine is served. read_only: refuse every
    change. read_seconds: a read that takes longer is cancelled. metrics: a RowlockCollector for /metrics.
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
        self.stream_seconds: float | None = LIFETIME
        """Seconds that a stream lasts; None: until it ends or `close_streams()` ends it."""
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
            # A client does not repeat a POST after a redirect, and behind a proxy the redirect is wrong.
            redirect_slashes=False,
        )
        asgi.include_router(self.router, prefix=PREFIX)
        asgi.include_router(self._outer)
        asgi.openapi = self.openapi  # type: ignore[method-assign]  # how FastAPI lets it be replaced
        # Unknown paths and methods, and exceptions before a route is found.
        for error in (HTTPException, Exception):
            asgi.add_exception_handler(error, self._unrouted)
        return asgi

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return openapi.describe(self.asgi)

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """Opens the database before the first request and closes it after the last."""
        with contextlib.suppress(Exception):
            await self.start()
        try:
            yield
        finally:
            await self.close()

    async def start(self) -> None:
        """Open the database, once. Every request calls this, because a mounted application has no lifespan."""
        if self._started:
            return
        async with self._starting:
            if not self._started:
                # In a thread: the embedded PostgreSQL takes a while to start.
                await asyncio.to_thread(self.app.database)
                self._started = True

    async def close(self) -> None:
        """Close the database; a later request opens it again."""
        self._started = False
        await self.app.close()

    def close_streams(self) -> None:
        """End every open stream, so that a server that waits for connections can stop."""
        self.app.streams.close()

    async def desk(self, request: Request) -> Desk:
        """The desk of the caller; the problem `unauthenticated` when no authenticator knows it."""
        for each in self._auth:
            principal = await each.authenticate(request)
            if principal is not None:
                address = request.client.host if request.client else None
                return self.app.desk(
                    principal, read_only=self.read_only, request_id=request.scope[REQUEST_ID], address=address
                )
        raise Problem(
            "unauthenticated",
            "No valid credentials were sent. Send Authorization: Bearer <token>.",
            headers=BEARER,
        )

    async def wait_for_end(self, job: Job, seconds: int) -> Job:
        """The job once it has ended, or as it stands after that many seconds."""
        try:
            return await self.app.jobs.wait(job.id, timeout=seconds)
        except WaitTimeout:
            return await self.app.jobs.get(job.id)

    async def _unrouted(self, request: Request, error: Exception) -> Response:
        set_request_id(request)
        where = f"{request.scope.get('root_path', '')}{PREFIX}/openapi.json"
        status = getattr(error, "status_code", None)
        if status == HTTPStatus.NOT_FOUND:
            error = Problem("not-found", f"There is no route {request.url.path}. {where} lists the routes.")
        elif status == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = ", ".join(self._methods(request))
            if request.method == "OPTIONS":
                return with_headers(request, Response(status_code=HTTPStatus.NO_CONTENT, headers={"Allow": allowed}))
            detail = f"{request.url.path} does not support {request.method}. Use one of {allowed}."
            error = Problem("method-not-allowed", detail, headers={"Allow": allowed})
        return with_headers(request, problems.response_of(request, error))

    def _methods(self, request: Request) -> list[str]:
        """The methods of all routes that match the path."""
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
