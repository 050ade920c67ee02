"""Route and Routes: what all answers share, also when a host application includes only the router."""

from __future__ import annotations

import asyncio
import functools
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias
from urllib.parse import urlencode

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from rowlock.api import invalid_requests, problems
from rowlock.api.lane_names import LANE_NAMES
from rowlock.api.problems import Problem
from rowlock.api.route_choice import RouteChoice
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.schemas.base import RENAMED
from rowlock.api.streaming import sse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from fastapi import APIRouter
    from fastapi.dependencies.models import Dependant
    from starlette.types import Message, Receive

    from rowlock.api.backend import ApiBackend
    from rowlock.model.access import Permission

Needs: TypeAlias = "RoutePermissions | Permission | None"
DOOR: Final = "rowlock.door"
"""Key of the RowlockAPI that answers a request in its ASGI scope."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_ID: Final = re.compile(r"[\w.:/+=-]{1,100}")


class Route(APIRoute):
    """Turns exceptions into problems, limits the size of bodies and the time of reads, and gives each request an id.

    Each RowlockAPI has a subclass that refers to it, because a host may include the router without our application.
    """

    door: ClassVar[ApiBackend]

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner, door = super().get_route_handler(), self.door

        async def handle(request: Request) -> Response:
            set_request_id(request)
            door.proxies.apply(request.scope)
            request.scope[DOOR], request.scope[problems.OUTAGE_LOG] = door, door.outage
            LANE_NAMES.set(door.lane_names)
            try:
                self._read_old_parameter_names(request)
                capped = Request(request.scope, _capped(request, door.body_limit, door.body_seconds))
                self._refuse_unknown_parameters(capped)
                await door.start()
                # The database cancels the read too.
                limit = door.read_seconds if request.method in SAFE and not self._streams else None
                async with asyncio.timeout(limit):
                    response = await inner(capped)
                if door.outage.ongoing and self._used_database(response):
                    door.outage.recovered()
            except RequestValidationError as error:
                response = problems.response_of(request, invalid_requests.invalid_request(request, error, self._fields))
            except TimeoutError as error:
                response = self._refused(request, _late(error, door.read_seconds))
            except Exception as error:  # noqa: BLE001 - each becomes a problem, and bugs are logged there
                await door.record_refusal(request, self.path, error)
                response = self._refused(request, error)
            if self._embeds:
                door.origins.add_headers(request, response, methods=self._preflight)
            return with_headers(request, without_body(response) if request.method == "HEAD" else response)

        return handle

    def _refused(self, request: Request, error: BaseException) -> Response:
        """The problem. During an outage an EventSource gets it as an event with status 200, or it would not reconnect.

        401, 403 and 404 keep their status, after which a browser rightly stops.
        """
        problem = problems.response_of(request, error)
        away = problem.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        if away and self._streams and sse.MEDIA_TYPE in request.headers.get("accept", ""):
            return sse.EventStream(sse.unavailable(bytes(problem.body)))
        return problem

    def _used_database(self, response: Response) -> bool:
        """Whether the answer proves that the database is back: streams may begin without it, /healthz needs none."""
        fine = response.status_code < HTTPStatus.BAD_REQUEST
        return fine and not self._streams and not self.path.endswith("/healthz")

    def _read_old_parameter_names(self, request: Request) -> None:
        """Give parameters under an old name their current one; one that comes under both is refused as unknown."""
        known = self._parameters
        sent = QueryParams(request.scope["query_string"])
        old = {
            name: RENAMED[name]
            for name in sent
            if name not in known and RENAMED.get(name) in known and RENAMED[name] not in sent
        }
        if old:
            pairs = [(old.get(name, name), value) for name, value in sent.multi_items()]
            request.scope["query_string"] = urlencode(pairs).encode()

    def _refuse_unknown_parameters(self, request: Request) -> None:
        """Refuses mistyped filters: ignoring one would answer with every job."""
        # A preflight names the parameters of the request that follows it; identity providers add their own.
        extra = self.openapi_extra or {}
        for name in () if self._preflight or extra.get("x-any-query") else request.query_params:
            if name not in self._parameters:
                raise invalid_requests.unknown_parameter(name, self._parameters)

    @functools.cached_property
    def _parameters(self) -> tuple[str, ...]:
        return tuple(_query_names(self.dependant))

    @functools.cached_property
    def _fields(self) -> tuple[str, ...]:
        shape = None if self.body_field is None else self.body_field.field_info.annotation
        return tuple(getattr(shape, "model_fields", ()))

    @property
    def _streams(self) -> bool:
        return bool((self.openapi_extra or {}).get("x-streams"))

    @property
    def _embeds(self) -> bool:
        """Whether pages of other origins may use it, if their origin is allowed."""
        return bool((self.openapi_extra or {}).get("x-embed"))

    @property
    def _preflight(self) -> str | None:
        """The methods to name in the answer to OPTIONS; None: this is no such route."""
        return (self.openapi_extra or {}).get("x-preflight")


def _query_names(dependant: Dependant) -> Iterator[str]:
    for each in dependant.query_params:
        shape = getattr(each.field_info.annotation, "model_fields", None)
        yield from (each.alias,) if shape is None else (info.alias or name for name, info in shape.items())
    for other in dependant.dependencies:
        yield from _query_names(other)


@dataclass(frozen=True, slots=True)
class _Entry:
    method: str
    path: str
    endpoint: Callable[..., Any]
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Routes:
    """The routes of one subject, declared once and added to the router of every RowlockAPI."""

    tag: str
    entries: list[_Entry] = field(default_factory=list)

    def _add(self, method: str, path: str, needs: Needs, options: dict[str, Any]) -> Callable[..., Any]:
        codes: Sequence[str] = options.pop("problems", ())
        permissions = RoutePermissions.of(needs)
        extra = {"x-permissions": permissions.data, "x-problems": list(codes), **options.pop("extra", {})}
        extra["x-permission"] = permissions.text

        def register(endpoint: Callable[..., Any]) -> Callable[..., Any]:
            self.entries.append(_Entry(method, path, endpoint, {**options, "openapi_extra": extra}))
            return endpoint

        return register

    def get(self, path: str, *, needs: Needs, **options: Any) -> Callable[..., Any]:  # noqa: ANN401 - APIRouter's
        """A read. needs: what the desk demands; None: nothing; problems: codes of its own, for OpenAPI."""
        return self._add("GET", path, needs, options)

    def post(self, path: str, *, needs: Needs, **options: Any) -> Callable[..., Any]:  # noqa: ANN401 - APIRouter's
        """An order, or the creation of something."""
        return self._add("POST", path, needs, options)

    def patch(self, path: str, *, needs: Needs, **options: Any) -> Callable[..., Any]:  # noqa: ANN401 - APIRouter's
        """A change."""
        return self._add("PATCH", path, needs, options)

    def delete(self, path: str, *, needs: Needs, **options: Any) -> Callable[..., Any]:  # noqa: ANN401 - APIRouter's
        """A removal."""
        return self._add("DELETE", path, needs, options)

    def add_routes_to(self, router: APIRouter, wanted: RouteChoice | None = None) -> None:
        """Add the routes, or those that are wanted, to a router whose route class is a subclass of Route."""
        for entry in self.entries:
            if wanted is not None and not wanted.takes(entry.method, entry.path):
                continue
            options = {"status_code": 200, **entry.options}
            named = options | {"operation_id": entry.endpoint.__name__, "tags": [self.tag]}
            router.add_api_route(entry.path, entry.endpoint, methods=[entry.method], **named)
            if entry.options["openapi_extra"].get("x-embed"):
                allowed = "GET, HEAD" if entry.method == "GET" else entry.method
                extra = {"x-embed": True, "x-preflight": allowed}
                router.add_api_route(
                    entry.path, _preflighted, methods=["OPTIONS"], include_in_schema=False, openapi_extra=extra
                )
            if entry.method == "GET":
                # As a second method of the same route it would appear in OpenAPI as another operation.
                router.add_api_route(entry.path, entry.endpoint, methods=["HEAD"], include_in_schema=False, **options)


async def _preflighted(request: Request) -> Response:
    """The answer to OPTIONS; a browser that finds no header of CORS in it refuses the page its request."""
    methods = request.scope["route"].openapi_extra["x-preflight"]
    return Response(status_code=HTTPStatus.NO_CONTENT, headers={"Allow": f"{methods}, OPTIONS"})


def set_request_id(request: Request) -> None:
    """Store the id of the request in its scope: the client's X-Request-Id if it is harmless, else a new one."""
    sent = request.headers.get("x-request-id", "")
    request.scope[problems.REQUEST_ID] = sent if _ID.fullmatch(sent) else uuid.uuid4().hex


def with_headers(request: Request, response: Response) -> Response:
    """Add the headers that every answer has; headers that a route has set stay."""
    for key, value in {**HEADERS, "X-Request-Id": request.scope[problems.REQUEST_ID]}.items():
        response.headers.setdefault(key, value)
    return response


def without_body(response: Response) -> Response:
    """The answer to HEAD: status and headers of the GET, its length included."""
    if isinstance(response, sse.EventStream):
        response.release()
    bare = Response(status_code=response.status_code)
    bare.raw_headers = response.raw_headers
    return bare


def _late(error: TimeoutError, seconds: float) -> BaseException:
    # OSError's TimeoutError of a connection is an outage; ours carries no message.
    if error.args:
        return error
    return Problem(
        "too-slow",
        f"Reading took longer than {seconds:g} s and was cancelled. Ask for less: a smaller page or a narrower search.",
        headers={"Retry-After": "5"},
    )


def _slow_body(seconds: float) -> Problem:
    return Problem(
        "too-slow-request",
        f"The body did not come within {seconds:g} s. Send it again, faster.",
        headers={"Connection": "close"},
    )


def _capped(request: Request, limit: int, seconds: float) -> Receive:
    """Refuse a body above the limit, by its Content-Length and by the bytes that arrive, or a slow one."""
    problem = Problem(
        "too-large",
        f"The body is larger than {limit:,} bytes, the limit here. Send less.",
        headers={"Connection": "close"},
    )
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > limit:
        raise problem
    received, complete = 0, False
    until = asyncio.get_running_loop().time() + seconds

    async def receive() -> Message:
        nonlocal received, complete
        try:
            # After the body, the next message is that the client has gone.
            async with asyncio.timeout_at(None if complete else until):
                message = await request.receive()
        except TimeoutError:
            raise _slow_body(seconds) from None
        complete = not message.get("more_body", False)
        received += len(message.get("body", b""))
        if received > limit:
            raise problem
        return message

    return receive
