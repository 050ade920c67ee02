"""What the conformance suite knows of a carrier: its broker, and how to start the processes that run its jobs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncpg
from tests.delivery.brokers import RabbitMQ, Redis
from tests.delivery.carried_app import build
from typing_extensions import override

from rowlock.delivery.safir import SafirDelivery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from rowlock import Rowlock

MODULE: Final = "tests.delivery.carried_app"
HERE: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class CarrierCase:
    """One way of delivery. command: starts a process that runs jobs; empty: the test's own process runs them."""

    name: str
    carrier: str
    broker: type[Redis | RabbitMQ] | None = None
    command: Sequence[str] = ()

    @override
    def __str__(self) -> str:
        return self.name


def _celery(name: str, broker: type[Redis | RabbitMQ], *pool: str) -> CarrierCase:
    words = ("-m", "celery", "-A", f"{MODULE}:celery_app", "worker", "--without-gossip", "--without-mingle", *pool)
    return CarrierCase(name, "celery", broker, words)


_ARQ: Final = ("-m", "arq", f"{MODULE}.WorkerSettings")
CASES: Final = (
    CarrierCase("postgres", "postgres", None, ("-m", "rowlock", "worker", "--app", f"{MODULE}:app")),
    CarrierCase("inline", "inline"),
    CarrierCase("arq", "arq", Redis, _ARQ),
    # Safir needs Python 3.12: `make test-safir` installs it.
    *([CarrierCase("safir", "safir", Redis, _ARQ)] if find_spec("safir") else []),
    _celery("celery-redis-solo", Redis, "--pool", "solo"),
    _celery("celery-redis-prefork", Redis, "--pool", "prefork", "--concurrency", "2"),
    _celery("celery-rabbitmq-solo", RabbitMQ, "--pool", "solo"),
    _celery("celery-rabbitmq-prefork", RabbitMQ, "--pool", "prefork", "--concurrency", "2"),
)
BROKERED: Final = tuple(case for case in CASES if case.broker is not None)


@dataclass
class Stage:
    """One carrier on one database: the application in the test's process, and processes that run its jobs."""

    case: CarrierCase
    app: Rowlock
    database_url: str
    broker: Redis | RabbitMQ | None
    sql: asyncpg.Connection[asyncpg.Record]
    log: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes] | None:
        """Start a process that runs jobs, if the carrier has such."""
        if not self.case.command:
            return None
        environment = {
            **os.environ,
            "PYTHONPATH": str(HERE),
            "ROWLOCK_DATABASE_URL": self.database_url,
            "ROWLOCK_TEST_CARRIER": self.case.carrier,
            "ROWLOCK_TEST_BROKER": "" if self.broker is None else self.broker.url,
        }
        with self.log.open("ab") as out:
            command = [sys.executable, *self.case.command]
            if self.case.carrier == "celery":
                command += ["--hostname", f"w{len(self.processes)}@test"]
            process = subprocess.Popen(
                command, env=environment, stdout=out, stderr=out, cwd=HERE, start_new_session=True
            )
        self.processes.append(process)
        return process

    def kill(self, how: int = signal.SIGKILL) -> None:
        """Send a signal to every process that runs jobs, and to their children; wait for their end."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
        for process in self.processes:
            process.wait(timeout=60)
        self.processes.clear()

    async def runs(self, *job_ids: int) -> list[int]:
        """How often the handler of each of these jobs was entered."""
        rows = await self.sql.fetch("SELECT job_id, count(*) FROM public.ran GROUP BY job_id")
        counts: dict[int, int] = {row[0]: row[1] for row in rows}
        return [counts.get(job_id, 0) for job_id in job_ids]


@contextlib.asynccontextmanager
async def staged(
    case: CarrierCase, database_url: str, broker: Redis | RabbitMQ | None, folder: Path
) -> AsyncIterator[Stage]:
    """A stage without processes; those that the block starts are killed at its end."""
    sql = await asyncpg.connect(database_url)
    await sql.execute("CREATE TABLE public.ran (job_id bigint, pid integer, at timestamptz DEFAULT clock_timestamp())")
    app = build(database_url, case.carrier, "" if broker is None else broker.url)
    stage = Stage(case, app, database_url, broker, sql, folder / "workers.log")
    try:
        yield stage
    finally:
        stage.kill()
        await app.close()
        for carrier in app.carriers:
            if isinstance(carrier, SafirDelivery):
                await carrier._queue.aclose()  # type: ignore[attr-defined]  # the service's to close
        await sql.close()
        print(stage.log.read_text(errors="replace")[-6000:] if stage.log.exists() else "")  # noqa: T201 - shown on failure
