"""Route: what every answer has in common, also where only the router is included in somebody's application."""

from __future__ import annotations

import asyncio
import functools
import re
import uuid
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from rowlock.api import invalid_requests, problems, sse
from rowlock.api.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from fastapi import APIRouter
    from fastapi.dependencies.models import Dependant
    from starlette.types import Message, Receive

    from rowlock.api.door import RowlockAPI

DOOR: Final = "rowlock.door"
"""Where the scope of a request keeps the RowlockAPI that answers it."""
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
    """Answers with problems instead of exceptions, caps bodies and the time of reads, and names each request.

    A subclass per RowlockAPI carries it: a router that a host includes has no application of ours around it.
    """

    door: ClassVar[RowlockAPI]

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner, door = super().get_route_handler(), self.door

        async def handle(request: Request) -> Response:
            name(request)
            request.scope[DOOR], request.scope[problems.TROUBLE] = door, door.outage
            try:
                capped = Request(request.scope, _capped(request, door.body_limit))
                self._refuse_unknown(request)
                await door.start()
                # A read that takes this long is cancelled in the database too.
                limit = door.read_seconds if request.method in SAFE and not self._streams else None
                async with asyncio.timeout(limit):
                    response = await inner(capped)
                if door.outage.ongoing and self._is_served(response):
                    door.outage.recovered()
            except RequestValidationError as error:
                response = problems.answer(request, invalid_requests.unfit(request, error, self._fields))
            except TimeoutError as error:
                response = self._refused(request, _late(error, door.read_seconds))
            except Exception as error:  # noqa: BLE001 - every one becomes a problem; those of ours are logged there
                response = self._refused(request, error)
            return finished(request, await _bodiless(response) if request.method == "HEAD" else response)

        return handle

    def _refused(self, request: Request, error: BaseException) -> Response:
        """The problem; inside a stream for an EventSource that should come back, which it does after no other status.

        Where the answer is no, it stays away: 401, 403 and 404 are told as they are.
        """
        problem = problems.answer(request, error)
        away = problem.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        if away and self._streams and sse.MEDIA_TYPE in request.headers.get("accept", ""):
            return sse.EventStream(sse.unavailable(bytes(problem.body)))
        return problem

    def _is_served(self, response: Response) -> bool:
        """Whether the database has taken part in it: a stream may begin without, and life needs none."""
        fine = response.status_code < HTTPStatus.BAD_REQUEST
        return fine and not self._streams and not self.path.endswith("/healthz")

    def _refuse_unknown(self, request: Request) -> None:
        """A mistyped parameter would be passed over: a list of everything instead of what was meant."""
        for name in request.query_params:
            if name not in self._queried:
                raise invalid_requests.unknown_parameter(name, self._queried)

    @functools.cached_property
    def _queried(self) -> tuple[str, ...]:
        return tuple(_query_names(self.dependant))

    @functools.cached_property
    def _fields(self) -> tuple[str, ...]:
        shape = None if self.body_field is None else self.body_field.field_info.annotation
        return tuple(getattr(shape, "model_fields", ()))

    @property
    def _streams(self) -> bool:
        return bool((self.openapi_extra or {}).get("x-streams"))


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
    says: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Routes:
    """Routes of one subject, written once and put into the router of any number of doors."""

    tag: str
    entries: list[_Entry] = field(default_factory=list)

    def _add(self, method: str, path: str, needs: str | None, says: dict[str, Any]) -> Callable[..., Any]:
        extra = {"x-permission": needs, **says.pop("extra", {})}

        def register(endpoint: Callable[..., Any]) -> Callable[..., Any]:
            self.entries.append(_Entry(method, path, endpoint, {**says, "openapi_extra": extra}))
            return endpoint

        return register

    def get(self, path: str, *, needs: str | None, **says: Any) -> Callable[..., Any]:  # noqa: ANN401 - APIRouter's
        """A read. needs: the permission the desk asks for; None: nobody's."""
        return self._add("GET", path, needs, says)

    def post(self, path: str, *, needs: str | None, **says: Any) -> Callable[..., Any]:  # noqa: ANN401 - APIRouter's
        """An order, or something new."""
        return self._add("POST", path, needs, says)

    def patch(self, path: str, *, needs: str | None, **says: Any) -> Callable[..., Any]:  # noqa: ANN401 - APIRouter's
        """A change."""
        return self._add("PATCH", path, needs, says)

    def delete(self, path: str, *, needs: str | None, **says: Any) -> Callable[..., Any]:  # noqa: ANN401 - APIRouter's
        """A removal."""
        return self._add("DELETE", path, needs, says)

    def into(self, router: APIRouter) -> None:
        """Add them to a router, whose route class knows its door."""
        for entry in self.entries:
            says = {"status_code": 200, **entry.says}
            named = says | {"operation_id": entry.endpoint.__name__, "tags": [self.tag]}
            router.add_api_route(entry.path, entry.endpoint, methods=[entry.method], **named)
            if entry.method == "GET":
                # A route of its own: as a second method of the first it would be described as another operation.
                router.add_api_route(entry.path, entry.endpoint, methods=["HEAD"], include_in_schema=False, **says)


def name(request: Request) -> str:
    """Give the request its id: the caller's, if it is harmless."""
    given = request.headers.get("x-request-id", "")
    chosen = given if _ID.fullmatch(given) else uuid.uuid4().hex
    request.scope[problems.REQUEST_ID] = chosen
    return chosen


def finished(request: Request, response: Response) -> Response:
    """Add the headers that every answer has; a route's own word counts."""
    for key, value in {**HEADERS, "X-Request-Id": request.scope[problems.REQUEST_ID]}.items():
        response.headers.setdefault(key, value)
    return response


async def _bodiless(response: Response) -> Response:
    """The answer to HEAD: status and headers of the GET, its length too."""
    frames = getattr(response, "body_iterator", None)
    if frames is not None:
        # A generator that never began would not let go of what it holds.
        await anext(frames, None)
        await frames.aclose()
    bare = Response(status_code=response.status_code)
    bare.raw_headers = response.raw_headers
    return bare


def _late(error: TimeoutError, seconds: float) -> BaseException:
    # OSError's TimeoutError of a connection is an outage; ours carries no message.
    if error.args:
        return error
    return Problem("too-slow", f"Reading took longer than {seconds:g} s. Ask for less.", headers={"Retry-After": "5"})


def _capped(request: Request, limit: int) -> Receive:
    """Refuse a body above the limit: by what it says of its length, and by what comes."""
    problem = Problem("too-large", f"A body of at most {limit:,} bytes is expected.", headers={"Connection": "close"})
    said = request.headers.get("content-length", "")
    if said.isascii() and said.isdigit() and int(said) > limit:
        raise problem
    came = 0

    async def receive() -> Message:
        nonlocal came
        message = await request.receive()
        came += len(message.get("body", b""))
        if came > limit:
            raise problem
        return message

    return receive
