"""The OpenAPI document: generated from the routes; problems, links, events, defaults and examples are added."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from rowlock.api.openapi_links import add_links
from rowlock.api.problems import MEDIA_TYPE
from rowlock.api.schemas.base import ProblemBody
from rowlock.api.schemas.embed import EmbeddedStreamEvent
from rowlock.api.schemas.events import FeedStreamEvent, JobStreamEvent
from rowlock.api.schemas.fields import JOB_ID
from rowlock.api.streaming.sse import MEDIA_TYPE as EVENT_STREAM
from rowlock.model.problem_codes import CODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from fastapi import FastAPI

    Schema: TypeAlias = dict[str, Any]

_ABOUT: Final = (
    "Submit, find, steer and watch background jobs. Job ids are public ids in Crockford Base32; requests may use "
    "numbers too. Instants are RFC 3339 in UTC. Durations are seconds in answers; in requests a number of seconds or a "
    "text such as `30s`, `1h30m` or `PT10M`. Failures are RFC 9457 problems with a stable `code`."
)
_TAGS: Final = {
    "jobs": "Submit, find, read and order jobs",
    "workflows": "Jobs that wait for each other",
    "approvals": "Jobs that wait for a person, and rules that approve in advance",
    "kinds": "What may be submitted",
    "workers": "Workers and the jobs in their slots",
    "lanes": "Shares of workers, changed while everything runs",
    "limits": "Gates and rates",
    "locks": "Locks that jobs hold",
    "schedules": "Jobs by cron rule or interval",
    "stats": "Backlog, throughput and failures",
    "streams": "Server-sent events",
    "access": "The caller, tokens and the audit",
    "embed": "Jobs for pages of the application's own users, with tokens made for one job or one person",
    "health": "Probes and metrics",
}
_REF: Final = "#/components/schemas/"
_OPEN: Final = ("/healthz", "/readyz", "/api/v1/auth/", "/api/v1/embed/rowlock-elements.js")
"""Paths that need no credentials."""
_HEADERS: Final[dict[str, tuple[str, object]]] = {
    "Location": ("Path of what was created.", f"/api/v1/jobs/{JOB_ID}"),
    "Retry-After": ("Seconds until asking again makes sense; absent: the job has ended.", "1"),
    "Preference-Applied": ("The `wait` that was applied; absent without `Prefer: wait`.", "wait=10"),
    "Idempotency-Replayed": ("`true` when this Idempotency-Key was used before; absent otherwise.", "true"),
    "ETag": ("Version of the representation, for If-Match and If-None-Match.", '"3"'),
    "Link": (
        "Links to the next and previous page (RFC 8288); absent: there is none.",
        '</jobs?cursor=eyJ>; rel="next"',
    ),
}
_STREAMS: Final[dict[str, tuple[Any, str]]] = {
    "JobStreamEvent": (JobStreamEvent, "One event of GET /jobs/{job_id}/stream; `event` tells which."),
    "EmbeddedStreamEvent": (
        EmbeddedStreamEvent,
        "One event of GET /embed/jobs/{job_id}/stream; `event` tells which.",
    ),
    "FeedStreamEvent": (FeedStreamEvent, "One event of GET /events; `event` tells which."),
}
_OWN_HEADERS: Final = {
    "submit_job": ("Location", "Retry-After", "Preference-Applied", "Idempotency-Replayed"),
    "clone_job": ("Location",),
    "order_jobs": ("Location", "Retry-After"),
}


def describe(app: FastAPI) -> Schema:
    """The OpenAPI 3.1 document of the whole API; the same wherever it is mounted."""
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
    _add(schemas, "Problem", ProblemBody)
    for name, (union, about) in _STREAMS.items():
        _add(schemas, name, union)
        schemas[name] |= {"title": name, "description": about}
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "embed": {
            "type": "http",
            "scheme": "bearer",
            "description": "Token of `app.tokens.for_job()` or `for_user()`.",
        },
    }
    for path, item in document["paths"].items():
        for method, operation in item.items():
            _complete(path, method, operation)
    add_links(document)
    for name in _reachable(_request_refs(document), schemas):
        _move_defaults(schemas[name])
    for schema in schemas.values():
        _tidy(schema, schemas)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _add(schemas: dict[str, Schema], name: str, model: Any) -> None:  # noqa: ANN401 - a type or a union
    """Add a schema that no route declares as its model, with all it refers to."""
    made = TypeAdapter[Any](model).json_schema(ref_template=f"{_REF}{{model}}")
    for each, schema in made.pop("$defs", {}).items():
        if each != "ProblemBody":
            schemas.setdefault(each, _with_problem_name(schema))
    schemas[name] = _with_problem_name(made)


def _with_problem_name(schema: Schema) -> Schema:
    """The body of a problem is called Problem in the document; in Python that is the exception."""
    for each in _walk(schema):
        if each.get("$ref") == f"{_REF}ProblemBody":
            each["$ref"] = f"{_REF}Problem"
    if schema.get("title") == "ProblemBody":
        schema["title"] = "Problem"
    return schema


def _walk(value: object) -> Iterator[Schema]:
    """Every object within a JSON value."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _walk(each)
    elif isinstance(value, list):
        for each in value:
            yield from _walk(each)


# --- Operations -------------------------------------------------------------------------------------------------------


def _complete(path: str, method: str, operation: Schema) -> None:
    """Add the problems, headers and credentials of an operation."""
    responses = operation["responses"]
    responses.pop("422", None)
    for each in operation.get("parameters", ()):
        each["schema"].pop("title", None)
        each["schema"].pop("description", None)
    parameters = {each["name"].lower() for each in operation.get("parameters", ())}
    if not path.startswith(_OPEN):
        operation["security"] = [{"embed": []} if operation.get("x-embed") else {"bearer": []}]
    needed = operation.pop("x-permission")
    summary = operation["description"].partition("\n")[0]
    if needed:
        operation["description"] = f"{operation['description']}\n\nNeeds {needed}."
    if "if-none-match" in parameters:
        responses["304"] = {"description": "The ETag of If-None-Match is current."}
    codes = sorted({*operation.pop("x-problems"), *_common_codes(path, method, operation, parameters)})
    for status in sorted({CODES[code].status for code in codes}):
        responses.setdefault(str(status), _problem(code for code in codes if CODES[code].status == status))
    for status, response in responses.items():
        if response.get("description") == "Successful Response":
            response["description"] = summary
        if status.startswith("2"):
            _describe_headers(operation, response, parameters)
        if operation.get("x-streams"):
            # FastAPI takes the media type for a plain text.
            response.get("content", {}).get(EVENT_STREAM, {}).get("schema", {}).pop("type", None)
    operation["responses"] = dict(sorted(responses.items()))


def _common_codes(path: str, method: str, operation: Schema, parameters: set[str]) -> Iterator[str]:
    """Codes of the problems that follow from the shape of an operation."""
    yield from ("invalid-request", "internal", "unavailable")
    if method == "get":
        yield "too-slow"
    else:
        yield from ("read-only", "cross-site")
    if "security" in operation:
        yield from ("unauthenticated", "forbidden", "no-auth-configured", "cross-site", "too-many-requests")
    if "requestBody" in operation:
        yield from ("bad-request", "too-large", "unsupported-media-type")
    if "{job_id}" in path:
        yield from ("invalid-id", "job-not-found")
    if "{workflow_id}" in path:
        yield from ("invalid-id", "workflow-not-found")
    if "if-match" in parameters:
        yield from ("if-match-required", "version-mismatch")


def _problem(codes: Iterable[str]) -> Schema:
    """A response with one of these problems. x-codes: the same for programs."""
    named = list(codes)
    return {
        "description": " ".join(f"`{name}`: {CODES[name].title}." for name in named),
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"{_REF}Problem"}}},
        "x-codes": named,
    }


def _describe_headers(operation: Schema, response: Schema, parameters: set[str]) -> None:
    names = list(_OWN_HEADERS.get(operation["operationId"], ()))
    names += ["ETag"] if parameters & {"if-match", "if-none-match"} else []
    names += ["Link"] if "cursor" in parameters and operation["operationId"] != "list_logs" else []
    if names:
        response["headers"] = {
            name: {"description": _HEADERS[name][0], "schema": {"type": "string", "examples": [_HEADERS[name][1]]}}
            for name in names
        }


# --- Schemas ----------------------------------------------------------------------------------------------------------


def _request_refs(document: Schema) -> list[str]:
    """Names of the schemas that request bodies refer to."""
    bodies = [
        operation["requestBody"]
        for item in document["paths"].values()
        for operation in item.values()
        if "requestBody" in operation
    ]
    return [name for body in bodies for name in _refs(body)]


def _refs(value: object) -> Iterator[str]:
    for each in _walk(value):
        if isinstance(reference := each.get("$ref"), str):
            yield reference.removeprefix(_REF)


def _reachable(names: Iterable[str], schemas: dict[str, Schema]) -> set[str]:
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _refs(schemas[name])
    return found


def _move_defaults(schema: Schema) -> None:
    """Name defaults of a request in the description only: generators make a field with `default` a required one."""
    for field in schema.get("properties", {}).values():
        default = field.pop("default", None)
        if default is not None and default not in ([], {}):
            text = default if isinstance(default, str) else str(default).lower()
            field["description"] = f"{field['description']} Default: {text}."


def _tidy(schema: Schema, schemas: dict[str, Schema]) -> None:
    """Drop titles that repeat the name of a field, and null defaults; compose examples of fields that refer."""
    for name, field in schema.get("properties", {}).items():
        field.pop("title", None)
        if field.get("default", 0) is None:
            del field["default"]
        if "examples" not in field:
            if field.get("type") != "array" and not field.keys() & {"$ref", "anyOf"}:
                where = f"{schema.get('title')}.{name}"
                message = f"{where} has no example. Declare it with doc(…), as api/schemas/fields.py does."
                raise ValueError(message)
            field["examples"] = [_example(field, schemas)]


def _example(schema: Schema, schemas: dict[str, Schema], *, nested: bool = False) -> object:
    """An example of a field: its own, or one composed of what it refers to. nested: optional parts are left out."""
    if schema.get("examples"):
        return schema["examples"][0]
    if "$ref" in schema:
        fields = schemas[schema["$ref"].removeprefix(_REF)]
        required = fields.get("required", ())
        return {
            name: _example(field, schemas, nested=True)
            for name, field in fields.get("properties", {}).items()
            if name in required
        }
    if schema.get("type") == "array":
        return [] if nested else [_example(schema["items"], schemas)]
    choices = schema.get("anyOf", [])
    return None if nested else _example(choices[0], schemas)
