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
from tests.fuzz.strange import DEEP, IDS, NUMBERS, TEXTS, json_values, short

from rowlock.model import ids
from rowlock.model.kind import Kind

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
    except (ValueError, RecursionError):
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


MARKED: Final = st.sampled_from(["$secret", "$bytes", "$output", "$version"]).flatmap(
    lambda mark: json_values().map(lambda value: {mark: value})
)


@pytest.mark.timeout(PATIENCE)
def test_no_submission_without_the_code_breaks_a_list_or_hides_from_its_approver(bench: Bench) -> None:
    defaults = json.dumps(Kind("remote", approval=True).defaults())
    bench.run(bench.sql("INSERT INTO kinds (name, defaults) VALUES ('remote', $1::text::jsonb)", defaults))

    async def ask(value: object) -> None:
        body = json.dumps({"kind": "remote", "args": {"x": value}}).encode()
        json_only = {"Content-Type": "application/json"}
        answer = await bench.rest("POST", "/jobs", content=body, headers=json_only)
        assert answer.status_code in (202, 400, 413, 422), answer.text
        page = await bench.rest("GET", "/approvals")
        assert page.status_code == 200, page.text
        if answer.status_code == 202:
            job = answer.json()["id"]
            number = ids.parse(job)
            # What the approver sees is what a worker reads.
            stored = json.loads(await bench.sql("SELECT args::text FROM jobs WHERE id = $1", number))
            assert (await bench.shown(number))["args"] == stored
            change = json.dumps({"args": {"x": [value]}}).encode()
            edited = await bench.rest("PATCH", f"/jobs/{job}", content=change, headers={**json_only, "If-Match": "*"})
            assert edited.status_code < 500, edited.text
            assert (await bench.rest("DELETE", f"/jobs/{job}")).status_code == 200
        assert (await bench.rest("GET", "/jobs")).status_code == 200

    @tried(40)
    @given(st.one_of(json_values().filter(_writable), MARKED.filter(_writable), DEEP.filter(_writable)))
    @example({"$secret": 1_000_000})
    @example([{"a": {"$bytes": "?"}}])
    @example({"$output": "x", "more": 1})
    def one(value: object) -> None:
        bench.run(ask(value))

    one()
