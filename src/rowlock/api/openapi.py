"""Document: the OpenAPI description, with problems as what they are."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from fastapi.openapi.utils import get_openapi

from rowlock.api.problems import CODES, MEDIA_TYPE

if TYPE_CHECKING:
    from fastapi import FastAPI

_ABOUT: Final = (
    "Submit, find, steer and watch background jobs. Ids are Crockford Base32, instants RFC 3339 in UTC, durations "
    "seconds. Every answer that is no success is an RFC 9457 problem with a stable `code`."
)
_TAGS: Final = {
    "jobs": "Submit, find, read and order jobs",
    "approvals": "What waits for a person, and what is approved in advance",
    "kinds": "What may be submitted",
    "workers": "Who works on what",
    "lanes": "Shares of workers, tuned while everything runs",
    "stats": "How much there is to do, how fast it is done, and what goes wrong",
    "streams": "What happens, as it happens",
    "access": "Who may do what, and who did",
    "health": "For probes",
}
_FAULT: Final = {
    "type": "object",
    "required": ["pointer", "detail"],
    "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
}
_PROBLEM: Final = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457. `code` is stable; more members depend on it.",
    "required": ["type", "title", "status", "detail", "instance", "code", "request_id"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string", "enum": sorted(CODES)},
        "request_id": {"type": "string"},
        "errors": {"type": "array", "items": _FAULT},
        "current_state": {"type": "string"},
        "allowed": {"type": "array", "items": {"type": "string"}},
        "permission": {"type": "string"},
        "current": {"type": "object"},
        "job_id": {"type": "string"},
        "position": {"type": "integer"},
        "suggestion": {"type": "string"},
    },
}
_ALSO: Final = {
    "submit_job": "It ended while you waited, or was there already",
    "order_jobs": "The dry run",
}
"""What a 200 means where the usual answer is 202."""
_EVERYWHERE: Final = (400, 413, 415, 422, 500, 503)
_BODYLESS: Final = (400, 422, 500, 503)


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the whole door; the same whatever it is mounted under."""
    document = get_openapi(
        title="Rowlock",
        version=metadata.version("rowlock"),
        openapi_version="3.1.0",
        description=_ABOUT,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
    )
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM
    document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            _complete(path, method, operation)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add what every operation may answer; what a route says of its own stays."""
    responses = operation["responses"]
    responses.pop("422", None)
    open_to_all = path.startswith(("/healthz", "/readyz"))
    statuses = {*(_EVERYWHERE if "requestBody" in operation else _BODYLESS)}
    if not open_to_all:
        operation["security"] = [{"bearer": []}]
        statuses |= {401, 403}
    if "{" in path or "requestBody" in operation:
        statuses.add(404)
    if method != "get":
        statuses.add(409)
    parameters = {each["name"].lower() for each in operation.get("parameters", ())}
    if "if-match" in parameters:
        statuses |= {412, 428}
    if "if-none-match" in parameters:
        responses["304"] = {"description": "Not changed"}
    if "501" in responses:
        responses["501"] = _problem(501)
    for status in sorted(statuses):
        responses.setdefault(str(status), _problem(status))
    if (also := _ALSO.get(operation["operationId"])) is not None:
        responses["200"] = {**responses["202"], "description": also}
    operation["responses"] = dict(sorted(responses.items()))


def _problem(status: int) -> dict[str, Any]:
    codes = ", ".join(sorted(code.name for code in CODES.values() if code.status == status))
    return {"description": codes, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
