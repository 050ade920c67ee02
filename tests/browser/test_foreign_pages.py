"""Pages of other origins, in the browser of a user of a server without authentication: they read and change nothing."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import pytest
from tests.cli.serving import serve_process
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from playwright.async_api import Browser, Page
    from tests.cli.conftest import Cli
    from tests.cli.serving import ServeProcess

pytestmark = pytest.mark.timeout(300)

PAGE: Final = Path(__file__).with_name("foreign_page.html").read_text(encoding="utf-8")
MARKER: Final = "only-the-user-may-read-this"
UNRELATED: Final = frozenset({"duties", "workers"})
"""Tables that a server writes by itself."""
REFUSALS: Final = frozenset({"no-auth-configured", "not-found", "method-not-allowed", "unsupported-media-type"})
ORIGINS: Final = (
    ("http://127.0.0.1", "127.0.0.1", "127.0.0.1"),
    ("http://localhost", "127.0.0.1", "localhost"),
    ("http://evil.localhost", "127.0.0.1", "localhost"),
    ("http://127.0.0.2", "127.0.0.2", "127.0.0.1"),
    ("http://evil.example", "127.0.0.1", "127.0.0.1"),
)
"""Where the hostile page comes from, the address of its server, and the name by which the user knows Rowlock.

The first two differ from Rowlock's own pages in the port alone, and browsers send them Rowlock's cookies.
"""


class _OnePage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def foreign_site(address: str) -> Iterator[int]:
    """A web server with the hostile page; yields its port."""
    with ThreadingHTTPServer((address, 0), _OnePage) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


async def contents(url: str) -> dict[str, list[str]]:
    """Every row of every table of Rowlock that a request could change."""
    connection = await asyncpg.connect(url)
    try:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'rowlock'")
        tables = sorted({name for (name,) in names} - UNRELATED)
        return {
            name: [row for (row,) in await connection.fetch(f"SELECT t::text FROM rowlock.{name} t ORDER BY 1")]
            for name in tables
        }
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def serving(cli: Cli) -> AsyncIterator[tuple[ServeProcess, str]]:
    """A server with a lane and a queued job whose argument is the marker; the job's id."""
    async with serve_process(cli) as server:
        lane = await server.client.post("/admin/workers/lanes", json={"name": "front", "kinds": ["greet"]})
        assert lane.status_code == 201, lane.text
        made = await server.client.post("/jobs", json={"kind": "greet", "args": {"name": MARKER}, "run_in": "1h"})
        assert made.status_code == 202, made.text
        yield server, made.json()["id"]


async def attacked(page: Page, target: str, job: str) -> dict[str, Any]:
    """What each attempt of the hostile page came to; no frame shows an answer of the server."""
    results: dict[str, Any] = await page.evaluate("([target, job]) => attack(target, job)", [target, job])
    assert [name for name, result in results.items() if result == "undecided"] == []
    assert len(results) > 40
    assert not [frame.url for frame in page.frames[1:] if frame.url.startswith(target)]
    return results


@pytest.mark.parametrize("user", ["logged in", "logged out"])
async def test_a_page_of_another_origin_reads_and_changes_nothing(cli: Cli, browser: Browser, user: str) -> None:
    async with serving(cli) as (server, job):
        for origin, address, name in ORIGINS:
            context = await browser.new_context()
            page = await context.new_page()
            target = f"http://{name}:{server.port}"
            if user == "logged in":
                await page.goto(server.link.replace("//127.0.0.1:", f"//{name}:"))
            before = await contents(cli.url)
            with foreign_site(address) as port:
                await page.goto(f"{origin}:{port}/")
                results = await attacked(page, target, job)
            assert {attempt: result for attempt, result in results.items() if result != "blocked"} == {}, origin
            assert await contents(cli.url) == before, origin
            if user == "logged in":
                await page.goto(f"{target}/api/v1/jobs/{job}")
                assert MARKER in await page.inner_text("body"), origin  # nobody logged the user out
            await context.close()


async def test_a_rebound_name_is_answered_with_a_refusal_and_nothing_else(cli: Cli, browser: Browser) -> None:
    async with serving(cli) as (server, job):
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(server.link)
        before = await contents(cli.url)
        # Until the name was rebound to this machine, it led to the attacker, who sent this page.
        target = f"http://rebound.example:{server.port}"
        await context.route(f"{target}/", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
        await page.goto(f"{target}/")
        results = await attacked(page, target, job)
        read = {name: json.loads(result["text"]) for name, result in results.items() if "text" in result}
        assert len(read) > 30
        assert {answer["code"] for answer in read.values()} <= REFUSALS, read
        assert MARKER not in json.dumps(results)
        assert await contents(cli.url) == before


async def test_the_printed_link_logs_the_browser_in_and_its_own_pages_may_read_and_order(
    cli: Cli, browser: Browser
) -> None:
    async with serving(cli) as (server, job):
        context = await browser.new_context()
        page = await context.new_page()
        own = f"http://127.0.0.1:{server.port}"
        refused = await page.goto(f"{own}/api/v1/jobs")
        assert refused is not None
        assert refused.status == 401

        shown = await page.goto(server.link)
        assert shown is not None
        assert shown.status == 200
        assert page.url == f"{own}/"
        token = server.link.partition("token=")[2]
        assert token not in json.dumps([page.url, await page.evaluate("document.cookie"), await page.content()])

        await context.route(f"{own}/page", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
        await page.goto(f"{own}/page")
        read = await page.evaluate("(job) => fetched(`/api/v1/jobs/${job}`)", job)
        assert (read["status"], MARKER in read["text"]) == (200, True)
        assert await page.evaluate("streamed('/api/v1/events')") == {"open": "EventSource"}
        ordered = await page.evaluate("(job) => fetched(`/api/v1/jobs/${job}/cancel`, {method: 'POST'})", job)
        assert (ordered["status"], json.loads(ordered["text"])["state"]) == (200, "cancelled")
        submission = json.dumps({"kind": "greet", "args": {"name": "Ada"}})
        sent = {"method": "POST", "headers": {"Content-Type": "application/json"}, "body": submission}
        submitted = await page.evaluate("(sent) => fetched('/api/v1/jobs', sent)", sent)
        assert submitted["status"] == 202, submitted
