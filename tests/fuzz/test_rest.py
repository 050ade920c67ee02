"""The REST door with strange ids, queries and bodies: bytes no UTF-8 has, NUL, half surrogate pairs, huge numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.profile import PATIENCE, tried
from tests.fuzz.stage import THERE, stage
from tests.fuzz.strange import IDS, NUMBERS, TEXTS, json_values, short

from rowlock.model import ids

if TYPE_CHECKING:
    from tests.fuzz.conftest import Bench

DOCUMENT: Final = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))
ROUTES: Final = [
    (method, path.removeprefix("/api/v1"), operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if path.startswith("/api/v1") and not operation.get("x-streams")
]
NUMBERED: Final = st.integers(1, 5).map(ids.encode) | st.integers(1, 2).map(ids.encode_workflow)
SAID: Final = st.one_of(THERE, NUMBERED, IDS.filter(short).map(str), TEXTS)
QUOTED: Final = SAID.map(lambda text: quote(text.encode(errors="surrogatepass")[:2000], safe="") or "%00")


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def body_of(schema: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Bodies of about the right form: fields as named, their values right, strange or of another type."""
    schema = resolved(schema)
    if "anyOf" in schema:
        return st.one_of(*(body_of(one, depth) for one in schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | TEXTS
    match schema.get("type"):
        case "object" if schema.get("properties") and depth < 4:
            fields = {name: body_of(one, depth + 1) for name, one in schema["properties"].items()}
            needed = {name: fields.pop(name) for name in schema.get("required", ()) if name in fields}
            return st.fixed_dictionaries(needed, optional=fields)
        case "array":
            return st.lists(body_of(schema.get("items", {}), depth + 1), max_size=3)
        case "string":
            return THERE | NUMBERED | TEXTS
        case "integer" | "number":
            return NUMBERS
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case _:
            return json_values().filter(_writable)


def _writable(value: object) -> bool:
    try:
        json.dumps(value)
    except ValueError:
        return False
    return True


def asked(route: tuple[str, str, dict[str, Any]]) -> st.SearchStrategy[tuple[str, str, dict[str, str], Any]]:
    method, path, operation = route
    parameters = operation.get("parameters", [])
    named = {one["name"]: QUOTED for one in parameters if one["in"] == "path"}
    query = {one["name"]: SAID for one in parameters if one["in"] == "query"}
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return st.tuples(
        st.just(method),
        st.fixed_dictionaries(named).map(lambda values: path.format(**values)),
        st.fixed_dictionaries({}, optional=query),
        st.none() if content is None else body_of(content["schema"]),
    )


REQUESTS: Final = st.sampled_from(ROUTES).flatmap(asked)


@pytest.mark.timeout(PATIENCE)
def test_no_request_is_answered_with_a_failure_of_the_door(bench: Bench) -> None:
    bench.run(stage(bench))

    async def ask(method: str, path: str, query: dict[str, str], body: object) -> None:
        words = [f"{name}={quote(text.encode(errors='surrogatepass')[:2000], safe='')}" for name, text in query.items()]
        # Written by json.dumps: half a surrogate pair is escaped, and read again as what it is.
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "If-Match": "*"} if content else {"If-Match": "*"}
        answer = await bench.rest(method.upper(), path + "?" + "&".join(words), content=content, headers=headers)
        assert answer.status_code < 500 or answer.json()["code"] in ("missing-extra", "too-slow"), answer.text
        if answer.status_code >= 400:
            assert answer.json()["detail"]
            assert "asyncpg" not in answer.text

    @tried(200)
    @given(REQUESTS)
    @example(("get", "/jobs/%00", {}, None))
    @example(("get", "/jobs/%ff", {}, None))
    @example(("get", "/jobs", {"q": "\0", "kind": "\ud800"}, None))
    @example(("get", "/schedules/%00", {}, None))
    @example(("get", "/limits/gates/%ed%a0%80", {}, None))
    @example(("post", "/jobs", {}, {"kind": "plain", "args": {"n": "\ud800"}}))
    @example(("post", "/jobs", {}, {"kind": "plain", "meta": {"a": "\ud800"}}))
    @example(("post", "/jobs", {}, {"kind": "plain", "tags": ["\ud800"]}))
    @example(("post", "/jobs", {}, {"kind": "\0"}))
    @example(("post", f"/jobs/{ids.encode(1)}/cancel", {}, {"note": "\0"}))
    @example(("post", f"/jobs/{ids.encode(1)}/signals/a", {}, {"payload": "\ud800"}))
    def one(request: tuple[str, str, dict[str, str], Any]) -> None:
        bench.run(ask(*request))

    one()
