from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from tests.api.conftest import declare, with_token

from rowlock import ConfigurationError, Rowlock
from rowlock.api import RowlockAPI

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

TEN = (
    "GET /jobs",
    "GET /jobs/{id}",
    "DELETE /jobs/{id}",
    "POST /jobs/{id}/approve",
    "GET /jobs/{id}/stream",
    "GET /admin/workers/lanes",
    "PATCH /admin/workers/lanes/{name}",
    "GET /admin/workers/status",
    "POST /admin/workers/jobs/{id}/cancel",
    "PATCH /admin/workers/jobs/{id}/priority",
)


def names(document: dict[str, Any]) -> set[str]:
    return {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}


async def test_ten_routes_stand_alone_at_the_root_of_the_host(database_url: str) -> None:
    app = declare(Rowlock(database_url))
    api, host = RowlockAPI(app), FastAPI()

    @host.get("/kinds")
    async def kinds() -> str:
        return "the host's own"

    host.include_router(api.select(*TEN))
    transport, headers = httpx.ASGITransport(host), with_token(api)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        listed = names((await client.get("/openapi.json")).json())
        assert listed == {each.replace("{id}", "{job_id}") for each in TEN} | {"GET /kinds"}
        job = await app.tasks["greet"].enqueue(name="x")
        assert (await client.get(f"/jobs/{job.public_id}")).json()["kind"] == "greet"
        assert (await client.head("/jobs")).status_code == 200
        assert (await client.get("/kinds")).json() == "the host's own"
        assert (await client.post("/jobs", json={"kind": "greet"})).status_code == 405
        assert (await client.get("/stats/overview")).status_code == 404
        assert (await client.delete(f"/jobs/{job.public_id}")).status_code in (200, 204)
    await app.close()


def paths(routes: list[BaseRoute]) -> set[str]:
    return {getattr(each, "path", "") for each in routes}


def test_a_star_takes_everything_below_and_a_path_alone_every_method() -> None:
    api = RowlockAPI(declare(Rowlock("postgresql://localhost/none")))
    whole = paths(api.router.routes)
    below = paths(api.select("/admin/workers/*").routes)
    assert below == {path for path in whole if path.startswith("/admin/workers/")}
    methods = {method for each in api.select("/jobs").routes for method in each.methods}  # type: ignore[attr-defined]
    assert methods == {"GET", "HEAD", "POST"}
    assert paths(api.select("/*").routes) == whole


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (("GET /job",), r"There is no route 'GET /job' \(did you mean GET /jobs\?\)"),
        (("PUT /jobs",), r"There is no route 'PUT /jobs'"),
        (("jobs",), "A route is named like"),
        ((), "at least one route"),
        (("/nothing/*",), "There is no route '/nothing/\\*'"),
    ],
)
def test_a_name_that_no_route_has_is_refused(wanted: tuple[str, ...], words: str) -> None:
    api = RowlockAPI(declare(Rowlock("postgresql://localhost/none")))
    with pytest.raises(ConfigurationError, match=words):
        api.select(*wanted)
