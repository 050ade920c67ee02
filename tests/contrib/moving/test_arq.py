"""Functions of an arq worker on Rowlock, and beside the real arq."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import arq
import pytest
from tests.contrib.moving.side_by_side import Folder
from tests.delivery.brokers import Redis, running
from tests.waiting import PATIENCE, until, until_cancelled

from rowlock import ConfigurationError, InvalidOption, JobFailed, Rowlock, Settings
from rowlock.contrib.moving.arq import ArqRedis, Job, JobStatus, Retry, create_pool, func
from rowlock.errors import UnknownKind
from rowlock.model import ids

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NOON = datetime(2099, 1, 1, 12, tzinfo=UTC)


async def add(ctx: dict[str, Any], a: int, b: int = 1) -> int:
    assert ctx["session"] == "open"
    return a + b


async def flaky(ctx: dict[str, Any], tries: int) -> str:
    if ctx["job_try"] < tries:
        raise Retry(defer=0)
    return f"{ctx['job_id']} {ctx['job_try']} {type(ctx['redis']).__name__}"


async def broken(_ctx: dict[str, Any]) -> None:
    message = "no retry"
    raise ValueError(message)


async def endless(_ctx: dict[str, Any]) -> None:
    await until_cancelled()


ENDLESS: Any = endless


class WorkerSettings:
    """As people have them."""

    functions = (add, func(flaky, name="wobbly", max_tries=3, timeout=60), broken, arq.func(ENDLESS, name="forever"))
    max_tries = 2
    redis_settings = None

    @staticmethod
    async def on_startup(ctx: dict[str, Any]) -> None:
        ctx["session"] = "open"

    @staticmethod
    async def on_shutdown(ctx: dict[str, Any]) -> None:
        ctx["session"] = "closed"


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url, settings=Settings()) as made:
        yield made


@pytest.fixture
def pool(app: Rowlock) -> ArqRedis:
    return create_pool(app, WorkerSettings, queues=("mails",), clock=lambda: NOON)


async def enqueued(pool: ArqRedis, *args: Any, **options: Any) -> Job:  # noqa: ANN401 - as enqueue_job()
    job = await pool.enqueue_job(*args, **options)
    assert job is not None
    return job


async def test_functions_run_with_arqs_context(app: Rowlock, pool: ArqRedis) -> None:
    waiting = await enqueued(pool, "add", 1, b=2)
    assert await waiting.status() is JobStatus.queued
    async with app.worker():
        assert await waiting.result(timeout=PATIENCE) == 3
        assert await waiting.status() is JobStatus.complete
        wobbly = await enqueued(pool, "wobbly", 3)
        assert await wobbly.result(timeout=PATIENCE) == f"{wobbly.job_id} 3 ArqRedis"
        with pytest.raises(JobFailed, match="retry"):
            await (await enqueued(pool, "wobbly", 4)).result(timeout=PATIENCE)
        failing = await enqueued(pool, "broken")
        with pytest.raises(JobFailed, match="no retry"):
            await failing.result(timeout=PATIENCE)
        assert (await app.jobs.get(failing.job_id)).attempt == 1
        forever = await enqueued(pool, "forever")
        assert await forever.abort(timeout=PATIENCE)
    assert await Job(ids.encode(10**9), pool).status() is JobStatus.not_found
    kinds = {name: handler.kind for name, handler in app.handlers.items()}
    assert (kinds["wobbly"].timeout, kinds["add"].timeout) == (timedelta(minutes=1), timedelta(minutes=5))
    assert (kinds["wobbly"].retry.attempts, kinds["add"].retry.attempts) == (3, 2)


async def test_options_of_enqueue_job_reach_the_job(app: Rowlock, pool: ArqRedis) -> None:
    later = await enqueued(pool, "add", 1, _defer_until=NOON + timedelta(hours=1), _expires=7200, _queue_name="mails")
    job = await app.jobs.get(later.job_id)
    assert (job.kind, job.run_after) == ("add/mails", NOON + timedelta(hours=1))
    assert job.expires_at == NOON + timedelta(hours=2)
    assert await later.status() is JobStatus.deferred
    soon = await app.jobs.get((await enqueued(pool, "add", 1, _defer_by=timedelta(hours=1))).job_id)
    assert timedelta(minutes=59) < soon.run_after - soon.created_at <= timedelta(hours=1, seconds=1)
    assert soon.expires_at is None


async def test_a_job_id_is_given_once_while_it_lives_and_within_keep_result(app: Rowlock, pool: ArqRedis) -> None:
    first = await enqueued(pool, "add", 1, _job_id="daily")
    assert await pool.enqueue_job("add", 2, _job_id="daily") is None
    assert await pool.enqueue_job("broken", _job_id="daily") is None
    async with app.worker():
        await first.result(timeout=PATIENCE)
    assert await pool.enqueue_job("add", 3, _job_id="daily") is None
    forgetful = create_pool(Rowlock(app.settings.database_url), {"functions": [broken], "keep_result": 0})
    async with forgetful.rowlock:
        assert await forgetful.enqueue_job("broken", _job_id="daily") is not None


async def test_what_cannot_be_mapped_says_what_to_do(app: Rowlock, pool: ArqRedis) -> None:
    with pytest.raises(ConfigurationError, match=r"create_pool\(Rowlock\(…\)\)"):
        create_pool("redis://", WorkerSettings)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"cron_jobs.*@app.schedule"):
        create_pool(app, {"functions": [], "cron_jobs": [1]})
    with pytest.raises(ConfigurationError, match="'functionz' is no setting"):
        create_pool(app, {"functionz": []})
    with pytest.raises(InvalidOption, match="both given"):
        await pool.enqueue_job("add", 1, _defer_by=1, _defer_until=NOON)
    with pytest.raises(InvalidOption, match="_job_try"):
        await pool.enqueue_job("add", 1, _job_try=2)
    with pytest.raises(InvalidOption, match="naive one is ambiguous"):
        await pool.enqueue_job("add", 1, _defer_until=datetime(2030, 1, 1))  # noqa: DTZ001 - the mistake
    with pytest.raises(InvalidOption, match=r"workers know 'arq:queue', 'mails'"):
        await pool.enqueue_job("add", 1, _queue_name="nowhere")
    with pytest.raises(UnknownKind, match="ad"):
        await pool.enqueue_job("ad", 1)


FUNCTIONS = """
import os
from pathlib import Path
from arq.connections import RedisSettings

async def write(ctx, name):
    Path(name).write_text(os.environ["SIDE"])

class WorkerSettings:
    functions = [write]
    redis_settings = RedisSettings.from_dsn(os.environ["BROKER"])
"""


@pytest.mark.slow
async def test_an_arq_worker_finishes_its_queue_while_new_jobs_come_here(tmp_path: Path, database_url: str) -> None:
    with running(Redis(tmp_path / "redis")) as broker:
        folder = Folder(tmp_path, BROKER=broker.url, ROWLOCK_DATABASE_URL=database_url)
        folder.write(
            functions=FUNCTIONS,
            new_app="from functions import WorkerSettings\nfrom rowlock import Rowlock\n"
            "from rowlock.contrib.moving.arq import create_pool\n"
            "rowlock = Rowlock()\npool = create_pool(rowlock, WorkerSettings)\n",
        )
        before, after = tmp_path / "before", tmp_path / "after"
        folder.run(
            "import asyncio, arq, functions, new_app\n"
            "async def main():\n"
            "    old = await arq.create_pool(functions.WorkerSettings.redis_settings)\n"
            f"    await old.enqueue_job('write', {str(before)!r})\n"
            "    await old.aclose()\n"
            f"    await new_app.pool.enqueue_job('write', {str(after)!r})\n"
            "    await new_app.rowlock.close()\n"
            "asyncio.run(main())"
        )
        arq_worker = ["arq", "functions.WorkerSettings"]
        with folder.processes(arq=arq_worker, rowlock=["rowlock", "worker", "--app", "new_app:rowlock"]):
            await until(lambda: before.exists() and after.exists())
            await until(lambda: before.read_text() and after.read_text())
    assert (before.read_text(), after.read_text()) == ("arq", "rowlock")
