"""Pages of the application's own users: an embed token opens one job or one person's jobs, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from fastapi import FastAPI
from pydantic import TypeAdapter
from tests.api.conftest import with_token
from tests.api.routes.streaming import EventSource
from tests.waiting import eventually, until

from rowlock import ConfigurationError
from rowlock.api import RowlockAPI
from rowlock.api.routing import Route
from rowlock.api.schemas.embed import EmbeddedStreamEvent
from rowlock.desk.embedded_jobs import principal_of
from rowlock.model import ids
from rowlock.model.access import Permission

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.api.conftest import Rest

    from rowlock.model.embed_token import EmbedToken

SHOP: Final = "https://shop.example.com"
EVERYTHING: Final = ("items", "logs", "result", "error")


def with_embed(token: EmbedToken) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.text}"}


def embed_routes(rest: Rest) -> list[tuple[str, str]]:
    """Method and path of every route that takes an embed token."""
    found = [route for route in rest.api.router.routes if isinstance(route, Route)]
    return [
        (method, route.path)
        for route in found
        for method in sorted(route.methods or ())
        if (route.openapi_extra or {}).get("x-embed") and method in ("GET", "POST")
    ]


@contextlib.asynccontextmanager
async def holder(rest: Rest, token: EmbedToken) -> AsyncIterator[httpx.AsyncClient]:
    """A client that sends the token."""
    async with rest.client(None) as client:
        client.headers.update(with_embed(token))
        yield client


async def frames(client: httpx.AsyncClient, job: str, *, after: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every event of a job that has ended."""
    source = EventSource(client, f"/embed/jobs/{job}/stream", after)
    found = []
    async for frame in source.frames():
        if frame.data:
            TypeAdapter[Any](EmbeddedStreamEvent).validate_python(
                {"id": frame.id, "event": frame.event, "data": frame.data}
            )
            found.append((frame.event, frame.data))
        if frame.event == "end":
            break
    return found


async def test_a_token_reads_its_job_and_shows_neither_arguments_nor_results(rest: Rest) -> None:
    job = await rest.submit(args={"name": "Ada"}, tags=["vip"], meta={"plan": "gold"})
    token = await rest.app.tokens.for_job(job["id"])
    async with holder(rest, token) as client:
        answer = await client.get(f"/embed/jobs/{job['id']}")
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        assert (shown["id"], shown["state"], shown["kind"]) == (job["id"], "queued", "greet")
        assert (shown["result"], shown["error"], shown["may_cancel"]) == (None, None, False)
        assert not shown.keys() & {"args", "tags", "meta", "refs", "tenant", "submitted_by", "lane", "worker"}
        assert "Ada" not in answer.text
        unchanged = await client.get(f"/embed/jobs/{job['id']}", headers={"If-None-Match": answer.headers["etag"]})
        assert unchanged.status_code == 304
        listed = (await client.get("/embed/jobs")).json()
        assert [each["id"] for each in listed["items"]] == [job["id"]]
        assert listed["before"] is None
        for path in ("items", "logs"):
            refused = await client.get(f"/embed/jobs/{job['id']}/{path}")
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), path
        refused = await client.post(f"/embed/jobs/{job['id']}/cancel")
        assert (refused.status_code, refused.json()["permission"]) == (403, "jobs:cancel")
        assert "Make it with cancel=True" in refused.json()["detail"]
    # The desk behind it would refuse, too.
    behind = principal_of((await rest.app.identity.by_embed_token(token.text)).grant)
    assert behind.permissions == {Permission.READ, Permission.READ_ALL}


async def test_another_job_does_not_exist_for_it(rest: Rest) -> None:
    own, other = await rest.submit(), await rest.submit()
    token = await rest.app.tokens.for_job(own["id"], show=EVERYTHING, cancel=True)
    async with holder(rest, token) as client:
        for method, path in embed_routes(rest):
            if "{job_id}" in path:
                answer = await client.request(method, path.format(job_id=other["id"]))
                assert (answer.status_code, answer.json()["code"]) == (404, "job-not-found"), path
    assert (await rest.app.jobs.get(other["id"])).state == "queued"


async def test_an_embed_token_opens_no_other_route(make_rest: Callable[..., Rest]) -> None:
    rest = make_rest()
    job = await rest.submit()
    token = await rest.app.tokens.for_user("root", show=EVERYTHING, cancel=True)
    embedded = {path for _, path in embed_routes(rest)}
    async with holder(rest, token) as client:
        for route in rest.api.router.routes:
            assert isinstance(route, Route)
            if route.path in embedded or "/auth/" in route.path or route.path.endswith(".js"):
                continue
            method = next(iter(route.methods or ()))
            path = route.path.replace(":path}", "}")
            names = dict.fromkeys(re.findall(r"{(\w+)}", path), "1")
            names |= {"job_id": job["id"], "workflow_id": ids.encode_workflow(1)}
            answer = await client.request(method, path.format(**names))
            assert answer.status_code in (401, 422), (method, path, answer.text)


async def test_no_principal_gets_in_without_an_embed_token(rest: Rest) -> None:
    job = await rest.submit()
    api_token = await rest.app.tokens.create("ci", roles=["platform_admin"])
    async with rest.client("root") as client:
        for method, path in embed_routes(rest):
            answer = await client.request(method, path.format(job_id=job["id"]))
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), path
            assert "for_job" in answer.json()["detail"]
            with_other = {"Authorization": f"Bearer {api_token.text}"}
            answer = await client.request(method, path.format(job_id=job["id"]), headers=with_other)
            assert answer.status_code == 401, path
            damaged = await client.request(
                method, path.format(job_id=job["id"]), headers={"Authorization": "Bearer rle_AAAA.AAAA"}
            )
            assert (damaged.status_code, damaged.json()["code"]) == (401, "unauthenticated"), path


async def test_a_person_sees_its_own_jobs_and_not_those_of_its_tenant(rest: Rest) -> None:
    mine = [await rest.submit(tenant="acme", submitted_by="ada") for _ in range(5)]
    others = [
        await rest.submit(tenant="acme", submitted_by="bob"),
        await rest.submit(tenant="globex", submitted_by="ada"),
        await rest.submit(submitted_by="ada"),
    ]
    token = await rest.app.tokens.for_user("ada", tenant="acme", cancel=True)
    async with holder(rest, token) as client:
        seen: list[str] = []
        before = None
        while True:
            page = (
                await client.get("/embed/jobs", params={"limit": 2, **({"before": before} if before else {})})
            ).json()
            seen += [each["id"] for each in page["items"]]
            before = page["before"]
            if before is None:
                break
        assert seen == [each["id"] for each in reversed(mine)]
        for other in others:
            for method, path in embed_routes(rest):
                if "{job_id}" in path and path.rpartition("/")[2] not in ("items", "logs"):
                    answer = await client.request(method, path.format(job_id=other["id"]))
                    assert (answer.status_code, answer.json()["code"]) == (404, "job-not-found"), path
        cancelled = await client.post(f"/embed/jobs/{mine[0]['id']}/cancel")
        assert (cancelled.json()["state"], cancelled.json()["may_cancel"]) == ("cancelled", False)
    (entry,) = await rest.app.audit.list(action="job.cancel")
    assert (entry.subject, entry.tenant) == ("ada", "acme")
    untenanted = await rest.app.tokens.for_user("ada")
    async with holder(rest, untenanted) as client:
        page = (await client.get("/embed/jobs")).json()
        assert [each["id"] for each in page["items"]] == [others[2]["id"]]


async def test_a_read_only_door_cancels_nothing(make_rest: Callable[..., Rest]) -> None:
    rest = make_rest()
    job = await rest.submit()
    rest.api.read_only = True
    token = await rest.app.tokens.for_job(job["id"], cancel=True)
    async with holder(rest, token) as client:
        refused = await client.post(f"/embed/jobs/{job['id']}/cancel")
        assert (refused.status_code, refused.json()["code"]) == (403, "read-only")
        assert (await client.get(f"/embed/jobs/{job['id']}")).status_code == 200


async def test_a_stream_shows_as_much_as_its_token(rest: Rest) -> None:
    job = await rest.submit("sort_out", args={"names": ["a", "b"]})
    async with rest.app.worker():
        await eventually(lambda: ended(rest, job["id"]))
    modest = await rest.app.tokens.for_job(job["id"])
    async with holder(rest, modest) as client:
        seen = await frames(client, job["id"], after="0")
        names = [name for name, _ in seen]
        assert (names[0], names[-1]) == ("job.created", "end")
        assert "job.progress" in names
        assert "job.log" not in names
        text = json.dumps(seen)
        assert "b is bad" not in text
        assert not [name for name in ("worker", "lane", "priority", "args") if f'"{name}"' in text]
        (name, data), _ = await frames(client, job["id"])
        assert (name, data["state"], data["error"]) == ("snapshot", "completed_with_errors", None)
        assert data["progress"]["items"]["failed"] == 1
    open_hearted = await rest.app.tokens.for_job(job["id"], show=EVERYTHING)
    async with holder(rest, open_hearted) as client:
        seen = await frames(client, job["id"], after="0")
        assert [data["message"] for name, data in seen if name == "job.log"] == ["sorting a", "sorting b"]
        items = (await client.get(f"/embed/jobs/{job['id']}/items")).json()["items"]
        assert {item["name"]: item["state"] for item in items} == {"a": "completed", "b": "failed"}
        assert "b is bad" in json.dumps(items)
        logs = (await client.get(f"/embed/jobs/{job['id']}/logs")).json()
        assert [line["message"] for line in logs["items"]] == ["sorting a", "sorting b"]
        assert (await client.get(f"/embed/jobs/{job['id']}")).json()["error"] is not None
        over = await client.get(f"/embed/jobs/{job['id']}/stream", headers={"Last-Event-ID": "3.0.0.0.end"})
        assert over.status_code in (200, 204)
    listing = await rest.app.tokens.for_job(job["id"], show=["items"])
    async with holder(rest, listing) as client:
        items = (await client.get(f"/embed/jobs/{job['id']}/items")).json()["items"]
        assert [item["error"] for item in items] == [None, None]


async def ended(rest: Rest, job: str) -> bool:
    return (await rest.app.jobs.get(job)).is_final


@pytest.mark.parametrize("how", ["expiry", "revoked job", "revoked person", "rotated key"])
async def test_an_open_stream_ends_with_its_token(rest: Rest, how: str) -> None:
    rest.api.stream_seconds = None
    job = await rest.submit(run_in="1h")
    tokens = rest.app.tokens
    token = await tokens.for_job(job["id"], user="ada", expires="2s" if how == "expiry" else "1h")
    async with holder(rest, token) as client:
        # The transport of the test hands the answer over when it is complete: when the stream has ended.
        reading = asyncio.create_task(client.get(f"/embed/jobs/{job['id']}/stream", timeout=60))
        await until(lambda: rest.api.embed_stream_limits.open == 1)
        match how:
            case "revoked job":
                await tokens.revoke_for_job(job["id"])
            case "revoked person":
                await tokens.revoke_for_user("ada")
            case "rotated key":
                await tokens.rotate_embed_key(overlap="0s")
            case _:
                pass
        answer = await reading
        assert answer.status_code == 200
        assert "event: snapshot" in answer.text
        again = await client.get(f"/embed/jobs/{job['id']}")
        assert (again.status_code, again.json()["code"]) == (401, "unauthenticated")
    assert rest.api.embed_stream_limits.open == 0


async def test_pages_of_other_origins_are_refused_unless_they_are_listed(make_rest: Callable[..., Rest]) -> None:
    closed, open_to_shop = make_rest(), make_rest(allow_origins=[SHOP])
    job = await closed.submit()
    token = await closed.app.tokens.for_job(job["id"])
    path = f"/embed/jobs/{job['id']}"
    asked = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization"}
    for rest, origin, welcome in [
        (closed, SHOP, False),
        (open_to_shop, SHOP, True),
        (open_to_shop, "https://evil.example.com", False),
        (open_to_shop, "http://shop.example.com", False),
        (open_to_shop, f"{SHOP}:8443", False),
        (open_to_shop, f"{SHOP}.evil.example", False),
        (open_to_shop, "null", False),
    ]:
        async with rest.client(None) as client:
            preflight = await client.options(f"{path}?limit=2", headers={"Origin": origin, **asked})
            answer = await client.get(path, headers={"Origin": origin, **with_embed(token)})
            assert preflight.status_code == 204
            for each in (preflight, answer):
                assert "Origin" in each.headers["vary"]
                assert "access-control-allow-credentials" not in each.headers
                assert each.headers.get("access-control-allow-origin") == (origin if welcome else None), origin
            assert answer.status_code == (200 if welcome else 403), answer.text
            if welcome:
                assert preflight.headers["access-control-allow-methods"] == "GET, HEAD"
                assert "authorization" in preflight.headers["access-control-allow-headers"]
                bad = await client.get(path, headers={"Origin": origin})
                assert (bad.status_code, bad.headers["access-control-allow-origin"]) == (401, origin)
            else:
                assert answer.json()["code"] == "cross-site"
                assert "--allow-origin" in answer.json()["detail"]
    async with open_to_shop.client() as client:
        for elsewhere in ("/jobs", "/me", "/events", f"/jobs/{job['id']}"):
            answer = await client.options(elsewhere, headers={"Origin": SHOP, **asked})
            assert "access-control-allow-origin" not in answer.headers, elsewhere
        answer = await client.get("/jobs", headers={"Origin": SHOP})
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["*", "null", "shop.example.com", "https://shop.example.com/app", "https://*.example.com", ""]
)
async def test_an_origin_is_written_out(make_rest: Callable[..., Rest], origin: str) -> None:
    with pytest.raises(ConfigurationError, match=r"https://app\.example\.com"):
        make_rest(allow_origins=[origin])


async def test_without_authentication_embed_tokens_work_on_this_machine_alone(make_rest: Callable[..., Rest]) -> None:
    rest = make_rest(auth=None)
    job = await rest.app.jobs.submit("greet", {"name": "Ada"})
    token = await rest.app.tokens.for_job(job.job.id)
    path = f"/embed/jobs/{job.job.public_id}"
    async with rest.client(None, base="http://127.0.0.1/api/v1") as client:
        assert (await client.get(path, headers=with_embed(token))).status_code == 200
        refused = await client.get(path, headers=with_token(rest.api))
        assert refused.status_code == 401
    async with rest.client(None, base="http://rebound.example/api/v1") as client:
        refused = await client.get(path, headers=with_embed(token))
        assert (refused.status_code, refused.json()["code"]) == (403, "no-auth-configured")


async def test_the_module_is_public_and_cached_by_its_version(rest: Rest) -> None:
    async with rest.client(None) as client:
        answer = await client.get("/embed/rowlock-elements.js")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
        assert answer.headers["cache-control"] == "public, max-age=300"
        version = answer.headers["etag"].strip('"')
        fixed = await client.get("/embed/rowlock-elements.js", params={"v": version})
        assert "immutable" in fixed.headers["cache-control"]
        outdated = await client.get("/embed/rowlock-elements.js", params={"v": "old"})
        assert "immutable" not in outdated.headers["cache-control"]
        known = await client.get("/embed/rowlock-elements.js", headers={"If-None-Match": answer.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")


async def test_a_host_that_includes_the_router_answers_preflights_too(rest: Rest) -> None:
    api = RowlockAPI(rest.app, auth=rest.people, allow_origins=[SHOP])
    host = FastAPI()
    host.include_router(api.router, prefix="/background")
    transport = httpx.ASGITransport(host)
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        answer = await client.options("/background/embed/jobs", headers={"Origin": SHOP})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (204, SHOP)
