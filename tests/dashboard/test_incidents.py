"""Five incidents as a person meets them who has only the dashboard: from the overview to the cause, and to the remedy.

Workers are processes and the faults are real. Each trial counts presses; ROWLOCK_TRIALS=FOLDER also keeps pictures of
every step and the times, which depend on the machine and are therefore not judged.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.waiting import eventually

from rowlock import Retry, Rowlock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from playwright.async_api import Locator
    from tests.dashboard.conftest import Visit

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

TASKS: Final = """
import asyncio
from pathlib import Path
from rowlock import Retry, Rowlock

app = Rowlock()

@app.job(lane="reports", retry=Retry(attempts=1))
async def build_report(month: str) -> None:
    while True:  # the last page never comes
        await asyncio.sleep(0.1)

@app.job(lane="mail", retry=Retry(attempts=1))
async def send_mail(to: str) -> None:
    if Path("mail-server-is-away").exists():
        raise ConnectionError("mail.example refused the connection")

@app.job(lane="imports")
async def import_file(name: str) -> None:
    while name.startswith("ftp:"):  # a server that accepts and never sends
        await asyncio.sleep(0.1)
"""
HALF_AN_HOUR_AGO: Final = (
    "UPDATE {s}.deploys SET first_seen = first_seen - interval '30 min'",
    "UPDATE {s}.count_increments SET at = at - interval '30 min'",
    "UPDATE {s}.counts_by_minute SET since = since - interval '30 min'",
)
"""What has happened so far happened then."""
MOST_STEPS: Final = 8
"""Presses from the overview to the remedy."""


class Trial:
    """One person at the dashboard, whose presses are counted."""

    def __init__(self, window: Visit, name: str) -> None:
        self.window, self.name = window, name
        self.steps: list[str] = []
        self.cause: tuple[int, float] | None = None
        self._began = 0.0

    async def begin(self) -> None:
        await self.window.open("/", "Overview")
        self._began = time.monotonic()
        await self._picture()

    async def press(self, what: Locator, said: str) -> None:
        await what.click()
        self.steps.append(said)
        await self._picture()

    async def knows(self, what: Locator) -> None:
        """The cause is on the screen."""
        await self.window.sees(what)
        self.cause = len(self.steps), time.monotonic() - self._began
        await self._picture()

    async def mended(self) -> None:
        took = time.monotonic() - self._began
        assert self.cause is not None
        assert len(self.steps) <= MOST_STEPS, self.steps
        assert self.window.faults == []
        if folder := os.environ.get("ROWLOCK_TRIALS"):
            told = {"cause": self.cause, "remedy": [len(self.steps), took], "steps": self.steps}
            _keep(Path(folder, f"{self.name}.json"), told)

    async def _picture(self) -> None:
        if folder := os.environ.get("ROWLOCK_TRIALS"):
            await self.window.page.wait_for_timeout(300)
            await self.window.page.screenshot(path=Path(folder, f"{self.name}-{len(self.steps)}.png"))


def _keep(path: Path, told: dict[str, Any]) -> None:
    path.write_text(json.dumps(told, indent=1))


class Hosts:
    """Worker processes, each with a folder of its own as if it were a host."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder, self.url = folder, database_url
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, tasks: str = TASKS, version: str = "1.0") -> subprocess.Popen[bytes]:
        folder = self.folder / f"{name}-{version}"
        folder.mkdir(exist_ok=True)
        folder.joinpath("tasks.py").write_text(tasks)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ROWLOCK_")}
        environment |= {"ROWLOCK_DATABASE_URL": self.url, "ROWLOCK_APP_VERSION": version}
        started = subprocess.Popen(
            [sys.executable, "-m", "rowlock", "worker", "--app", "tasks:app", "--name", name],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.running.append(started)
        return started

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


@pytest.fixture
def hosts(tmp_path: Path, database_url: str) -> Any:  # noqa: ANN401 - a generator
    made = Hosts(tmp_path, database_url)
    yield made
    made.end()


@pytest.fixture
async def shop(database_url: str) -> AsyncIterator[Rowlock]:
    """The application's web processes: they enqueue."""
    async with Rowlock(database_url) as app:

        @app.job(retry=Retry(attempts=1))
        async def build_report(month: str) -> None: ...

        @app.job(retry=Retry(attempts=1))
        async def send_mail(to: str) -> None: ...

        @app.job
        async def import_file(name: str) -> None: ...

        yield app


def counted(window: Visit, condition: str, number: int) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        return bool(await window.rest.store.value(f"SELECT count(*) = {number} FROM {{s}}.jobs WHERE {condition}"))

    return reached


async def beating(window: Visit, workers: int = 1) -> None:
    async def there() -> bool:
        return bool(
            await window.rest.store.value(f"SELECT count(*) >= {workers} FROM {{s}}.workers WHERE state = 'up'")
        )

    await eventually(there)


def concern(window: Visit, text: str) -> Locator:
    """A line of what needs attention."""
    return window.page.locator("main").get_by_role("link", name=text)


async def test_a_runaway_job(visit: Callable[..., Any], hosts: Hosts, shop: Rowlock) -> None:
    window: Visit = await visit()
    hosts.start("mill-1")
    await shop.task("build_report").enqueue("2026-11")
    await eventually(counted(window, "state = 'running'", 1))
    await window.rest.store.execute("UPDATE {s}.jobs SET claimed_at = claimed_at - interval '20 min'")
    trial = Trial(window, "runaway job")
    await trial.begin()
    await trial.press(concern(window, "build_report has been running for 20 m"), "the line of the long run")
    await trial.knows(window.page.locator("h1").get_by_text("running"))
    await trial.press(window.button("Cancel"), "Cancel")
    await trial.press(window.button("Cancel the job"), "Cancel the job")
    await window.sees(window.page.locator("h1").get_by_text("cancelled"))
    await trial.mended()


async def test_a_stuck_lane(visit: Callable[..., Any], hosts: Hosts, shop: Rowlock) -> None:
    window: Visit = await visit()
    async with window.rest.client() as client:
        made = await client.post("/admin/workers/lanes", json={"name": "imports", "kinds": ["import_file"], "slots": 2})
        assert made.status_code == 201, made.text
    hosts.start("mill-1")
    imports = shop.task("import_file")
    for name in ("ftp:a", "ftp:b"):
        await imports.enqueue(name)
    await eventually(counted(window, "state = 'running'", 2))
    await imports.enqueue_many([{"name": str(n)} for n in range(20)])
    await window.rest.store.execute(
        "UPDATE {s}.jobs SET run_after = run_after - interval '5 min' WHERE state = 'queued'"
    )
    trial = Trial(window, "stuck lane")
    await trial.begin()
    await trial.press(concern(window, "Lane imports: the oldest due job has waited"), "the line of the lane")
    await trial.knows(window.page.get_by_role("row").filter(has_text="import_file").nth(1))
    await trial.press(window.page.get_by_role("link", name="Show them as a list"), "Show them as a list")
    await trial.press(window.page.get_by_label("Select all loaded jobs"), "select all")
    await trial.press(window.button("Cancel"), "Cancel")
    await window.sees(window.text("2 jobs can take this order."))
    await trial.press(window.button("Cancel 2"), "Cancel 2")
    await eventually(counted(window, "state = 'completed'", 20))
    await trial.mended()


async def test_five_hundred_failures_of_one_kind(visit: Callable[..., Any], hosts: Hosts, shop: Rowlock) -> None:
    window: Visit = await visit()
    hosts.start("mill-1")
    away = hosts.folder / "mill-1-1.0" / "mail-server-is-away"
    away.touch()
    await shop.task("send_mail").enqueue_many([{"to": f"{n}@shop.example"} for n in range(500)])
    await eventually(counted(window, "state = 'failed'", 500))
    trial = Trial(window, "500 failures")
    await trial.begin()
    line = concern(window, "send_mail: 500 failed, 100 % of its finished jobs")
    await window.sees(line)
    await trial.knows(window.text("mail.example refused the connection"))
    away.unlink()  # the mail server is back
    await trial.press(line, "the line of the failing kind")
    await trial.press(window.page.get_by_role("link", name="ConnectionError"), "its cause")
    await trial.press(window.button("Retry its failed jobs"), "Retry its failed jobs")
    await window.sees(window.text("500 jobs can take this order."))
    await trial.press(window.button("Retry 500"), "Retry 500")
    await window.sees(window.text("500 done, 0 skipped"))
    await eventually(counted(window, "state = 'completed'", 500))
    await trial.mended()


async def test_a_dead_worker_host(visit: Callable[..., Any], hosts: Hosts, shop: Rowlock) -> None:
    window: Visit = await visit()
    dying = hosts.start("mill-1")
    await beating(window)
    for name in ("ftp:a", "ftp:b"):
        await shop.task("import_file").enqueue(name)
    await eventually(counted(window, "state = 'running'", 2))
    hosts.start("mill-2")
    await beating(window, 2)
    dying.send_signal(signal.SIGKILL)
    trial = Trial(window, "dead worker host")
    await trial.begin()
    line = concern(window, "Worker mill-1 is silent")
    await trial.knows(line)
    await trial.press(line, "the line of the silent worker")
    await trial.press(window.page.get_by_role("button", name="Orders for worker mill-1"), "its orders")
    await trial.press(window.page.get_by_role("menuitem", name="Forget"), "Forget")
    await trial.press(window.button("Forget"), "Forget, confirmed")
    on_the_other = "state = 'running' AND claimed_by = (SELECT id FROM {s}.workers WHERE name = 'mill-2')"
    await eventually(counted(window, on_the_other, 2))
    await trial.mended()


async def test_a_bad_deploy(visit: Callable[..., Any], hosts: Hosts, shop: Rowlock) -> None:
    window: Visit = await visit()
    good = hosts.start("mill-1")
    await beating(window)
    await shop.task("send_mail").enqueue_many([{"to": f"{n}@shop.example"} for n in range(50)])
    await eventually(counted(window, "state = 'completed'", 50))
    good.send_signal(signal.SIGTERM)
    for change in HALF_AN_HOUR_AGO:
        await window.rest.store.execute(change)
    with contextlib.suppress(subprocess.TimeoutExpired):
        good.wait(60)
    broken = TASKS.replace('if Path("mail-server-is-away").exists():', "if to[1000]:")
    hosts.start("mill-2", broken, version="2.0")
    await shop.task("send_mail").enqueue_many([{"to": f"{n}@shop.example"} for n in range(60)])
    await eventually(counted(window, "state = 'failed'", 60))
    trial = Trial(window, "bad deploy")
    await trial.begin()
    await window.sees(concern(window, "send_mail: 60 failed"))
    await trial.press(window.page.get_by_role("link", name="Incident").first, "Incident")
    await trial.knows(window.page.get_by_role("row").filter(has_text="2.0").filter(has_text="100 %"))
    hosts.start("mill-3")  # the deploy is rolled back
    await trial.press(window.page.get_by_role("link", name="IndexError"), "the failure that began")
    await trial.press(window.button("Retry its failed jobs"), "Retry its failed jobs")
    await beating(window, 2)
    await trial.press(window.page.get_by_role("button", name="Retry 60"), "Retry 60")
    await window.sees(window.text("60 done, 0 skipped"))
    await trial.mended()
