from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.torture import jobs
from tests.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncIterator

    from rowlock import Rowlock

ROOT = Path(__file__).parents[2]
PATIENT = "default:kinds=*,slots=10,stale=10m"


@dataclass
class Process:
    """One worker process and what it said."""

    popen: subprocess.Popen[str]
    log: Path

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.popen.pid, number)

    def end(self, within: float = PATIENCE) -> int:
        return self.popen.wait(timeout=within)

    @property
    def said(self) -> str:
        return self.log.read_text()


@dataclass
class Scene:
    """An application, its worker processes and a look behind the store."""

    url: str
    app: Rowlock
    folder: Path
    processes: list[Process] = field(default_factory=list)

    def start(self, name: str | None = None, *, shutdown_after: float = 10, wait: bool = True) -> Process:
        """A new worker process; returns when it claims."""
        log = self.folder / f"worker-{len(self.processes)}.log"
        with log.open("w") as stderr:
            popen = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.torture.worker",
                    self.url,
                    name or f"w{len(self.processes)}",
                    str(shutdown_after),
                ],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=ROOT,
            )
        process = Process(popen, log)
        self.processes.append(process)
        if wait:
            assert popen.stdout is not None
            assert popen.stdout.readline() == "ready\n", process.said
        return process

    def command(self, *arguments: str, app: str = "tests.torture.stage:app", **environment: str) -> Process:
        """`rowlock worker` on the command line; lanes wait ten minutes before they call a worker lost."""
        log = self.folder / f"worker-{len(self.processes)}.log"
        given = {key: value for key, value in os.environ.items() if not key.startswith("ROWLOCK_")}
        given |= {"ROWLOCK_DATABASE_URL": self.url, "ROWLOCK_LANES": PATIENT, "ROWLOCK_SHUTDOWN_AFTER": "5s"}
        words = [sys.executable, "-m", "rowlock", "worker", "--app", app, *arguments]
        with log.open("w") as output:
            popen = subprocess.Popen(
                words,
                env=given | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                text=True,
                cwd=ROOT,
            )
        self.processes.append(Process(popen, log))
        return self.processes[-1]

    async def workers(self, n: int, within: float = PATIENCE) -> list[asyncpg.Record]:
        """Wait until exactly n workers are up."""

        async def look() -> list[asyncpg.Record]:
            rows = await self.fetch("SELECT * FROM workers WHERE state = 'up' ORDER BY name")
            return rows if len(rows) == n else []

        return await eventually(look, within=within)

    async def said(self, process: Process, text: str, within: float = PATIENCE) -> str:
        """Wait until the process has said it; returns all it said."""

        async def look() -> str:
            return process.said if text in process.said else ""

        return await eventually(look, within=within)

    async def fetch(self, sql: str, *values: object) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.url, timeout=5, server_settings={"search_path": "rowlock,public"})
        try:
            return list(await connection.fetch(sql, *values))
        finally:
            await connection.close(timeout=2)

    async def value(self, sql: str, *values: object) -> Any:  # noqa: ANN401 - whatever the query returns
        return (await self.fetch(sql, *values))[0][0]

    async def noted(self, job: int, what: str, n: int = 1) -> list[asyncpg.Record]:
        """Wait until the ledger has n such lines of the job."""

        async def look() -> list[asyncpg.Record]:
            rows = await self.fetch("SELECT * FROM ledger WHERE job = $1 AND what = $2 ORDER BY n", job, what)
            return rows if len(rows) >= n else []

        return await eventually(look)

    async def quiet(self, within: float = 1.5 * PATIENCE) -> None:
        """Traffic has stopped: everything becomes final, every place is free, and nothing was accepted twice."""

        async def final() -> bool:
            return not await self.value("SELECT count(*) FROM jobs WHERE finished_at IS NULL")

        await eventually(final, within=within)
        assert await self.value("SELECT coalesce(sum(held), 0) FROM gates") == 0
        assert await self.value("SELECT count(*) FROM jobs WHERE gate_place <> 0") == 0
        # An attempt row and the job's own last write never claim the same fence.
        twice = """
            SELECT count(*) FROM job_attempts a JOIN jobs j ON j.id = a.job_id
            WHERE a.fence >= j.fence - (CASE WHEN j.claimed_by IS NULL THEN 0 ELSE 1 END) AND a.outcome <> 'lost'
              AND j.state = 'completed'"""
        assert await self.value(twice) == 0
        starts = (
            "SELECT count(*) FROM (SELECT 1 FROM ledger WHERE what = 'start' GROUP BY job, fence HAVING count(*) > 1) x"
        )
        assert await self.value(starts) == 0


@contextlib.asynccontextmanager
async def staged(url: str, folder: Path) -> AsyncIterator[Scene]:
    scene = Scene(url, jobs.make(url), folder)
    await scene.fetch(jobs.LEDGER)
    try:
        yield scene
    finally:
        await scene.app.close()
        for process in scene.processes:
            if process.popen.poll() is None:
                process.popen.kill()
            process.popen.communicate()


@pytest.fixture
async def scene(database_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with staged(database_url, tmp_path) as made:
        yield made
