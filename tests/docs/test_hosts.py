"""The pages on web frameworks, SQLAlchemy and connections, executed: their hosts answer real requests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import asyncpg
import httpx
import pytest
from aiohttp import test_utils
from sqlalchemy.orm import close_all_sessions
from sqlmodel import SQLModel
from tests.docs.page import Page

from rowlock import Rowlock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def raw(database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(database_url)
    await connection.execute("CREATE TABLE public.orders (id integer PRIMARY KEY)")
    yield connection
    await connection.close()


@contextlib.asynccontextmanager
async def executed(name: str, url: str) -> AsyncIterator[Page]:
    page = Page(name, url)
    page.names["__name__"] = "shop"
    await page.run()
    try:
        yield page
    finally:
        await page.close()


def client_of(host: Any, **headers: str) -> httpx.AsyncClient:  # noqa: ANN401 - any ASGI application
    return httpx.AsyncClient(transport=httpx.ASGITransport(host), base_url="http://localhost", headers=headers)


async def test_fastapi(database_url: str, raw: asyncpg.Connection[asyncpg.Record]) -> None:
    async with executed("fastapi.md", database_url) as page:
        names, app = page.names, page.names["app"]
        assert isinstance(app, Rowlock)
        token = {"Authorization": f"Bearer {names['api'].loopback.token}"}
        host = names["host"]
        async with host.router.lifespan_context(host), client_of(host, **token) as client:
            made = await client.post("/orders/1")
            assert made.status_code == 202
            assert (await app.jobs.wait(made.json()["job"], timeout=60)).result == "shipped 1"
            shown = await client.get(f"/ops/api/v1/jobs/{made.json()['job']}")
            assert shown.json()["state"] == "completed"
            # The second order of that number is refused, and so is its job.
            with pytest.raises(Exception, match="orders_pkey"):
                await client.post("/orders/1")
            assert await raw.fetchval("SELECT count(*) FROM rowlock.jobs") == 1
            assert (await client.get("/mine/api/v1/jobs")).status_code == 401
        own = names["host_with_its_own"]
        async with own.router.lifespan_context(own) as state:
            assert state == {"greeting": "hello"}
        async with client_of(names["whole"], **token) as client:
            assert (await client.get("/queue/jobs")).status_code == 200
        async with client_of(names["some"], **token) as client:
            document = (await client.get("/openapi.json")).json()
            methods = sum(len(item) for item in document["paths"].values())
            assert (await client.get("/jobs")).status_code == 200
            assert (methods, "/jobs" in document["paths"]) == (15, True)
        async with client_of(names["users"]) as client:
            assert (await client.get("/jobs-api/jobs")).status_code == 401
            assert (await client.get("/jobs-api/jobs", headers={"X-Demo": "ada"})).status_code == 200
            refused = await client.get("/jobs-api/admin/workers/status", headers={"X-Demo": "ada"})
            assert refused.status_code == 403


async def test_the_job_is_committed_before_the_answer_is_sent(
    database_url: str, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    """What the page says of scope="function", seen from a client that looks as soon as the answer begins."""
    async with executed("fastapi.md", database_url) as page:
        host, seen = page.names["host"], []

        async def send(message: Any) -> None:  # noqa: ANN401 - an ASGI message
            if message["type"] == "http.response.start":
                seen.append(await raw.fetchval("SELECT count(*) FROM rowlock.jobs"))

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
        }
        scope |= {"path": "/orders/7", "raw_path": b"/orders/7", "root_path": "", "query_string": b"", "headers": []}
        await host({**scope, "client": ("127.0.0.1", 1), "server": ("localhost", 80)}, receive, send)
        assert seen == [1]


async def test_litestar_and_aiohttp(database_url: str, raw: asyncpg.Connection[asyncpg.Record]) -> None:
    async with executed("fastapi.md", database_url) as page:
        app = page.names["app"]
        token = {"Authorization": f"Bearer {page.names['api'].loopback.token}"}
        litestar = page.names["litestar_host"]
        async with litestar.lifespan(), client_of(litestar, **token) as client:
            made = await client.post("/ops/api/v1/jobs", json={"kind": "ship", "args": {"order_id": 3}})
            assert (made.status_code, made.headers["location"].startswith("/ops/api/v1/jobs/")) == (202, True)
            assert (await app.jobs.wait(made.json()["id"], timeout=60)).result == "shipped 3"
            async with client.stream("GET", f"{made.headers['location']}/stream") as stream:
                assert "event: end" in [line async for line in stream.aiter_lines()]
            assert (await client.get("/ops/readyz")).status_code == 200
        async with test_utils.TestClient(test_utils.TestServer(page.names["aiohttp_host"])) as other:
            made_there = await other.post("/orders/4")
            assert made_there.status == 202
            job = (await made_there.json())["job"]
            assert (await app.jobs.wait(job, timeout=60)).result == "shipped 4"
        assert await raw.fetchval("SELECT count(*) FROM rowlock.workers WHERE state <> 'gone'") == 0


async def test_flask(database_url: str, raw: asyncpg.Connection[asyncpg.Record]) -> None:
    async with executed("flask.md", database_url) as page:
        host, tasks = page.names["host"], page.names["tasks"]
        try:
            client = host.test_client()
            made = await asyncio.to_thread(client.post, "/orders/1")
            assert (made.status_code, made.headers["Location"]) == (202, f"/jobs/{made.json['job']}")
            assert (await tasks.jobs.wait(made.json["job"], timeout=60)).result == "generated 1"
            shown = await asyncio.to_thread(client.get, made.headers["Location"])
            assert shown.json == {"state": "completed", "result": "generated 1"}
            assert await raw.fetchval("SELECT id FROM public.orders") == 1
            assert callable(page.names["post_worker_init"])
        finally:
            await asyncio.to_thread(page.names["worker"].stop)
            with host.app_context():
                page.names["db"].session.remove()
                page.names["db"].engine.dispose()
            del page.names["db"]


async def test_sqlalchemy(database_url: str, raw: asyncpg.Connection[asyncpg.Record]) -> None:
    try:
        async with executed("sqlalchemy.md", database_url) as page:
            assert page.printed == page.promised == ["[2]"]
            rows = await raw.fetch("SELECT (args->>'order_id')::integer FROM rowlock.jobs ORDER BY 1")
            assert [row[0] for row in rows] == [1, 2, 4, 5]
            close_all_sessions()
    finally:
        SQLModel.metadata.clear()


async def test_connections() -> None:
    async with executed("../operate/connections.md", "postgresql://localhost/shop") as page:
        assert page.names["app"].database().password is page.names["token"]
