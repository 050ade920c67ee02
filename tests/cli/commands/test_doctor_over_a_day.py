"""rowlock doctor --strict at every hour of a day beside a worker that is well: it has nothing to say.

An hour passes by moving every stored moment back; the worker's duties then run, or are left out, as after a real hour.
Some checks look at the server, the connection and this process instead of stored moments: python, uvloop, clock,
durability, connections, listen, notifications, vacuum, transactions, slots. No day passes for them, but they are made
at each step and must be content, too. The server of these tests keeps PostgreSQL's own settings for durability: that of
the other tests is faster than safe.
"""

from __future__ import annotations

import importlib.util
import json
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.databases import SETTINGS, chosen_server
from tests.waiting import eventually

from rowlock.flow.worker import heartbeat
from rowlock.model.state import State
from rowlock.store.embedded import start
from rowlock.store.schema.migrate import upgrade

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import ModuleType

    from tests.cli.conftest import Cli

    from rowlock import Rowlock

pytestmark = pytest.mark.timeout(400)
HOURS = 24
SAFE = {name: value for name, value in SETTINGS.items() if name not in {"fsync", "full_page_writes"}}
CHECKS = {
    *("python", "rowlock", "uvloop", "embedded", "app", "database", "pooler", "server", "clock", "durability"),
    *("connections", "listen", "notifications", "schema", "vacuum", "transactions", "slots", "workers", "set aside"),
    *("lanes", "kinds", "upkeep", "schedules", "waiting", "approval", "held", "progress", "quarantine", "failures"),
}
UPKEEP_RAN = "SELECT last_run_at > now() - interval '30 min' FROM duties WHERE name = 'orphans'"
IDLE_DUTIES = "SELECT name FROM duties WHERE last_run_at < now() - interval '23 hours' AND isfinite(last_run_at)"
WORK_IS_DONE = """
SELECT NOT EXISTS (SELECT FROM jobs WHERE state = 'queued' AND run_after <= now())
   AND NOT EXISTS (SELECT FROM jobs WHERE state = 'running' AND kind <> 'follow')
   AND (SELECT bool_and(next_at > now()) FROM schedules)
   AND (SELECT max(p.reported_at) > now() - interval '30 min'
        FROM job_progress p JOIN jobs j ON j.id = p.job_id WHERE j.kind = 'follow')
"""
BUSY = """
from __future__ import annotations

import asyncio

from rowlock import Context, Retry, Rowlock, Snooze, Workflow

app = Rowlock()


@app.schedule(every="1h")
@app.job("hourly")
async def hourly() -> str:
    return "done"


@app.job("follow", lane="endless")
async def follow(ctx: Context) -> None:
    done = 0
    while True:
        await ctx.progress(done := done + 1)
        await asyncio.sleep(0.05)


@app.job("mail", retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def mail(ctx: Context, n: int) -> int:
    if n == 0 or (n == 1 and ctx.job.attempt == 1):
        raise OSError("no route")
    return n


@app.job("patient")
async def patient(ctx: Context) -> Snooze | None:
    if await ctx.checkpoint.load():
        return None
    await ctx.checkpoint.save(True)
    return Snooze("90m")


@app.job("pay", approval=True)
async def pay() -> None: ...


async def enqueue_all() -> None:
    await mail.enqueue_many([{"n": n} for n in range(10)])
    await patient.enqueue()
    await pay.enqueue()
    flow = Workflow("two")
    flow.add("second", mail.step(9), after=[flow.add("first", mail.step(8))])
    await flow.enqueue()
"""


@pytest.fixture
async def database_url(tmp_path: Path) -> AsyncIterator[str]:
    held = start(tmp_path / "postgres", settings=SAFE, **chosen_server())
    try:
        await upgrade(held.url, schema="rowlock")
        yield held.url
    finally:
        held.close()


@pytest.fixture
async def day(database_url: str) -> AsyncIterator[Day]:
    connection = await asyncpg.connect(database_url, server_settings={"search_path": "rowlock"})
    try:
        yield Day(connection)
    finally:
        await connection.close(timeout=2)


class Day:
    """A day of one database, in hours."""

    def __init__(self, sql: asyncpg.Connection[asyncpg.Record]) -> None:
        self._sql = sql

    async def hour_passes(self, app: Rowlock) -> None:
        """Move every stored moment but the worker's last sign of life; return when upkeep has run since."""
        statements = app.database().statements
        texts, alive = statements["shift_text"], statements["still_alive"]
        values = {"span": timedelta(hours=1), "schema": "rowlock", "lost": []}
        async with self._sql.transaction():
            await self._sql.execute(await self._sql.fetchval(texts.dollar, *texts.bind(values)))
            await self._sql.fetch(alive.dollar, *alive.bind(values))
        await eventually(self._upkeep_ran)

    async def _upkeep_ran(self) -> bool:
        """Since the jump: orphans are looked for also where nothing happens."""
        return bool(await self._sql.fetchval(UPKEEP_RAN))

    async def every_duty_ran(self) -> None:
        """As in a system that has worked: the age of a duty that never ran is not looked at."""
        await self._sql.execute("UPDATE duties SET last_run_at = now()")

    async def idle_duties(self) -> set[str]:
        """Duties that did not run all day, because there was nothing to do."""
        rows = await self._sql.fetch(IDLE_DUTIES)
        return {row["name"] for row in rows}

    async def work_is_done(self) -> bool:
        """Nothing is due, every schedule has fired, and the endless job has reported since the jump."""
        return bool(await self._sql.fetchval(WORK_IS_DONE))


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Duties are looked for with each heartbeat: an hour need not wait two seconds for one."""
    monkeypatch.setattr(heartbeat, "EVERY", 0.2)


async def nothing_to_say(cli: Cli, hour: int) -> None:
    answer = await cli("doctor", "--strict", "--app", "tasks:app", "--json")
    findings = json.loads(answer.out)["findings"]
    assert [finding for finding in findings if finding["verdict"] != "ok"] == [], f"after {hour} h"
    assert (answer.code, {finding["check"] for finding in findings}) == (0, CHECKS)


def loaded(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tasks.py of the command line's folder, so that its worker runs here."""
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", cli.url)
    spec = importlib.util.spec_from_file_location("tasks", cli.folder / "tasks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_a_quiet_day(cli: Cli, day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    app: Rowlock = loaded(cli, monkeypatch).app
    async with app, app.worker():
        await day.every_duty_ran()
        await nothing_to_say(cli, 0)
        for hour in range(1, HOURS + 1):
            await day.hour_passes(app)
            await nothing_to_say(cli, hour)
        assert {"sweep", "prune", "expire", "stalled", "workflows"} <= await day.idle_duties()


async def test_a_busy_day(cli: Cli, day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.folder.joinpath("tasks.py").write_text(BUSY)
    tasks = loaded(cli, monkeypatch)
    app: Rowlock = tasks.app
    async with app, app.worker():
        endless = await tasks.follow.enqueue()
        for hour in range(1, HOURS + 1):
            await tasks.enqueue_all()
            await day.hour_passes(app)
            await eventually(day.work_is_done)
            await nothing_to_say(cli, hour)
            for job in await app.jobs.list(states=["pending"], limit=5):
                await app.jobs.approve(job.id)
        ended = (await app.stats.overview(window="30d")).ended
        await app.jobs.cancel(endless.id)
        assert (await app.jobs.wait(endless.id, timeout=30)).state is State.CANCELLED
    assert ended[State.FAILED].value == HOURS
    assert ended[State.COMPLETED].value > 10 * HOURS
