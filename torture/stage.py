"""The stage of one scenario: a database, worker processes, producers, proxies, and a look at what they do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import asyncpg

from torture.ledger import FOLDER, SEED
from torture.proxy import Proxy
from torture.server import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from torture.server import Server

T = TypeVar("T")
ROOT: Final = Path(__file__).parents[1]
STALE: Final = 3.0
"""Seconds of silence after which the lanes here call a worker lost."""
POLL: Final = 1.0
LANES: Final = f"default:kinds=*,slots=10,stale={STALE:.0f}s,poll={POLL:.0f}s"
RATE: Final = 25.0
"""Calls a second of a producer; a call is up to three jobs."""
TROUBLE: Final = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_FINAL_SOON: Final = 0.1


class Failed(Exception):
    """The stage itself could not be set, or what was waited for did not come."""


@dataclass
class Process:
    """A worker or a producer, and what it said."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    expendable: bool = False
    """Its death is part of the scenario."""

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; none if it is gone."""
        with contextlib.suppress(ProcessLookupError):
            self.popen.send_signal(number)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.popen.poll() is None

    @property
    def said(self) -> str:
        """All it wrote."""
        return self.log.read_text(errors="replace")

    async def end(self, within: float) -> int | None:
        """Its exit code; None: it did not end in time and was killed."""
        until = time.monotonic() + within
        while self.alive and time.monotonic() < until:  # noqa: ASYNC110 - a process sets no event of this loop
            await asyncio.sleep(0.02)
        if self.alive:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.kill()
            self.popen.wait()
            return None
        return self.popen.returncode


async def eventually(check: Callable[[], Awaitable[T]], what: str, within: float) -> T:
    """The first truthy answer; an outage of the database is no answer."""
    until = time.monotonic() + within
    while True:
        answer: T | None = None
        with contextlib.suppress(*TROUBLE):
            answer = await check()
        if answer:
            return answer
        if time.monotonic() > until:
            raise Failed(f"{what}: still {answer!r} after {within:.0f} s")
        await asyncio.sleep(_FINAL_SOON)


@dataclass
class Stage:
    """Everything a scenario may touch."""

    server: Server
    database: str
    folder: Path
    seed: int = 0
    """Of what the nemesis chooses and of the producers' mixture; moments are still those of a busy machine."""
    processes: list[Process] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    """More variables for every process."""
    notes: dict[str, float] = field(default_factory=dict)
    """Figures of a scenario's own, for the report."""
    random: Random = field(init=False)
    """For every choice of the nemesis."""
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _connection: asyncpg.Connection[asyncpg.Record] | None = None

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - choices, no secrets

    async def __aenter__(self) -> Self:
        (self.folder / "ledger").mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.processes:
            if process.alive:
                process.signal(signal.SIGCONT)
                process.popen.kill()
            process.popen.wait()
        if self._connection is not None:
            self._connection.terminate()
        await self._stack.aclose()

    @property
    def ledger(self) -> Path:
        """The folder of the ledger."""
        return self.folder / "ledger"

    @property
    def workers(self) -> list[Process]:
        """The worker processes that should be alive."""
        return [process for process in self.processes if not process.expendable and process.name.startswith("worker")]

    async def proxy(self) -> Proxy:
        """A new proxy to the server, open until the end."""
        return await self._stack.enter_async_context(Proxy(self.server.port))

    def worker(
        self, *words: str, port: int | None = None, app: str = "torture.jobs:app", **environment: str
    ) -> Process:
        """Start `rowlock worker`; port: of a proxy."""
        command = [sys.executable, "-m", "rowlock", "worker", "--app", app, *words]
        return self._start("worker", command, port, environment)

    def producer(
        self, rate: float = RATE, port: int | None = None, module: str = "torture.producer", **environment: str
    ) -> Process:
        """Start a producer."""
        name = f"p{len(self.processes)}"
        return self._start("producer", [sys.executable, "-m", module, name, str(rate)], port, environment)

    def command(self, *words: str, **environment: str) -> Process:
        """Start `rowlock` with these words."""
        return self._start("rowlock", [sys.executable, "-m", "rowlock", *words], None, environment)

    def _start(self, what: str, command: list[str], port: int | None, environment: dict[str, str]) -> Process:
        name = f"{what}-{len(self.processes)}"
        log = self.folder / f"{name}.log"
        given = {key: value for key, value in os.environ.items() if not key.startswith(("ROWLOCK_", "TORTURE_"))}
        given |= {
            "ROWLOCK_DATABASE_URL": self.server.at(self.database, port),
            "ROWLOCK_LANES": LANES,
            "ROWLOCK_SHUTDOWN_AFTER": "5s",
            FOLDER: str(self.ledger),
            SEED: str(self.seed),
        }
        with log.open("wb") as output:
            popen = subprocess.Popen(
                command,
                env=given | self.environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - no other thread holds a lock that it needs
            )
        self.processes.append(Process(name, popen, log))
        return self.processes[-1]

    async def ask(self, sql: str, *values: object) -> Any:  # noqa: ANN401 - whatever the query returns
        """The first value of a query, over a connection of the harness; it opens a new one after an outage."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self.server.connect(self.database, search_path="rowlock,public")
        try:
            return await self._connection.fetchval(sql, *values, timeout=20)
        except TROUBLE:
            self._connection.terminate()
            raise

    async def up(self, n: int, within: float = 60) -> None:
        """Wait until n workers are up."""
        await eventually(
            lambda: self.ask("SELECT count(*) >= $1 FROM workers WHERE state = 'up'", n), "workers", within
        )

    async def busy(self, worker: Process | None = None) -> None:
        """Wait until a worker, this one if given, runs a long job."""
        running = (
            "SELECT count(*) > 0 FROM jobs j JOIN workers w ON w.id = j.claimed_by WHERE j.state = 'running'"
            " AND ($1::integer IS NULL OR w.pid = $1::integer) AND (j.args ->> 'seconds')::float8 >= 1"
        )
        await eventually(lambda: self.ask(running, worker and worker.popen.pid), "a long job", 30)

    async def more(self, n: int, within: float = 60) -> None:
        """Wait for n more completed jobs."""
        done = "SELECT count(*) FROM jobs WHERE state IN ('completed', 'completed_with_errors')"
        goal = n + (await eventually(lambda: self.ask(f"{done} HAVING true"), "jobs", within) or 0) if n > 1 else 1
        await eventually(lambda: self.ask(f"SELECT ({done}) >= $1", goal), f"{n} more jobs", within)

    async def final(self, within: float) -> bool:
        """Wait until every job is final; False: some are not, which the checker will name."""
        try:
            await eventually(
                lambda: self.ask(
                    "SELECT NOT EXISTS (SELECT 1 FROM jobs WHERE finished_at IS NULL AND kind <> 'tick')"
                    " AND NOT EXISTS (SELECT 1 FROM workflows WHERE finished_at IS NULL)"
                ),
                "jobs that are not final",
                within,
            )
        except Failed:
            return False
        return True

    async def quiet_schedules(self) -> None:
        """Stop the clock, so that the end is the end."""
        await eventually(
            lambda: self.ask("UPDATE schedules SET enabled = false, version = version + 1 RETURNING true"),
            "schedules",
            20,
        )

    async def terminate(self, like: str) -> int:
        """End the backends whose application name is like this; returns how many."""
        return int(
            await self.ask(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND application_name LIKE $1",
                like,
            )
        )
