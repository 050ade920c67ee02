from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from pydantic import SecretStr
from tests.waiting import in_time, until

from rowlock import Retry, Rowlock, Settings
from rowlock.contrib.structlog import add_job, processors
from rowlock.telemetry import JobFinished

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url, settings=Settings()) as one:
        yield one


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What a program prints that sends the records of logging through structlog as well."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    render: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.JSONRenderer(),
    ]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=processors(), processors=render))
    structlog.configure(
        processors=[add_job, structlog.stdlib.add_log_level, structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(out),
    )
    root, engine = logging.getLogger(), logging.getLogger("rowlock")
    root.addHandler(handler)
    before = engine.level
    engine.setLevel("INFO")
    yield out
    engine.setLevel(before)
    root.removeHandler(handler)
    structlog.reset_defaults()


def printed(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


async def test_lines_of_structlog_and_of_the_engine_carry_the_job(app: Rowlock, lines: io.StringIO) -> None:
    over: list[object] = []
    app.listen(JobFinished)(over.append)

    @app.job(retry=Retry(attempts=1))
    async def pay(iban: SecretStr) -> None:
        structlog.get_logger().info("paying", account=iban.get_secret_value(), lane="my own")
        raise ValueError("no ink")

    job = await pay.enqueue(SecretStr("DE00 4711 0815"))
    structlog.get_logger().info("outside")
    async with app.worker():
        await until(lambda: over)
    told = {line["event"].split("  ")[0].strip(): line for line in printed(lines)}
    own = told["paying"]
    assert (own["job_id"], own["job_number"], own["kind"], own["attempt"]) == (job.public_id, job.id, "pay", 1)
    assert own["lane"] == "my own"
    assert own["account"] == "•••"
    assert "job_id" not in told["outside"]
    (ended,) = [line for line in printed(lines) if line.get("outcome") == "failed"]
    assert (ended["level"], ended["logger"], ended["job_id"]) == ("error", "rowlock.job", job.public_id)
    assert ended["error"]["type"] == "ValueError"
    assert "raise ValueError" in ended["exception"]
    assert isinstance(ended["seconds"], float)


TASKS = """
import logging
import sys

import structlog

from rowlock import Retry, Rowlock
from rowlock.contrib.structlog import add_job, processors

render = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer()]
handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=processors(), processors=render))
logging.basicConfig(level="INFO", handlers=[handler])
structlog.configure(
    processors=[add_job, structlog.stdlib.add_log_level, structlog.processors.JSONRenderer()],
    logger_factory=structlog.PrintLoggerFactory(sys.stdout),
)
app = Rowlock()


@app.job(lane="money", retry=Retry(attempts=2, minimum="1ms", jitter="0s"))
async def charge(order: int) -> None:
    structlog.get_logger().info("charging", order=order)
    raise ConnectionError("the bank is away")
"""


async def test_lines_of_a_worker_process_have_every_field_of_the_reference(
    app: Rowlock, database_url: str, tmp_path: Path
) -> None:
    tmp_path.joinpath("tasks.py").write_text(TASKS)

    @app.job(lane="money", retry=Retry(attempts=2, minimum="1ms", jitter="0s"))
    async def charge(order: int) -> None: ...

    job = await charge.enqueue(7)
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowlock", "worker", "--app", "tasks:app"),
        cwd=tmp_path,
        env={**os.environ, "ROWLOCK_DATABASE_URL": database_url},
        stdout=asyncio.subprocess.PIPE,
    )
    assert worker.stdout is not None
    lines: list[dict[str, Any]] = []
    try:
        while not lines or lines[-1].get("state") != "failed":
            lines.append(json.loads(await in_time(worker.stdout.readline())))
    finally:
        worker.terminate()
        await in_time(worker.communicate())
    attempt = {"job_id": job.public_id, "job_number": job.id, "kind": "charge", "lane": "money"}
    about = [line for line in lines if "job_id" in line]
    assert all(attempt.items() <= line.items() for line in about)
    assert all(isinstance(line["fence"], int) for line in about)
    handlers_own = [line for line in about if line["event"] == "charging"]
    assert [(line["order"], line["attempt"]) for line in handlers_own] == [(7, 1), (7, 2)]
    retried, failed = (line for line in about if line.get("outcome") == "failed")
    assert (retried["level"], retried["state"], retried["attempt"]) == ("warning", "queued", 1)
    assert retried["retry_in"] < 1
    assert (failed["level"], failed["logger"], failed["attempt"]) == ("error", "rowlock.job", 2)
    assert isinstance(failed["seconds"], float)
    assert failed["error"] == {"reason": "attempts exhausted", "type": "ConnectionError", "message": "the bank is away"}
    assert "raise ConnectionError" in failed["exception"]
