"""Problems of requests whose body or parameters do not fit their route: which field, and what it should be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from rowlock.api.problems import Problem
from rowlock.model.spelling.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fastapi.exceptions import RequestValidationError
    from starlette.requests import Request

_SHOWN: Final = 3
_NO_OBJECT: Final = ("model_attributes_type", "model_type", "dict_type")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One part of a request that does not fit. pointer: a JSON pointer into the body, or the parameter's name."""

    pointer: str
    detail: str


def invalid_request(request: Request, error: RequestValidationError, fields: Collection[str]) -> Problem:
    """The problem of a validation error. fields: names of the fields of the route's body."""
    found: Sequence[Any] = error.errors()
    broken = next((item for item in found if item["type"] == "json_invalid"), None)
    if broken is not None:
        why = f"{broken['ctx']['error']} at character {broken['loc'][-1] + 1}"
        errors = [FieldError("#/", why)]
        return Problem("bad-request", f"The body is not valid JSON: {why}.", errors=_as_json(errors))
    if isinstance(error.body, bytes):
        came = request.headers.get("content-type", "none")
        detail = f"The body must be JSON, sent with Content-Type: application/json; its Content-Type is {came}."
        return Problem("unsupported-media-type", detail)
    errors = [FieldError(_pointer(item["loc"]), _detail(item, fields)) for item in found]
    summary = "; ".join(f"{each.pointer}: {each.detail}" for each in errors[:_SHOWN])
    return Problem("invalid-request", f"The request does not fit: {summary}.", errors=_as_json(errors))


def unknown_parameter(name: str, known: Collection[str]) -> Problem:
    """The problem of a query parameter that the route does not have: ignoring a mistyped one would mislead."""
    errors = [FieldError(name, _no_such("parameter", name, known))]
    return Problem("invalid-request", f"The request does not fit: {name}: {errors[0].detail}.", errors=_as_json(errors))


def _detail(item: Any, fields: Collection[str]) -> str:  # noqa: ANN401 - a dictionary of pydantic's
    where, *rest = item["loc"]
    if where == "body" and item["type"] == "extra_forbidden" and len(rest) == 1:
        return _no_such("field", str(rest[0]), fields)
    if where == "body" and not rest and item["type"] == "missing":
        return f"A JSON object is expected as the body, with {', '.join(fields)}"
    if where == "body" and item["type"] in _NO_OBJECT:
        return f"A JSON object is expected, got a JSON {_json_type(item['input'])}"
    return str(item["msg"])


def _no_such(what: str, name: str, known: Collection[str]) -> str:
    there_are = f"there are {', '.join(known)}" if known else "there are none"
    near = closest(name, known, n=1)
    return f"There is no such {what}{f' (did you mean {near[0]}?)' if near else ''}; {there_are}"


def _json_type(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _as_json(errors: Sequence[FieldError]) -> list[dict[str, str]]:
    return [asdict(each) for each in errors]


def _pointer(location: Sequence[int | str]) -> str:
    where, *rest = location
    if where == "body":
        return "#/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in rest)
    return ".".join(map(str, rest)) or str(where)
