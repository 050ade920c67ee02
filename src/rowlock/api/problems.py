"""Problems (RFC 9457): the body of every error response, made from any exception."""

from __future__ import annotations

import logging
import sys
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from typing_extensions import override

from rowlock import errors
from rowlock.model.problem import code_of, members_of
from rowlock.model.problem_codes import CODES
from rowlock.model.stored_json import DEEPEST_REQUEST
from rowlock.store.database import OUTAGE, TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

logger = logging.getLogger("rowlock.api")
MEDIA_TYPE: Final = "application/problem+json"
REQUEST_ID: Final = "rowlock.request_id"
"""Key of the request's id in its ASGI scope."""
OUTAGE_LOG: Final = "rowlock.outage"
"""Key of the log of database outages in the ASGI scope."""
TYPE_PREFIX: Final = "urn:rowlock:problem:"
TOO_DEEP: Final = f"The body is nested more than {DEEPEST_REQUEST} levels deep"
_RETRY: Final = {"Retry-After": "5"}
BEARER: Final = {"WWW-Authenticate": 'Bearer realm="rowlock"'}


class Problem(Exception):
    """Raised by a route to answer with a problem. more: extra members, such as `current` of a 412."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        status: int | None = None,
        **more: Any,  # noqa: ANN401 - JSON
    ) -> None:
        super().__init__(detail)
        self.code, self.detail, self.more, self.headers = CODES[code], detail, more, dict(headers or {})
        self.status = self.code.status if status is None else status


_OUTAGES: Final[dict[type[BaseException], str]] = {
    errors.DatabaseUnreachable: "the database cannot be reached",
    errors.DatabaseBusy: "another transaction holds what the request needs",
    errors.SchemaMissing: "the schema is missing",
    errors.SchemaBehind: "the schema is older than this code",
    errors.SchemaAhead: "the schema is too new for this code",
    TimeoutError: "the database does not answer in time",
}


def problem_of(error: BaseException) -> Problem:
    """The problem of an exception. Only foreseeable ones show their message; others reveal nothing internal."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return _wrapped(error)
    code = "unavailable" if isinstance(error, (*OUTAGE, *TRANSIENT)) else code_of(error).name
    if code == "unavailable":
        return Problem(code, f"{outage_of(error).capitalize()}. Try again.", headers=_RETRY)
    if code in CODES:
        return Problem(code, str(error), headers=_headers(error), **members_of(error))
    return Problem(
        "internal", "The request failed because of a bug. The server's log has the details under the request_id."
    )


def _wrapped(error: HTTPException) -> Problem:
    """The problem of an exception of Starlette's; FastAPI wraps those that are raised while it reads the body."""
    cause = error.__cause__
    if isinstance(cause, Problem):
        return cause
    if cause is None or error.status_code != HTTPStatus.BAD_REQUEST:
        return _http(error)
    if isinstance(cause, RecursionError):  # how deep it must be for that differs between releases of Python
        detail = f"The request does not fit: #/: {TOO_DEEP}."
        return Problem("invalid-request", detail, errors=[{"pointer": "#/", "detail": TOO_DEEP}])
    return Problem("bad-request", f"The body cannot be read: {_unreadable(cause)}.")


def _unreadable(cause: BaseException) -> str:
    if isinstance(cause, UnicodeDecodeError):
        return f"it is not UTF-8 at byte {cause.start + 1}"
    if isinstance(cause, ValueError):
        return f"an integer has more than {sys.get_int_max_str_digits():,} digits"
    return "it did not come whole"


def _headers(error: BaseException) -> dict[str, str]:
    if isinstance(error, errors.TooManyAttempts):
        return {"Retry-After": str(error.retry_after)}
    return dict(BEARER) if isinstance(error, errors.NotAuthenticated) else {}


def outage_of(error: BaseException) -> str:
    """What is wrong with the database, without the names of servers and users in the exception's message."""
    return next((text for kind, text in _OUTAGES.items() if isinstance(error, kind)), "the database cannot serve")


class ProblemResponse(JSONResponse):
    """A response with a problem as its body."""

    media_type = MEDIA_TYPE

    @override
    def render(self, content: Any) -> bytes:
        """Escape lone surrogates, which a request may contain and UTF-8 cannot encode."""
        try:
            return super().render(content)
        except UnicodeEncodeError:
            return super().render(_encodable(content))


def response_of(request: Request, error: BaseException) -> ProblemResponse:
    """The response to an exception; bugs are logged with their traceback."""
    problem = problem_of(error)
    request_id = request.scope.get(REQUEST_ID)
    if problem.code.name == "unavailable":
        outage = request.scope.get(OUTAGE_LOG)
        outage.failed(error) if outage is not None else logger.warning("request %s: %s", request_id, error)
    if problem.code.name == "internal":
        logger.error("request %s: %s %s", request_id, request.method, request.url.path, exc_info=error)
    body = {
        "type": TYPE_PREFIX + problem.code.name,
        "title": problem.code.title,
        "status": problem.status,
        "detail": problem.detail,
        "instance": request.url.path,
        "code": problem.code.name,
        "request_id": request_id,
        **problem.more,
    }
    return ProblemResponse(body, status_code=problem.status, headers=problem.headers)


_BY_STATUS: Final = {
    400: "bad-request",
    401: "unauthenticated",
    403: "forbidden",
    405: "method-not-allowed",
    413: "too-large",
}


def _http(error: HTTPException) -> Problem:
    name = _BY_STATUS.get(
        error.status_code, "not-found" if error.status_code == HTTPStatus.NOT_FOUND else "bad-request"
    )
    detail = error.detail if isinstance(error.detail, str) else CODES[name].title
    return Problem(name, detail, headers=error.headers, status=error.status_code)


def _encodable(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list) else value
