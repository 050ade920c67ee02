"""A worker in a thread of a web process: a real gunicorn, its prefork, --preload and its end."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.host_processes import Host, served
from tests.os_processes import ended
from tests.store.callers.neighbours import dialect
from tests.waiting import eventually

from rowlock import Rowlock, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FLASK = """
import os
import time

import flask
from flask_sqlalchemy import SQLAlchemy

from rowlock import Rowlock, SyncContext

tasks = Rowlock()


@tasks.job(lane="ontology")
def generate(ctx: SyncContext, order: int) -> int:
    return os.getpid()


@tasks.job(lane="ontology")
def endless(ctx: SyncContext) -> None:
    while True:
        ctx.progress(1, 2)
        time.sleep(0.02)


host = flask.Flask(__name__)
host.config["SQLALCHEMY_DATABASE_URI"] = os.environ["SQLALCHEMY_URL"]
db = SQLAlchemy(host)


@host.get("/")
def alive():
    return {"pid": os.getpid()}


@host.post("/orders/<int:number>")
def order(number):
    db.session.execute(db.text("INSERT INTO orders VALUES (:number)"), {"number": number})
    job = generate.options(session=db.session).enqueue_sync(number)
    if number == 13:
        raise ValueError("nothing of this remains")
    db.session.commit()
    return {"job": job.public_id}, 202


@host.post("/endless")
def start_endless():
    return {"job": endless.enqueue_sync().public_id}


START
"""
pytestmark = pytest.mark.timeout(400)  # servers that start, work and stop
START = 'tasks.start_worker(lanes={"ontology": 1})'


@pytest.fixture
def sql(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id integer PRIMARY KEY)")
        connection.execute("SET search_path = rowlock, public")
        yield connection


def gunicorn(folder: Path, url: str, *words: str, start: str = START, **environ: str) -> Any:  # noqa: ANN401 - served()
    command = ("gunicorn", "hosted:host", "-b", "127.0.0.1:{port}", *words)
    environ["SQLALCHEMY_URL"] = dialect(url, "psycopg")
    return served(folder, FLASK.replace("START", start), *command, database_url=url, **environ)


def pids(sql: psycopg.Connection[Any]) -> set[int]:
    return {row[0] for row in sql.execute("SELECT pid FROM workers WHERE state <> 'gone'")}


async def job_of(host: Host, sql: psycopg.Connection[Any], number: int) -> int:
    """Order it; the process in which its job ran."""
    async with host.client() as client:
        answer = await client.post(f"/orders/{number}")
        assert answer.status_code == 202, host.told()

    async def result() -> int | None:
        query = "SELECT result::integer FROM jobs WHERE args->>'order' = %s AND state = 'completed'"
        row = sql.execute(query, [str(number)]).fetchone()
        return None if row is None else int(row[0])

    return await eventually(result) or 0


@pytest.mark.slow
async def test_every_process_of_gunicorn_runs_jobs_and_stops_with_it(
    database_url: str, sql: psycopg.Connection[Any], tmp_path: Path
) -> None:
    async with gunicorn(tmp_path, database_url, "--workers", "2", ROWLOCK_SHUTDOWN_AFTER="1s") as host:

        async def both() -> bool:
            return len(pids(sql)) == 2

        await eventually(both)
        assert host.process.pid not in pids(sql)
        assert await job_of(host, sql, 1) in pids(sql)
        async with host.client() as client:
            assert (await client.post("/orders/13")).status_code == 500
            await client.post("/endless")
        assert sql.execute("SELECT count(*) FROM jobs WHERE kind = 'generate'").fetchone() == (1,)

        async def runs() -> bool:
            row = sql.execute("SELECT count(*) FROM jobs WHERE kind = 'endless' AND state = 'running'").fetchone()
            return row == (1,)

        await eventually(runs)
        # A second for the job, which does not end, and what a busy machine needs: not gunicorn's 30 s, nor a kill.
        assert await asyncio.to_thread(host.stop) < 25
        assert "SIGKILL" not in host.told()
    row = sql.execute("SELECT state, attempt, losses FROM jobs WHERE kind = 'endless'").fetchone()
    assert row == ("queued", 0, 0)
    assert pids(sql) == set()
    assert "jobs run in this process alone" not in host.told()


@pytest.mark.slow
async def test_preload_is_warned_of_because_jobs_run_in_the_master(
    database_url: str, sql: psycopg.Connection[Any], tmp_path: Path
) -> None:
    async with gunicorn(tmp_path, database_url, "--preload", "--workers", "2") as host:
        assert await job_of(host, sql, 1) == host.process.pid
        assert host.told().count("jobs run in this process alone, and not in its children") == 1


@pytest.mark.slow
async def test_post_worker_init_starts_workers_behind_preload(
    database_url: str, sql: psycopg.Connection[Any], tmp_path: Path
) -> None:
    (tmp_path / "gunicorn.conf.py").write_text(
        f"def post_worker_init(worker):\n    from hosted import tasks\n    {START}\n"
    )
    async with gunicorn(tmp_path, database_url, "--preload", "--workers", "2", start="") as host:

        async def both() -> bool:
            return len(pids(sql)) == 2

        await eventually(both)
        assert await job_of(host, sql, 1) in pids(sql) - {host.process.pid}
        assert "jobs run in this process alone" not in host.told()
        # One of them dies: gunicorn starts another, and so is its worker.
        before = pids(sql)
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        await eventually(lambda: ended(victim))

        async def replaced() -> bool:
            return bool(pids(sql) - before)

        await eventually(replaced)


@pytest.mark.slow
async def test_the_environment_keeps_workers_out_of_web_processes(
    database_url: str, sql: psycopg.Connection[Any], tmp_path: Path
) -> None:
    async with gunicorn(tmp_path, database_url, "--preload", ROWLOCK_WORKER="off") as host:
        async with host.client() as client:
            assert (await client.post("/orders/1")).status_code == 202
        assert pids(sql) == set()
        assert "forks after start_worker" not in host.told()
    assert sql.execute("SELECT state FROM jobs").fetchone() == ("queued",)


def test_a_handler_that_forks_is_not_warned_of(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    app = Rowlock(database_url, settings=Settings())

    @app.job
    def fork() -> int:
        child = os.fork()
        if child == 0:
            os._exit(7)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    worker = app.start_worker()
    try:
        with caplog.at_level(logging.WARNING, "rowlock"):
            assert app.sync.jobs.wait(fork.enqueue_sync().id, timeout=60).result == 7
            assert "forks after start_worker" not in caplog.text
            for _ in range(2):
                child = os.fork()
                if child == 0:
                    os._exit(0)
                os.waitpid(child, 0)
            assert len(re.findall("forks after start_worker", caplog.text)) == 1
    finally:
        worker.stop()
        asyncio.run(app.close())
