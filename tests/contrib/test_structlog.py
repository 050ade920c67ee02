from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from pydantic import SecretStr
from tests.waiting import until

from rowlock import Retry, Rowlock, Settings
from rowlock.contrib.structlog import add_job, processors
from rowlock.telemetry import JobFinished

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


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
