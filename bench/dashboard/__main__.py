"""python -m bench.dashboard: the dashboard over a million jobs. `make bench-ui ARGS=…` calls it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg
from playwright.async_api import async_playwright

from bench import server as servers
from bench.dashboard import history, pages
from bench.dashboard.free_port import free_port
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.dashboard.pages import Timings

ROOT: Final = Path(__file__).parents[2]
OUT: Final = ROOT / "bench" / "results" / "dashboard.json"
TARGETS: Final = {"Jobs": 1000.0}
"""Milliseconds until a page is usable."""
ANSWER: Final = 50.0
"""Milliseconds of each request of the Overview."""


def main() -> None:
    """Fill, serve, measure, print; with --strict fail beyond the targets."""
    options = argparse.ArgumentParser(prog="make bench-ui ARGS=…", description="How fast pages open over many jobs.")
    options.add_argument("--jobs", type=int, default=1_000_000)
    options.add_argument("--database-url", help="a database that holds a history already, instead of a new one")
    options.add_argument("--loads", type=int, default=5, help="of each page")
    options.add_argument("--strict", action="store_true", help="fail beyond the targets: for a quiet machine")
    options.add_argument("--out", type=Path, default=OUT)
    options.add_argument("--chromium", default=os.environ.get("ROWLOCK_TEST_CHROMIUM", "/usr/bin/chromium"))
    asked = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers end with us
    with filled(asked) as url:
        os.environ |= {"ROWLOCK_DATABASE_URL": url, "ROWLOCK_APP": "bench.dashboard.shop:app"}
        os.environ["ROWLOCK_SERVE_TOKEN"] = secrets.token_urlsafe(32)
        port = free_port()
        with process("worker"), process("serve", "--port", str(port)):
            timings, answers = asyncio.run(measured(f"http://127.0.0.1:{port}", asked))
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps({"pages": [asdict(each) for each in timings], "answers": answers}, indent=1))
    late = report(timings, answers)
    if asked.strict and late:
        raise SystemExit(f"beyond their targets: {', '.join(late)}")


@contextlib.contextmanager
def filled(asked: argparse.Namespace) -> Iterator[str]:
    """A database with the history: a new one, or the one that was named."""
    if asked.database_url:
        yield asked.database_url
        return
    with servers.postgres(name="dashboard") as server:
        asyncio.run(migrate.upgrade(server.url, "rowlock"))
        began = time.monotonic()
        with psycopg.connect(server.url, autocommit=True) as connection:
            history.fill(connection, asked.jobs, history.large_shop(), hours=168, waiting=asked.jobs // 30)
        say(f"{asked.jobs:,} jobs in {time.monotonic() - began:.0f} s, PostgreSQL {server.version}")
        yield server.url


@contextlib.contextmanager
def process(*words: str) -> Iterator[None]:
    """A process of the command line until the block ends."""
    started = subprocess.Popen(
        [sys.executable, "-m", "rowlock", *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        started.terminate()
        started.wait()


async def measured(url: str, asked: argparse.Namespace) -> tuple[list[Timings], dict[str, tuple[float, float]]]:
    """Every page cold and warm; then each request of theirs alone."""
    token = os.environ["ROWLOCK_SERVE_TOKEN"]
    async with httpx.AsyncClient(
        base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=60
    ) as client:
        await until_served(client)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=asked.chromium, args=["--no-sandbox"])
            timings = [
                await pages.opened(browser, url, token, page, asked.loads, cold=cold)
                for page in pages.PAGES
                for cold in (True, False)
            ]
            await browser.close()
        routes = sorted({path for each in timings for path in each.requests})
        return timings, await pages.answered(client, routes)


async def until_served(client: httpx.AsyncClient) -> None:
    """Wait for the server, and for a worker's first upkeep."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            status: Any = (await client.get("/admin/workers/status")).json()
            if status.get("workers"):
                return
        await asyncio.sleep(0.2)
    raise SystemExit("no server, or no worker, after 60 s")


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def report(timings: list[Timings], answers: dict[str, tuple[float, float]]) -> list[str]:
    """Print what was measured; returns what is beyond its target."""
    say(f"\n{'page':<20}{'cache':<7}{'first paint':>12}{'usable':>9}{'blocked':>9}{'longest task':>14}{'received':>11}")
    late = []
    for each in timings:
        say(
            f"{each.page:<20}{'cold' if each.cold else 'warm':<7}{each.paint:>9.0f} ms{each.usable:>6.0f} ms"
            f"{each.blocked:>6.0f} ms{each.longest:>11.0f} ms{each.kilobytes:>8.0f} kB"
        )
        if each.usable > TARGETS.get(each.page, float("inf")):
            late.append(f"{each.page} usable after {each.usable:.0f} ms")
    say(f"\n{'request, alone':<66}{'median':>9}{'slowest':>11}")
    overview = {path for each in timings if each.page == "Overview" for path in each.requests}
    for path, (median, slowest) in sorted(answers.items(), key=lambda item: -item[1][0]):
        say(f"{'Overview: ' if path in overview else '':<10}{path:<56}{median:>6.1f} ms{slowest:>8.1f} ms")
        if path in overview and median > ANSWER:
            late.append(f"{path} answered after {median:.0f} ms")
    return late


if __name__ == "__main__":
    main()
