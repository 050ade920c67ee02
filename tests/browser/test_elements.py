"""<rowlock-progress> and <rowlock-my-jobs> in a page of another origin, under a strict policy, with real processes."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect
from tests.cli.serving import serve_process
from typing_extensions import override

from rowlock import Rowlock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from playwright.async_api import Browser, Locator, Page
    from tests.cli.conftest import Cli
    from tests.cli.serving import ServeProcess

pytestmark = pytest.mark.timeout(300)
expect.set_options(timeout=60_000)

PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Shop</title><script type="module" src="{module}"></script></head>
<body><main><h1>Your order</h1>{element}</main></body>
</html>
"""
LISTEN: Final = """() => {
  window.heard = [];
  for (const name of ["rowlock-end", "rowlock-error", "securitypolicyviolation"])
    document.addEventListener(name, (event) =>
      window.heard.push([name, event.detail?.state ?? event.detail?.code ?? event.violatedDirective]));
}"""


@dataclass
class Shop:
    """The user's own product: a page on another origin, and an address that gives new tokens."""

    port: int = 0
    element: str = ""
    api: str = ""
    tokens: list[str] = field(default_factory=list)
    asked: int = 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def policy(self) -> str:
        """No inline style or script, nothing from anywhere but the API; no HTML out of strings."""
        allowed = f"script-src {self.api}; connect-src 'self' {self.api}; require-trusted-types-for 'script'"
        return f"default-src 'none'; style-src 'none'; {allowed}"

    def answer(self, path: str) -> tuple[int, str, str]:
        if path == "/token":
            self.asked += 1
            if not self.tokens:
                return 403, "application/json", "{}"
            return 200, "application/json", json.dumps({"token": self.tokens.pop(0)})
        module = f"{self.api}/api/v1/embed/rowlock-elements.js"
        return 200, "text/html; charset=utf-8", PAGE.format(module=module, element=self.element)


@contextlib.contextmanager
def open_shop() -> Iterator[Shop]:
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, text = shop.answer(self.path)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", shop.policy)
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        shop.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield shop
        finally:
            server.shutdown()
            thread.join()


@contextlib.asynccontextmanager
async def worker(cli: Cli) -> AsyncIterator[None]:
    process = await cli.start("worker", "--app", "tasks:app")
    try:
        yield
    finally:
        process.kill()
        await process.communicate()


@dataclass
class World:
    """The shop, the server of the API, and the application that makes tokens."""

    cli: Cli
    shop: Shop
    server: ServeProcess
    app: Rowlock

    async def visit(self, browser: Browser, element: str) -> Page:
        self.shop.element = element
        page = await browser.new_page()
        await page.add_init_script(f"({LISTEN})()")
        await page.goto(self.shop.origin)
        return page

    async def show_job(self, browser: Browser, job: str, **token: Any) -> Page:  # noqa: ANN401 - for_job's
        made = await self.app.tokens.for_job(job, **token)
        attributes = f'job="{job}" token="{made.text}" label="Import of your addresses"'
        return await self.visit(browser, f"<rowlock-progress {attributes}></rowlock-progress>")


@pytest.fixture
async def world(cli: Cli) -> AsyncIterator[World]:
    with open_shop() as shop:
        async with serve_process(cli, "--allow-origin", shop.origin) as server:
            shop.api = f"http://127.0.0.1:{server.port}"
            app = Rowlock(cli.url)
            yield World(cli, shop, server, app)
            await app.close()


async def heard(page: Page, *expected: list[str]) -> None:
    """These events came, and no others: no violation of the policy among them."""
    await page.wait_for_function(
        "expected => JSON.stringify(window.heard) === expected", arg=json.dumps(expected, separators=(",", ":"))
    )


async def accessible(page: Page) -> None:
    """No rule of WCAG that a machine can check is broken."""
    violations = (await Axe().run(page)).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in violations] == []


def bar(page: Page) -> Locator:
    return page.get_by_role("progressbar")


async def test_a_job_is_shown_from_its_queue_to_its_end(world: World, browser: Browser, tmp_path: Path) -> None:
    step = tmp_path / "step"
    job = await world.cli.enqueue("count", step=str(step), total=4)
    page = await world.show_job(browser, job)
    element = page.locator("rowlock-progress")
    await expect(element).to_have_attribute("state", "queued")
    await expect(element).to_contain_text("Waiting to start")
    await expect(bar(page)).to_have_accessible_name("Import of your addresses")
    await accessible(page)
    async with worker(world.cli):
        (tmp_path / "step1").touch()
        await expect(element).to_have_attribute("state", "running")
        await expect(bar(page)).to_have_attribute("aria-valuenow", "25")
        await expect(element).to_contain_text("load · row 1")
        await expect(element.get_by_role("status")).to_have_text("Running: load")
        await accessible(page)
        for number in (2, 3, 4):
            (tmp_path / f"step{number}").touch()
        await expect(element).to_have_attribute("state", "completed")
    await expect(bar(page)).to_have_attribute("aria-valuenow", "100")
    await expect(element.get_by_role("status")).to_have_text("Done")
    await expect(element.get_by_role("button")).to_have_count(0)
    await heard(page, ["rowlock-end", "completed"])
    assert (await element.evaluate("element => element.job.result")) is None
    await accessible(page)


async def test_a_waiting_job_says_how_many_are_before_it(world: World, browser: Browser, tmp_path: Path) -> None:
    await world.app.lanes.create("default", kinds=["*"])
    first, job = [await world.cli.enqueue("count", step=str(tmp_path / "step"), total=1) for _ in range(2)]
    page = await world.show_job(browser, job)
    element = page.locator("rowlock-progress")
    await expect(element).to_contain_text("1 job before it")
    await accessible(page)
    await world.app.jobs.cancel(first)
    await expect(element).to_contain_text("next in line")


async def test_how_a_job_ended_is_said(world: World, browser: Browser) -> None:
    failed = await world.cli.enqueue("explode")
    async with worker(world.cli):
        page = await world.show_job(browser, failed, show=["error"])
        await expect(page.locator("rowlock-progress")).to_have_attribute("state", "failed")
        await expect(page.locator("rowlock-progress")).to_contain_text("out of paper")
        quiet = await world.show_job(browser, failed)
        await expect(quiet.locator("rowlock-progress")).to_have_attribute("state", "failed")
        await expect(quiet.locator("rowlock-progress")).not_to_contain_text("out of paper")
    await heard(quiet, ["rowlock-end", "failed"])
    gone = await world.cli.enqueue("pay", amount=1)
    page = await world.show_job(browser, gone)
    await expect(page.locator("rowlock-progress")).to_contain_text("Waiting for approval")
    await world.app.jobs.cancel(gone)
    await expect(page.locator("rowlock-progress")).to_have_attribute("state", "cancelled")
    await world.app.jobs.delete(gone)
    await page.reload()
    await expect(page.locator("rowlock-progress")).to_have_attribute("state", "gone")
    await expect(page.locator("rowlock-progress")).to_contain_text("No longer available")
    await accessible(page)


async def test_a_person_cancels_a_job_where_its_token_allows_it(world: World, browser: Browser) -> None:
    job = await world.cli.enqueue("greet", name="Ada")
    page = await world.show_job(browser, job)
    await expect(page.locator("rowlock-progress")).to_have_attribute("state", "queued")
    await expect(page.get_by_role("button")).to_have_count(0)
    page = await world.show_job(browser, job, cancel=True)
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.locator("rowlock-progress")).to_have_attribute("state", "cancelled")
    assert (await world.app.jobs.get(job)).state == "cancelled"


async def test_an_expired_token_is_renewed_or_the_page_says_so(world: World, browser: Browser, tmp_path: Path) -> None:
    job = await world.cli.enqueue("count", step=str(tmp_path / "step"), total=1)
    short = await world.app.tokens.for_job(job, expires="1s")
    world.shop.tokens = [(await world.app.tokens.for_job(job)).text]
    page = await world.visit(
        browser,
        f'<rowlock-progress job="{job}" token="{short.text}" token-src="/token"></rowlock-progress>'
        f'<rowlock-progress id="alone" job="{job}" token="{short.text}"></rowlock-progress>',
    )
    alone = page.locator("#alone")
    await expect(alone).to_have_attribute("state", "token-expired")
    await expect(alone).to_contain_text("Reload it to go on")
    await heard(page, ["rowlock-error", "token-expired"])
    await accessible(page)
    async with worker(world.cli):
        (tmp_path / "step1").touch()
        await expect(page.locator("rowlock-progress").first).to_have_attribute("state", "completed")
        assert world.shop.asked == 1
        await expect(alone).to_have_attribute("state", "token-expired")
        fresh = await world.app.tokens.for_job(job)
        await alone.evaluate("(element, token) => element.setAttribute('token', token)", fresh.text)
        await expect(alone).to_have_attribute("state", "completed")


async def test_a_restart_of_the_api_is_survived(world: World, browser: Browser, tmp_path: Path) -> None:
    job = await world.cli.enqueue("count", step=str(tmp_path / "step"), total=2)
    page = await world.show_job(browser, job)
    element = page.locator("rowlock-progress")
    async with worker(world.cli):
        (tmp_path / "step1").touch()
        await expect(bar(page)).to_have_attribute("aria-valuenow", "50")
        world.server.process.kill()
        await expect(element).to_have_attribute("offline", "")
        await expect(element).to_contain_text("Connection lost")
        (tmp_path / "step2").touch()
        again = ("--allow-origin", world.shop.origin, "--port", str(world.server.port))
        await world.server.process.wait()
        async with serve_process(world.cli, *again):
            await expect(element).to_have_attribute("state", "completed")
            await expect(element).not_to_have_attribute("offline", "")
    await heard(page, ["rowlock-end", "completed"])


async def test_a_page_whose_origin_is_not_allowed_learns_nothing(world: World, browser: Browser) -> None:
    job = await world.cli.enqueue("greet", name="Ada")
    async with serve_process(world.cli) as closed:
        world.shop.api = f"http://127.0.0.1:{closed.port}"
        page = await world.show_job(browser, job)
        element = page.locator("rowlock-progress")
        await expect(element).to_have_attribute("offline", "")
        assert await element.evaluate("element => element.job") is None


async def test_people_see_and_cancel_their_own_jobs(world: World, browser: Browser) -> None:
    app = world.app

    @app.job("greet", lane="front")
    async def greet(name: str) -> None: ...

    made = [await greet.options(tenant="acme", submitted_by="ada").enqueue(name=f"n{number}") for number in range(3)]
    await greet.options(tenant="acme", submitted_by="bob").enqueue(name="secret")
    token = await app.tokens.for_user("ada", tenant="acme", cancel=True)
    page = await world.visit(
        browser, f'<rowlock-my-jobs token="{token.text}" limit="2" poll-interval="1"></rowlock-my-jobs>'
    )
    element = page.locator("rowlock-my-jobs")
    await expect(element.get_by_role("listitem")).to_have_count(2)
    await accessible(page)
    await element.get_by_role("button", name="Show more").click()
    await expect(element.get_by_role("listitem")).to_have_count(3)
    await element.get_by_role("listitem").last.get_by_role("button", name="Cancel").click()
    await expect(element.get_by_role("listitem").last).to_contain_text("Cancelled")
    assert (await app.jobs.get(made[0].id)).state == "cancelled"
    async with worker(world.cli):
        await expect(element.get_by_role("listitem").first).to_contain_text("Done")
    await heard(page)
    empty = await app.tokens.for_user("nobody")
    page = await world.visit(browser, f'<rowlock-my-jobs token="{empty.text}"></rowlock-my-jobs>')
    await expect(page.locator("rowlock-my-jobs")).to_contain_text("No jobs yet.")
    await accessible(page)
