"""What every answer has in common, and where the door may be put."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from tests.api.conftest import declare, with_token
from tests.waiting import eventually

from rowlock import Rowlock
from rowlock.api import RowlockAPI
from rowlock.model import ids
from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.api.conftest import Rest

PROBLEM = {"type", "title", "status", "detail", "instance", "code", "request_id"}


def problem(answer: httpx.Response) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    body: dict[str, Any] = answer.json()
    assert body.keys() >= PROBLEM
    assert body["status"] == answer.status_code
    assert body["request_id"] == answer.headers["x-request-id"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    return body


async def test_every_error_is_a_problem(rest: Rest) -> None:
    async with rest.client() as client:
        unknown = problem(await client.get("/nothing"))
        assert (unknown["code"], unknown["status"]) == ("not-found", 404)
        method = await client.put("/jobs", json={})
        assert (problem(method)["code"], method.status_code) == ("method-not-allowed", 405)
        assert "POST" in method.headers["allow"]
        broken = await client.post("/jobs", content="{", headers={"Content-Type": "application/json"})
        assert problem(broken)["code"] == "bad-request"
        invalid = problem(await client.post("/jobs", json={"kind": "greet", "tags": [""]}))
        assert [fault["pointer"] for fault in invalid["errors"]] == ["#/tags/0"]
        misspelt = problem(await client.get("/jobs/7-7"))
        assert (misspelt["status"], misspelt["code"]) == (404, "invalid-id")
        number = problem(await client.get("/jobs/7"))
        assert (number["status"], number["code"]) == (404, "job-not-found")
        large = await client.post("/jobs", json={"kind": "greet", "args": {"name": "x" * 1_100_000}})
        assert (problem(large)["code"], large.status_code) == ("too-large", 413)
        query = problem(await client.get("/stats/slow?limit=0"))
        assert [fault["pointer"] for fault in query["errors"]] == ["limit"]


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ({"content": b'{"kind":'}, 400, "The body is not valid JSON: Expecting value at character 9."),
        ({"content": b'{"kind":"\xff"}'}, 400, "it is not UTF-8 at byte 10"),
        ({"content": b'{"a":' * 5000 + b"1" + b"}" * 5000}, 422, "The body is nested more than 160 levels deep."),
        ({"content": b'{"a":' * 500 + b"1" + b"}" * 500}, 422, "The body is nested more than 160 levels deep."),
        ({"content": b'{"kind": %s}' % (b"9" * 5000)}, 400, "an integer has more than 4,300 digits"),
        ({"content": b"[1]"}, 422, "A JSON object is expected, got a JSON array"),
        ({"content": b""}, 422, "A JSON object is expected as the body, with kind, args"),
        ({"json": {"kind": "greet", "argz": {}}}, 422, "no such field (did you mean args?); there are kind, args, "),
        ({"json": {"kind": "greet", "args": [1]}}, 422, "#/args: A JSON object is expected, got a JSON array"),
        ({"data": {"kind": "greet"}}, 415, "its Content-Type is application/x-www-form-urlencoded"),
        ({"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415, "Content-Type: application/json"),
    ],
)
async def test_a_body_that_does_not_fit_is_told_why(rest: Rest, sent: dict[str, Any], status: int, words: str) -> None:
    async with rest.client() as client:
        headers = {"Content-Type": "application/json"} if "content" in sent else {}
        answer = await client.post("/jobs", **{"headers": headers, **sent})
    told = problem(answer)
    assert (answer.status_code, words in told["detail"]) == (status, True), told


async def test_what_is_not_there_is_told_with_what_is(rest: Rest) -> None:
    async with rest.client() as client:
        for path in ("/nothing", "/jobs/", "/"):
            told = problem(await client.get(path))
            assert (told["status"], told["detail"]) == (
                404,
                f"There is no route /api/v1{path}. /api/v1/openapi.json lists the routes.",
            )
        put = await client.put("/jobs/363M-KAPQ-NW11-0P", json={})
        assert (problem(put)["status"], put.headers["allow"]) == (405, "DELETE, GET, HEAD, OPTIONS, PATCH")
        assert put.json()["detail"].endswith("does not support PUT. Use one of DELETE, GET, HEAD, OPTIONS, PATCH.")
        mistyped = problem(await client.get("/jobs?limt=3"))
        assert (mistyped["code"], mistyped["errors"][0]["pointer"]) == ("invalid-request", "limt")
        assert mistyped["detail"].endswith("parameter (did you mean limit?); there are q, sort, limit, cursor.")
        none = problem(await client.get("/kinds?kind=greet"))
        assert "There is no such parameter; there are none" in none["detail"]


@pytest.mark.parametrize(
    "path", ["/jobs", "/jobs/{id}", "/jobs/{id}/explain", "/jobs/{id}/stream", "/events", "/me", "/x"]
)
async def test_head_is_answered_like_get_without_the_body(rest: Rest, path: str) -> None:
    url = path.format(id=(await rest.submit())["id"])
    async with rest.client() as client, asyncio.timeout(10):
        head = await client.head(url)
        assert head.content == b""
        if path.endswith(("/stream", "/events")):
            assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            return
        got = await client.get(url)
    assert head.status_code == got.status_code
    own = {"x-request-id", "etag", "content-length"}
    assert {name: head.headers[name] for name in head.headers.keys() - own} == {
        name: got.headers[name] for name in got.headers.keys() - own
    }
    assert head.headers["content-length"] != "0"


async def test_a_head_of_a_stream_leaves_nobody_behind(rest: Rest) -> None:
    job = await rest.submit()
    async with rest.client() as client:
        await client.head(f"/jobs/{job['id']}/stream")
        await client.head("/events")
    here = rest.app._resources.streams_per_loop.current()
    assert (here.job_poll._followed, here.feed._subscribers) == ({}, set())


async def test_every_route_that_is_read_answers_head(rest: Rest) -> None:
    for router in (rest.api.router, rest.api._outer):
        methods = {(route.path, method) for route in router.routes for method in route.methods}  # type: ignore[attr-defined]
        assert {path for path, method in methods if method == "GET"} == {
            path for path, method in methods if method == "HEAD"
        }
    assert not any("head" in item for item in rest.api.openapi()["paths"].values())


async def test_options_tell_what_applies(rest: Rest) -> None:
    async with rest.client(None) as client:
        answer = await client.options("/jobs")
        assert (answer.status_code, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
        assert problem(await client.options("/nothing"))["code"] == "not-found"


async def test_a_body_without_a_length_is_capped_too(rest: Rest) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 100_000

    async with rest.client() as client:
        answer = await client.post("/jobs", content=chunks(), headers={"Content-Type": "application/json"})
    assert problem(answer)["code"] == "too-large"


async def test_what_nobody_foresaw_says_nothing_of_the_inside(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("swordfish")

    monkeypatch.setattr(rest.api.submissions, "submit", broken)
    async with rest.client() as client:
        answer = await client.post("/jobs", json={"kind": "greet"}, headers={"X-Request-Id": "abc-1"})
    assert (problem(answer)["code"], answer.status_code) == ("internal", 500)
    assert "swordfish" not in answer.text
    assert "swordfish" in caplog.text
    assert answer.headers["x-request-id"] == "abc-1"


async def test_a_request_id_of_a_stranger_is_not_repeated(rest: Rest) -> None:
    async with rest.client() as client:
        answer = await client.get("/me", headers={"X-Request-Id": "<script>"})
    assert answer.headers["x-request-id"] != "<script>"


async def test_a_database_that_is_away_is_503_and_says_nothing_of_where() -> None:
    app = declare(Rowlock("postgresql://user:secret@localhost:1/nowhere"))
    api = RowlockAPI(app)
    transport, headers = httpx.ASGITransport(api.asgi), with_token(api)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        for answer in (await client.get("/api/v1/admin/workers/lanes"), await client.get("/readyz")):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert "nowhere" not in answer.text
        assert (await client.get("/healthz")).status_code == 200
    await app.close()


async def test_a_read_that_takes_too_long_ends_here_and_in_the_database(make_rest: Callable[..., Rest]) -> None:
    rest = make_rest(read_seconds=0.2)
    job = await rest.submit()
    async with rest.store.connection.transaction():
        await rest.store.execute("LOCK TABLE {s}.jobs IN ACCESS EXCLUSIVE MODE")
        async with rest.client() as client:
            answer = await client.get(f"/jobs/{job['id']}")
    assert (problem(answer)["code"], answer.status_code) == ("too-slow", 503)
    async with rest.client() as client:

        async def is_answered() -> bool:  # a busy machine takes longer than the limit now and then
            return (await client.get(f"/jobs/{job['id']}")).status_code == 200

        await eventually(is_answered)


async def test_a_read_only_door_changes_nothing(make_rest: Callable[..., Rest]) -> None:
    rest = make_rest(read_only=True)
    async with rest.client() as client:
        answer = await client.post("/jobs", json={"kind": "greet", "args": {"name": "x"}})
        assert (problem(answer)["code"], answer.status_code) == ("read-only", 403)
        assert (await client.get("/features")).json()["read_only"]
        assert (await client.get("/kinds")).status_code == 200


async def test_who_is_not_known_is_asked(rest: Rest) -> None:
    async with rest.client(None) as client:
        answer = await client.get("/me")
    assert (problem(answer)["code"], answer.status_code) == ("unauthenticated", 401)
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("with_lifespan", [True, False])
async def test_mounted_in_a_host(database_url: str, with_lifespan: bool) -> None:
    app = declare(Rowlock(database_url))
    api = RowlockAPI(app)
    host = FastAPI(lifespan=api.lifespan if with_lifespan else None)
    host.mount("/ops/rowlock", api.asgi)
    async with contextlib.AsyncExitStack() as stack:
        if with_lifespan:
            await stack.enter_async_context(host.router.lifespan_context(host))
        transport = httpx.ASGITransport(host)
        client = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=with_token(api))
        )
        made = await client.post("/ops/rowlock/api/v1/jobs", json={"kind": "greet", "args": {"name": "x"}})
        assert made.status_code == 202, made.text
        assert made.headers["location"] == f"/ops/rowlock/api/v1/jobs/{made.json()['id']}"
        assert (await client.get(made.headers["location"])).status_code == 200
        assert problem(await client.get("/ops/rowlock/nothing"))["code"] == "not-found"
        assert (await client.get("/ops/rowlock/readyz")).json() == {"ready": True, "problems": []}
    await app.close()


async def test_a_router_included_in_a_host_answers_the_same(database_url: str) -> None:
    app = declare(Rowlock(database_url))
    api = RowlockAPI(app)
    host = FastAPI()
    host.include_router(api.router, prefix="/queue")
    transport, headers = httpx.ASGITransport(host), with_token(api)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        made = await client.post("/queue/jobs", json={"kind": "greet", "args": {"name": "x"}})
        assert made.headers["location"] == f"/queue/jobs/{made.json()['id']}"
        assert problem(await client.post("/queue/jobs", json={}))["code"] == "invalid-request"
        assert (await client.get("/openapi.json")).status_code == 200
    await app.close()


async def test_safe_to_deploy_while_nothing_runs_that_must_not_run_twice(rest: Rest) -> None:
    async with rest.client(base="http://door") as client:
        plain = await rest.submit()
        worker = await rest.store.worker()
        await rest.store.claim(worker, ids.decode(plain["id"]))
        nothing = {"safe": True, "problems": [], "waiting_jobs": 0, "waiting_for": {}}
        assert (await client.get("/readyz/deploy")).json() == nothing
        once = await rest.submit("pay", args={"amount": 1})
        await rest.store.approve(ids.decode(once["id"]))
        await rest.store.claim(worker, ids.decode(once["id"]))
        busy = await client.get("/readyz/deploy")
        assert (busy.status_code, busy.json()["waiting_for"], busy.json()["waiting_jobs"]) == (503, {"pay": 1}, 1)
        reader = Principal("eve", permissions=frozenset({Permission.READ}))
        for stranger in (rest.client(None), rest.knows(reader)):
            async with stranger:
                unnamed = await stranger.get("http://door/readyz/deploy")
            assert (unnamed.status_code, unnamed.json()["waiting_jobs"], "pay" in unnamed.text) == (503, 1, False)
        await rest.store.execute(
            "DELETE FROM {s}.schema_steps WHERE version = (SELECT max(version) FROM {s}.schema_steps)"
        )
        behind = await client.get("/readyz")
        assert (behind.status_code, behind.json()["problems"]) == (503, ["the schema is older than this code"])


async def test_metrics_are_for_those_who_view_workers_and_name_the_extra_they_take(
    make_rest: Callable[..., Rest],
) -> None:
    class Numbers:
        async def text(self) -> bytes:
            return b"rowlock_up 1.0\n"

    rest = make_rest(metrics=Numbers())
    async with rest.client(base="http://door") as client:
        told = await client.get("/metrics")
        assert (told.status_code, told.text) == (200, "rowlock_up 1.0\n")
        assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
        rest.api.metrics = None
        missing = problem(await client.get("/metrics"))
        assert (missing["code"], missing["status"]) == ("missing-extra", 501)
        assert "rowlock[prometheus]" in missing["detail"]
    reader = rest.knows(Principal("eve", permissions=frozenset({Permission.READ})))
    async with reader:
        assert (await reader.get("http://door/metrics")).status_code == 403
