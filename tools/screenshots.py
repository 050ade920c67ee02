"""Pictures of every page for the documentation: make screenshots.

A demo server on a database with a day's history, more workers, some orders of a person; then every page in Chromium,
in light, in dark and on a phone. WebP, below docs/screenshots/.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg
from bench.dashboard import history
from bench.dashboard.free_port import free_port
from playwright.async_api import TimeoutError, async_playwright  # noqa: A004 - of pages, not of calls

from bench import server as servers
from rowlock import Rowlock
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from playwright.async_api import Browser, Page

ROOT: Final = Path(__file__).resolve().parent.parent
OUT: Final = ROOT / "docs" / "screenshots"
DESKTOP: Final = {"width": 1280, "height": 800}
PHONE: Final = {"width": 360, "height": 740}
QUALITY: Final = 62
HISTORY: Final = 24_000
"""Jobs of the last day."""
PATIENCE: Final = 240.0
WAIT: Final = 20_000
"""Milliseconds that a page may take."""
INSTANCE: Final = ("production", "green")
"""Name and colour in the top bar, as ROWLOCK_INSTANCE and ROWLOCK_INSTANCE_COLOUR give them."""
LOCK: Final = ("stocktaking", "leeds")
AS_ON: Final = (
    "import socket, sys; host = sys.argv.pop(1); socket.gethostname = lambda: host; "
    "from rowlock.cli import main; sys.argv[0] = 'rowlock'; main()"
)
"""The command line on a host of this name: pictures show no name of the machine that made them."""
TIDY: Final = """(found) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.data.includes(found)) node.data = node.data.replaceAll(found, "/srv/shop");
  }
}"""
"""Nor do they show its folders."""


@dataclass(frozen=True, slots=True)
class Shot:
    """One page. waits: the text that shows that it is complete; clicks: what is pressed then; keys: typed then.

    read_only: on the server that refuses every change.
    """

    name: str
    path: str
    waits: str = ""
    clicks: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Urls:
    """The server, one that refuses every change, and their database."""

    usual: str
    read_only: str
    database: str


def shots(found: dict[str, str]) -> list[Shot]:
    """Every page, with the ids of what the demo holds."""
    return [
        Shot("overview", "/", "Needs attention"),
        Shot("jobs", "/jobs", "found"),
        Shot("jobs-selected", "/jobs?q=state:failed", "found", keys=("j", "x", "j", "x", "r")),
        Shot("job-running", f"/jobs/{found['running']}", "render"),
        Shot("job-failed", f"/jobs/{found['failed']}", "TimeoutError"),
        Shot("job-waiting", f"/jobs/{found['pending']}", "Why is it not running?"),
        Shot("job-attempts", f"/jobs/{found['failed']}?section=attempts", "Run 1"),
        Shot("job-log", f"/jobs/{found['running']}?section=log", "begins"),
        Shot("job-items", f"/jobs/{found['items']}?section=items", "failed"),
        Shot("job-audit", f"/jobs/{found['approved']}?section=audit", "the parcel came back"),
        Shot("job-related", f"/jobs/{found['step']}?section=related", "It waited for"),
        Shot("new-job", "/jobs/new?kind=shop.refund", "reason"),
        Shot("approvals", "/approvals", "shop.refund"),
        Shot("failures", "/failures", "TimeoutError"),
        Shot("failure", f"/failures/{found['cause']}", "First seen"),
        Shot("workflows", "/workflows", "sales of day"),
        Shot("workflow", f"/workflows/{found['workflow']}", "total"),
        Shot("workflow-times", f"/workflows/{found['workflow']}?view=gantt", "total"),
        Shot("workflow-steps", f"/workflows/{found['workflow']}?view=table", "total"),
        Shot("schedules", "/schedules", "tidy at night"),
        Shot("schedule", "/schedules/tidy%20every%20minute", "Next runs"),
        Shot("lanes", "/lanes", "reports"),
        Shot("lane", "/lanes/shop", "Slots per worker process"),
        Shot("workers", "/workers", "shop-2"),
        Shot("limits", "/limits", "printer"),
        Shot("limits-rates", "/limits?tab=rates", "mail"),
        Shot("limits-locks", "/limits?tab=locks", LOCK[0]),
        Shot("incident", "/incident", "Failures"),
        Shot("system", "/system", "Upkeep"),
        Shot("system-database", "/system?tab=database", "job_attempts"),
        Shot("system-tokens", "/system?tab=tokens", "deploy pipeline"),
        Shot("system-roles", "/system?tab=roles", "operator"),
        Shot("system-webhooks", "/system?tab=webhooks", "orders.shop.example"),
        Shot("system-permissions", "/system?tab=permissions", "jobs:approve"),
        Shot("system-audit", "/system?tab=audit", "lane.set"),
        Shot("not-found", "/jibs", "There is no such page"),
        Shot("empty", "/jobs?q=kind:shop.gift_cards%20state:failed", "No job matches"),
        Shot("read-only", "/lanes", "This server is read-only", read_only=True),
        Shot("palette", "/lanes", "reports", keys=("Control+k", "f", "a", "i")),
        Shot("keyboard", "/lanes", "reports", keys=("?",)),
    ]


@contextlib.contextmanager
def running(host: str, *words: str) -> Iterator[None]:
    """The command line on a host of this name, until the block ends."""
    command = [sys.executable, "-c", AS_ON, host, *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)  # noqa: S603 - ours
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


async def until_there(client: httpx.AsyncClient, path: str, enough: int = 1, **query: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """The items of a list, once there are enough."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(httpx.TransportError):
            answer = await client.get(path, params=query)
            items = answer.json().get("items", []) if answer.status_code == httpx.codes.OK else []
            if len(items) >= enough:
                return list(items)
        if time.monotonic() > deadline:
            raise SystemExit(f"{path} {query} has no {enough} items after {PATIENCE:.0f} s")
        await asyncio.sleep(0.5)


async def orders(client: httpx.AsyncClient) -> dict[str, str]:
    """What a person has done, so that no page is empty; and ids for the addresses."""

    async def order(method: str, path: str, body: dict[str, Any] | None = None) -> None:
        answer = await client.request(method, path, json=body, headers={"If-Match": "*"})
        if answer.is_error:
            raise SystemExit(f"{method} {path}: {answer.text}")

    await until_there(client, "/jobs", 3, q="state:pending kind:shop.refund")
    await order("POST", "/tokens", {"name": "deploy pipeline", "roles": ["operator"]})
    await order("POST", "/tokens", {"name": "nightly export", "roles": ["user"]})
    await order(
        "POST",
        "/views",
        {"name": "receipts that failed", "query": "kind:shop.send_receipt state:failed", "shared": True},
    )
    await order(
        "POST",
        "/webhooks",
        {"url": "https://orders.shop.example/hooks", "states": ["expired"], "description": "the order system"},
    )
    await order("PATCH", "/admin/workers/lanes/reports", {"slots": 3})
    await order("POST", "/schedules/tidy%20at%20night/pause")
    causes = await until_there(client, "/failures", 3)
    waiting = await until_there(client, "/jobs", 3, q="state:pending kind:shop.refund")
    for job in waiting[-2:]:
        await order("POST", f"/jobs/{job['id']}/approve", {"note": "the parcel came back"})
    await until_there(client, "/jobs", 2, q="state:running kind:shop.monthly_report")
    failed = await until_there(client, "/jobs", q="state:failed kind:shop.sync_stock created:>10m", sort="newest")
    flows = await until_there(client, "/workflows", 1)
    stock = next(cause for cause in causes if cause["kind"] == "shop.sync_stock")
    steps = (await client.get(f"/workflows/{flows[0]['id']}")).json()["nodes"]
    return {
        "items": await _job_with_items(client),
        "approved": waiting[-1]["id"],
        "step": next(step["job_id"] for step in steps if step["name"] == "total"),
        "failed": failed[0]["id"],
        "pending": waiting[0]["id"],
        "workflow": flows[0]["id"],
        "cause": stock["fingerprint"],
    }


async def pictures(browser: Browser, urls: Urls, found: dict[str, str], asked: argparse.Namespace) -> None:
    """Every page three times."""
    url = urls.usual
    async with httpx.AsyncClient(
        base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {asked.token}"}
    ) as client:
        for name, viewport, theme in (
            ("phone", PHONE, "light"),
            ("light", DESKTOP, "light"),
            ("dark", DESKTOP, "dark"),
        ):
            context = await browser.new_context(
                viewport=viewport, color_scheme=theme, reduced_motion="reduce", locale="en-GB"
            )
            page = await context.new_page()
            page.on("pageerror", lambda error: sys.stderr.write(f"{error}\n"))
            (asked.out / name).mkdir(parents=True, exist_ok=True)
            await _take(page, url, Shot("login", "/", "Log in to Rowlock"), asked.out / name, asked)
            await page.get_by_label("Token").fill(asked.token)
            await page.get_by_role("button", name="Log in").click()
            await page.get_by_role("heading", level=1, name="Overview").wait_for(timeout=WAIT)
            for name_of_shot in [each.name for each in shots(found | {"running": ""})]:
                if asked.only and name_of_shot not in asked.only.split(","):
                    continue
                # Asked anew each time: reports end within half a minute.
                running = await _running_report(client) if "job-" in name_of_shot else ""
                (shot,) = [each for each in shots(found | {"running": running}) if each.name == name_of_shot]
                await _take(page, urls.read_only if shot.read_only else url, shot, asked.out / name, asked)
            await context.close()


async def _job_with_items(client: httpx.AsyncClient) -> str:
    """A job that has run with items; those of the history have none."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for job in await until_there(client, "/jobs", q="kind:shop.resize_images", sort="newest"):
            if job["state"] == "completed_with_errors" and (job["progress"] or {}).get("items"):
                return str(job["id"])
        await asyncio.sleep(0.5)
    raise SystemExit(f"no job with items after {PATIENCE:.0f} s")


async def _running_report(client: httpx.AsyncClient) -> str:
    """A report in its second phase, if there is one."""
    found = await until_there(client, "/jobs", q="state:running kind:shop.monthly_report")
    return str(next((job for job in found if (job.get("progress") or {}).get("phase") == "render"), found[-1])["id"])


async def _take(page: Page, url: str, shot: Shot, folder: Path, asked: argparse.Namespace) -> None:
    await page.goto(url + shot.path)
    try:
        await page.locator("main, body").get_by_text(shot.waits).locator("visible=true").first.wait_for(timeout=WAIT)
    except TimeoutError:
        asked.missed.append(f"{folder.name}/{shot.name}: {shot.waits!r} does not appear")
        return
    for name in shot.clicks:
        await page.get_by_role("button", name=name).first.click()
    await page.wait_for_timeout(700)  # charts draw themselves
    for key in shot.keys:
        await page.keyboard.press(key)
        await page.wait_for_timeout(150)
    await page.wait_for_timeout(500)
    await page.evaluate(TIDY, str(ROOT))
    session = await page.context.new_cdp_session(page)
    taken = await session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    (folder / f"{shot.name}.webp").write_bytes(base64.b64decode(taken["data"]))
    await session.detach()
    if asked.look is not None:
        (asked.look / folder.name).mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=asked.look / folder.name / f"{shot.name}.png", full_page=True)


@contextlib.asynccontextmanager
async def held_lock(database_url: str) -> AsyncIterator[None]:
    """A lock with a holder and one that waits, both outside of jobs, until the block ends."""
    socket.gethostname = lambda: "shop-1"  # its holder is named in the pictures
    async with Rowlock(database_url) as one, Rowlock(database_url) as other, one.lock(*LOCK):

        async def wait() -> None:
            async with other.lock(*LOCK):
                pass

        waiting = asyncio.create_task(wait())
        yield
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def drive(urls: Urls, asked: argparse.Namespace) -> None:
    """Wait for the demo, give the orders, take the pictures."""
    url = urls.usual
    async with httpx.AsyncClient(
        base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {asked.token}"}, timeout=30
    ) as client:
        found = await orders(client)
    async with async_playwright() as playwright, held_lock(urls.database):
        browser = await playwright.chromium.launch(
            executable_path=asked.chromium, args=["--no-sandbox", "--hide-scrollbars"]
        )
        await pictures(browser, urls, found, asked)
        await browser.close()


def main() -> None:
    """Serve, look, and end what was started."""
    options = argparse.ArgumentParser(prog="make screenshots ARGS=…", description="Pictures of every page.")
    options.add_argument("--out", type=Path, default=OUT)
    options.add_argument("--only", help="names with commas, such as overview,jobs")
    options.add_argument("--look", type=Path, metavar="FOLDER", help="PNGs of the whole pages too, for a close look")
    options.add_argument("--chromium", default=os.environ.get("ROWLOCK_TEST_CHROMIUM", "/usr/bin/chromium"))
    asked = options.parse_args()
    asked.missed = []
    port, port_of_reader = free_port(), free_port()
    with servers.postgres(name="screenshots") as server:
        asyncio.run(migrate.upgrade(server.url, "rowlock"))
        with psycopg.connect(server.url, autocommit=True) as connection:
            history.fill(connection, HISTORY, history.SHOP, hours=24)
        os.environ |= {
            "ROWLOCK_DATABASE_URL": server.url,
            "ROWLOCK_APP_VERSION": "2.4.0",
            "ROWLOCK_APP": "bench.dashboard.shop:app",
            "ROWLOCK_INSTANCE": INSTANCE[0],
            "ROWLOCK_INSTANCE_COLOUR": INSTANCE[1],
        }
        asked.token = token_of("operations")
        with (
            running(
                "shop-1",
                "demo",
                "--serve",
                "--port",
                "0",
                "--database-url",
                server.url,
                "--schema",
                "rowlock",
                "--keep",
            ),
            running("shop-2", "worker"),
            running("shop-2", "worker", "--lanes", "reports=2"),
            running("shop-1", "serve", "--port", str(port), "--auth", "tokens"),
            running("shop-1", "serve", "--port", str(port_of_reader), "--auth", "tokens", "--read-only"),
        ):
            urls = Urls(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port_of_reader}", server.url)
            asyncio.run(drive(urls, asked))
    if asked.missed:
        raise SystemExit("\n".join(asked.missed))


def token_of(name: str) -> str:
    """A new token of an administrator."""
    command = [sys.executable, "-m", "rowlock", "tokens", "create", name, "--role", "platform_admin", "--json"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)  # noqa: S603 - ours
    return str(json.loads(made.stdout)["text"])


if __name__ == "__main__":
    main()
