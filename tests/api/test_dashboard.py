"""The dashboard beside the API: its page at every address, its files, and what stays the API's."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.api.conftest import declare, running, with_token
from tests.waiting import PATIENCE

from rowlock import Rowlock
from rowlock.api import RowlockAPI
from rowlock.api.dashboard import CONTENT_SECURITY_POLICY, Dashboard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.api.conftest import Rest

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Encoding": "gzip, deflate, br"}
PAGE = '<!doctype html><head><base href="/" /><script type="module" src="./assets/app-1a2b.js"></script></head>'
SCRIPT = "console.log('hello')\n" * 100


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "ui_dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "favicon.svg").write_text("<svg/>")
    (folder / "assets" / "app-1a2b.js").write_text(SCRIPT)
    (folder / "assets" / "app-1a2b.js.gz").write_bytes(gzip.compress(SCRIPT.encode()))
    (tmp_path / "secret.txt").write_text("not yours")
    return folder


@pytest.fixture
def make_served(make_rest: Callable[..., Rest], built: Path) -> Callable[..., Rest]:
    def make(**more: Any) -> Rest:  # noqa: ANN401 - RowlockAPI's
        rest = make_rest(**more)
        if rest.api._dashboard is not None:
            rest.api._dashboard = Dashboard(built)
        return rest

    return make


@pytest.fixture
def served(make_served: Callable[..., Rest]) -> Rest:
    return make_served()


def base_of(answer: httpx.Response) -> str:
    assert answer.headers["content-type"] == "text/html; charset=utf-8", answer.text
    return answer.text.partition('<base href="')[2].partition('"')[0]


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/363M-KAPQ-NW11-0P", "/lanes/a.b", "/schedules/x/y?tab=runs"])
async def test_every_address_of_the_dashboard_is_its_page(served: Rest, path: str) -> None:
    with running(served.api) as url:
        async with httpx.AsyncClient(timeout=PATIENCE, base_url=url, headers=BROWSER) as client:
            answer = await client.get(path)
            head = await client.head(path)
    assert (answer.status_code, base_of(answer)) == (200, "/")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(answer.content)))


def test_the_policy_allows_no_inline_script_or_style_and_no_other_site() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY
    for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"):
        assert part in CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("framework", [FastAPI, Starlette])
@pytest.mark.parametrize("prefix", ["/ops/jobs", "/a b/ü"])
async def test_the_page_knows_its_mount_point(served: Rest, framework: type, prefix: str) -> None:
    host: Any = framework()
    host.router.routes.append(Mount(prefix, served.api.asgi))
    encoded = str(httpx.URL(f"http://door{prefix}/").raw_path, "ascii")
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(host), base_url="http://door", headers=BROWSER
    ) as client:
        page = await client.get(f"{prefix}/jobs/1")
        assert base_of(page).lower() == encoded.lower()
        script = await client.get(f"{prefix}/assets/app-1a2b.js")
        assert script.text == SCRIPT
        assert (await client.get(f"{prefix}/api/v1/me", headers={"X-Who": "root"})).json()["subject"] == "root"
        assert (await client.get("/jobs")).status_code == 404  # the host's own


async def test_the_page_knows_the_prefix_that_a_proxy_takes_away(served: Rest) -> None:
    transport = httpx.ASGITransport(served.api.asgi, root_path='/q"><script>')
    async with httpx.AsyncClient(transport=transport, base_url="http://door", headers=BROWSER) as client:
        assert base_of(await client.get("/jobs")) == "/q%22%3E%3Cscript%3E/"


async def test_files_are_kept_for_ever_and_sent_compressed(served: Rest) -> None:
    async with served.client(None, "http://door") as client:
        plain = await client.get("/assets/app-1a2b.js", headers={"Accept-Encoding": "identity"})
        refused = await client.get("/assets/app-1a2b.js", headers={"Accept-Encoding": "gzip;q=0, br"})
        packed = await client.get("/assets/app-1a2b.js", headers={"Accept-Encoding": "br;q=0.5, gzip;q=0.8"})
        icon = await client.get("/favicon.svg")
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert plain.text == packed.text == refused.text == SCRIPT
    assert [answer.headers.get("content-encoding") for answer in (plain, refused, packed)] == [None, None, "gzip"]
    assert packed.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["content-length"]) < len(SCRIPT) / 4
    assert (icon.headers["content-type"], icon.headers["cache-control"]) == ("image/svg+xml", "no-cache")


@pytest.mark.parametrize(
    "path",
    [
        "/assets/app-0000.js",
        "/assets/../../secret.txt",
        "/..%2fsecret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/assets/..%5c..%5csecret.txt",
        "/assets/%00",
        "/assets/app-1a2b.js.gz",
        "/assets",
    ],
)
async def test_other_files_are_not_there(served: Rest, path: str) -> None:
    with running(served.api) as url:
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            answer = await client.get(httpx.URL(url + path))
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_what_is_not_of_the_dashboard_stays_a_problem(served: Rest) -> None:
    async with served.client(base="http://door") as client:
        for path in ("/api", "/api/v1/nothing", "/api/v2/jobs"):
            unknown = await client.get(path, headers=BROWSER)
            assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found")
        forgotten = await client.get("/jobs")
        assert (forgotten.status_code, forgotten.json()["code"]) == (404, "not-found")
        assert "openapi.json lists the routes" in forgotten.json()["detail"]
        posted = await client.post("/jobs", headers=BROWSER, json={})
        assert (posted.status_code, posted.json()["code"]) == (404, "not-found")
        assert (await client.get("/healthz", headers=BROWSER)).json()["status"] == "ok"
        assert (await client.put("/api/v1/jobs", headers=BROWSER, json={})).status_code == 405


async def test_without_the_dashboard_nothing_of_it_answers(make_served: Callable[..., Rest]) -> None:
    rest = make_served(ui=False)
    async with rest.client(base="http://door") as client:
        for path in ("/", "/jobs", "/assets/app-1a2b.js"):
            answer = await client.get(path, headers=BROWSER)
            assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
        assert (await client.get("/api/v1/me")).status_code == 200


async def test_an_unbuilt_dashboard_says_what_to_run_and_the_api_works(
    make_rest: Callable[..., Rest], tmp_path: Path
) -> None:
    rest = make_rest(read_only=True)
    rest.api._dashboard = Dashboard(tmp_path / "nothing")
    async with rest.client(base="http://door") as client:
        answer = await client.get("/jobs", headers=BROWSER)
        assert (answer.status_code, "make ui" in answer.text, base_of(answer)) == (200, True, "/")
        assert (await client.get("/api/v1/me")).status_code == 200
        (tmp_path / "nothing").mkdir()
        (tmp_path / "nothing" / "index.html").write_text(PAGE)
        assert "app-1a2b.js" in (await client.get("/", headers=BROWSER)).text


async def test_without_authentication_the_link_and_the_token_lead_into_the_dashboard(
    database_url: str, built: Path
) -> None:
    app = declare(Rowlock(database_url))
    api = RowlockAPI(app)
    api._dashboard = Dashboard(built)
    assert api.loopback is not None
    token = api.loopback.token
    with running(api) as url:
        async with httpx.AsyncClient(timeout=PATIENCE, base_url=url, follow_redirects=True) as client:
            page = await client.get(f"/api/v1/auth/local?token={token}")
            assert (page.url.path, base_of(page)) == ("/", "/")
            assert (await client.get("/api/v1/me")).status_code == 200
        async with httpx.AsyncClient(timeout=PATIENCE, base_url=url) as client:
            assert (await client.get("/", headers=BROWSER)).status_code == 200  # the page asks for the token
            assert (await client.get("/api/v1/me")).status_code == 401
            client.headers["Origin"] = url
            wrong = await client.post("/api/v1/auth/login", json={"token": token[:-1]})
            assert (wrong.status_code, wrong.json()["code"]) == (401, "unauthenticated")
            foreign = await client.post(
                "/api/v1/auth/login", json={"token": token}, headers={"Origin": "http://evil.example"}
            )
            assert (foreign.status_code, foreign.json()["code"]) == (403, "cross-site")
            assert (await client.post("/api/v1/auth/login", json={"token": token})).status_code == 200
            assert (await client.get("/api/v1/me")).status_code == 200
        async with httpx.AsyncClient(timeout=PATIENCE, base_url=url, headers={"Host": "rebound.example"}) as client:
            rebound = await client.get("/", headers=BROWSER)
            assert (rebound.status_code, rebound.json()["code"]) == (403, "no-auth-configured")
    await app.close()


async def test_a_router_in_another_application_leads_to_the_api(database_url: str) -> None:
    app = declare(Rowlock(database_url))
    api = RowlockAPI(app)
    host = FastAPI()
    host.include_router(api.router, prefix="/queue")
    assert api.loopback is not None
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(host), base_url="http://localhost", headers=with_token(api)
    ) as client:
        answer = await client.get(f"/queue/auth/local?token={api.loopback.token}")
        assert (answer.status_code, answer.headers["location"]) == (303, "../me")
        assert (await client.get("/", headers=BROWSER)).status_code == 404
    await app.close()
