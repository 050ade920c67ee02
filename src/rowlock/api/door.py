"""RowlockAPI: the REST API of one application, served alone or inside another one."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import Response
from typing_extensions import override

from rowlock.api import openapi, problems
from rowlock.api.auth.loopback import Loopback
from rowlock.api.backend import ApiBackend
from rowlock.api.dashboard import Dashboard
from rowlock.api.problems import Problem
from rowlock.api.route_choice import RouteChoice
from rowlock.api.routes import (
    access,
    approvals,
    audit,
    bulk,
    embed,
    failures,
    health,
    items_and_logs,
    job_actions,
    jobs,
    kinds,
    lanes,
    limits,
    locks,
    logins,
    retention,
    schedules,
    search,
    stats,
    streams,
    system,
    views,
    webhooks,
    workers,
    workflows,
)
from rowlock.api.routing import Route, Routes, set_request_id, with_headers, without_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from starlette.requests import Request

    from rowlock.api.auth.oidc import OIDCLogin
    from rowlock.api.backend import Authenticator, Metrics
    from rowlock.app import Rowlock

PREFIX: Final = "/api/v1"
_ROUTES: Final = (
    jobs.routes,
    search.routes,
    bulk.routes,
    items_and_logs.routes,
    job_actions.orders,
    workflows.routes,
    approvals.routes,
    kinds.routes,
    lanes.routes,
    limits.routes,
    retention.routes,
    # Fixed paths before {worker}: the first route that matches answers.
    job_actions.admin,
    workers.routes,
    schedules.routes,
    locks.routes,
    stats.routes,
    failures.routes,
    views.routes,
    webhooks.routes,
    system.routes,
    access.routes,
    logins.routes,
    audit.routes,
    streams.routes,
    embed.routes,
)


class RowlockAPI(ApiBackend):
    """The REST API of an application, and its dashboard. Serve or mount `asgi`, or include `router` (the API alone)
    or a selection of it: `select()`.

    auth: one authenticator or several, tried in turn; without one only this machine is served, with a token that is
    logged. read_only: refuse every change. read_seconds: a read that takes longer is cancelled. metrics: a
    RowlockCollector for /metrics. trusted_proxies: addresses and CIDR networks; default: ROWLOCK_TRUSTED_PROXIES.
    allow_origins: origins whose pages may use embed tokens; default: ROWLOCK_ALLOW_ORIGINS. oidc: people log in at an
    identity provider, too. require_if_match: whether changes of lanes, schedules and jobs need If-Match; default:
    ROWLOCK_REQUIRE_IF_MATCH. lane_names: further names for fields of lanes, such as {"poll_ms": "poll_interval"}. ui:
    serve the dashboard. `lifespan` is for a host.
    """  # noqa: D205 - one sentence

    def __init__(
        self,
        app: Rowlock,
        *,
        auth: Authenticator | Sequence[Authenticator] | None = None,
        read_only: bool = False,
        read_seconds: float = 5.0,
        metrics: Metrics | None = None,
        trusted_proxies: Iterable[str] | None = None,
        allow_origins: Iterable[str] | None = None,
        oidc: OIDCLogin | None = None,
        require_if_match: bool | None = None,
        lane_names: Mapping[str, str] | None = None,
        ui: bool = True,
    ) -> None:
        chosen = Loopback(app.settings.serve_token) if auth is None else auth
        chain: tuple[Authenticator, ...] = tuple(chosen) if isinstance(chosen, Sequence) else (chosen,)
        super().__init__(
            app,
            chain,
            read_only=read_only,
            read_seconds=read_seconds,
            metrics=metrics,
            trusted_proxies=trusted_proxies,
            allow_origins=allow_origins,
            oidc=oidc,
            require_if_match=require_if_match,
            lane_names=lane_names,
        )
        self._dashboard = Dashboard() if ui else None
        self.router, self._outer = self._router(_ROUTES), self._router((health.routes,))
        self._document: dict[str, Any] | None = None
        self.asgi = self._build()

    def _router(self, subjects: Sequence[Routes], wanted: RouteChoice | None = None) -> APIRouter:
        router = APIRouter(route_class=type("Route", (Route,), {"door": self}))
        for routes in subjects:
            routes.add_routes_to(router, wanted)
        return router

    def select(self, *wanted: str) -> APIRouter:
        """A router with only the named routes: `host.include_router(api.select("GET /jobs", "/admin/workers/*"))`.

        A name is a path as the reference lists it, after a method or alone for every method. `{job_id}` may have any
        name, and a `*` at the end stands for the rest. ConfigurationError for one that no route has.
        """
        choice = RouteChoice(wanted)
        router = self._router(_ROUTES, choice)
        choice.require_all((entry.method, entry.path) for routes in _ROUTES for entry in routes.entries)
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

    @property
    def has_dashboard(self) -> bool:
        """Whether `asgi` serves the dashboard, or a page that says how to build it."""
        return self._dashboard is not None

    @override
    def shows_dashboard(self, request: Request) -> bool:
        return self.has_dashboard and request.app is self.asgi

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made at the first call: that takes a third of a second, and the event loop waits."""
        if self._document is None:
            self._document = openapi.describe(self.asgi)
        return dict(self._document)  # FastAPI adds the address of the server to it

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """Opens the database before the first request and closes it after the last."""
        with contextlib.suppress(Exception):
            await self.start()
        try:
            yield
        finally:
            await self.close()

    async def _unrouted(self, request: Request, error: Exception) -> Response:
        set_request_id(request)
        where = f"{request.scope.get('root_path', '')}{PREFIX}/openapi.json"
        status = getattr(error, "status_code", None)
        if status == HTTPStatus.NOT_FOUND:
            page = self._page(request)
            if page is not None:
                return with_headers(request, without_body(page) if request.method == "HEAD" else page)
            error = Problem("not-found", f"There is no route {request.url.path}. {where} lists the routes.")
        elif status == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = ", ".join(self._methods(request))
            if request.method == "OPTIONS":
                return with_headers(request, Response(status_code=HTTPStatus.NO_CONTENT, headers={"Allow": allowed}))
            detail = f"{request.url.path} does not support {request.method}. Use one of {allowed}."
            error = Problem("method-not-allowed", detail, headers={"Allow": allowed})
        return with_headers(request, problems.response_of(request, error))

    def _page(self, request: Request) -> Response | None:
        """The answer of the dashboard; None: the request is none of its own."""
        if self._dashboard is None:
            return None
        try:
            if self.loopback is not None:
                self.loopback.require_direct(request)
        except Problem as refusal:
            return problems.response_of(request, refusal)
        return self._dashboard.answer(request)

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
