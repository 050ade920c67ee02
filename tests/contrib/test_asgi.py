from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI, Request

from rowlock import ConfigurationError, Rowlock
from rowlock.contrib.asgi import lifespans, mounted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def test_a_host_and_two_applications_live_together(database_url: str) -> None:
    first, second, seen = Rowlock(database_url), Rowlock(database_url), []

    @first.job("one")
    async def one() -> int:
        return 1

    @second.job("two")
    async def two() -> int:
        return 2

    @contextlib.asynccontextmanager
    async def own(_host: FastAPI) -> AsyncIterator[dict[str, Any]]:
        seen.append("opened")
        yield {"greeting": "hello"}
        # The workers stopped before: what they use is still there.
        seen.append(f"closed after {len(first.database().loops) + len(second.database().loops)} pools")

    host = FastAPI(lifespan=lifespans(own, first.lifespan, second.lifespan))

    @host.get("/")
    async def root(request: Request) -> str:
        return str(request.state.greeting)

    async with host.router.lifespan_context(host) as state:
        assert state == {"greeting": "hello"}
        assert [await (await each.enqueue()).wait(timeout=30) for each in (one, two)] == [1, 2]
    assert seen == ["opened", "closed after 0 pools"]


async def test_what_was_entered_is_left_when_a_later_one_fails(database_url: str) -> None:
    left = []

    @contextlib.asynccontextmanager
    async def own(_host: object) -> AsyncIterator[None]:
        try:
            yield
        finally:
            left.append("own")

    @contextlib.asynccontextmanager
    async def broken(_host: object) -> AsyncIterator[None]:
        await app.jobs.list()  # opens a pool, which must be closed
        raise OSError("no disk")
        yield

    app = Rowlock(database_url)
    with pytest.raises(OSError, match="no disk"):
        async with lifespans(own, app.lifespan, broken)(None):
            pass
    assert left == ["own"]
    assert app.database().loops == []


def test_something_else_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"takes functions such as app\.lifespan, got 3"):
        lifespans(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="takes functions"):
        lifespans()


async def test_the_transport_answers_while_the_lifespan_lasts(database_url: str) -> None:
    app = Rowlock(database_url)
    host = FastAPI(lifespan=lifespans(app.lifespan))

    @host.get("/")
    async def root() -> int:
        return len(await app.jobs.list())

    async with host.router.lifespan_context(host):
        transport = httpx.ASGITransport(host)
        async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
            assert (await client.get("/")).json() == 0


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"path": "/jobs/", "raw_path": b"/ops/jobs"}, "/ops/jobs"),
        ({"path": "/a b", "raw_path": b"/ops/a%20b?x=1"}, "/ops/a b"),
        ({"path": "/jobs"}, "/ops/jobs"),
        ({"path": "/jobs", "root_path": "/proxy"}, "/proxy/ops/jobs"),
    ],
)
async def test_a_mounted_application_learns_where_it_is(given: dict[str, Any], path: str) -> None:
    seen: list[Any] = []

    async def application(scope: Any, _receive: Any, _send: Any) -> None:  # noqa: ANN401 - of ASGI
        seen.append((scope["root_path"], scope["path"]))

    await mounted(application, "/ops")({"type": "http", **given}, None, None)
    assert seen == [(given.get("root_path", "") + "/ops", path)]


@pytest.mark.parametrize("at", ["ops", "/ops/", "/"])
def test_a_mount_is_a_path(at: str) -> None:
    with pytest.raises(ConfigurationError, match="begins with a slash and does not end with one"):
        mounted(FastAPI(), at)
