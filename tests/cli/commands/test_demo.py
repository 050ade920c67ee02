from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import sys
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from tests.cli.processes import drain
from tests.waiting import PATIENCE, eventually, in_time

from rowlock.model.state import State

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli


@pytest.mark.timeout(120)
async def test_the_demo_on_its_own_database_shows_every_state_and_cleans_up(cli: Cli, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    answer = await cli("demo", TMPDIR=str(temporary), ROWLOCK_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert (answer.code, answer.err) == (0, "")
    for state in State:
        assert f" {state}" in answer.out
    assert "running  render" in answer.out
    assert "KIND" in answer.out
    assert "All 23 jobs ended as they should.\n" in answer.out
    assert answer.out.endswith("See them in the dashboard: rowlock demo --serve\n")
    assert list(temporary.iterdir()) == []


@pytest.mark.timeout(120)
async def test_the_demo_on_a_given_database_keeps_to_its_own_schema(cli: Cli) -> None:
    jobs = (await cli("demo", "--database-url", cli.url, "--keep", "--json")).json
    assert len(jobs) == 23
    ends = {(job["kind"], job["state"], job["attempt"]) for job in jobs}
    assert ("demo.call_neighbour", "completed", 2) in ends
    assert ("demo.parse_upload", "failed", 2) in ends
    assert ("demo.export_everything", "cancelled", 1) in ends
    assert ("demo.import_rows", "completed_with_errors", 1) in ends
    assert ("demo.pay_out", "expired", 0) in ends
    assert (await cli("jobs", "ls", "--json")).json == []
    kept = await cli("jobs", "ls", "--schema", "rowlock_demo", "--json")
    assert {job["id"] for job in kept.json} == {job["id"] for job in jobs}


@pytest.mark.timeout(120)
async def test_the_demo_draws_bars_on_a_terminal_and_leaves_no_tables(cli: Cli) -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowlock", "demo", "--database-url", cli.url),
        cwd=cli.folder,
        env=cli.environment | {"TERM": "xterm-256color", "COLUMNS": "120"},
        stdin=theirs,
        stdout=theirs,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(theirs)
    drawn = await asyncio.to_thread(drain, ours)
    _, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, "")
    assert "━" in drawn
    assert "23 of 23 jobs have ended" in drawn
    with psycopg.connect(cli.url) as connection:
        assert connection.execute("SELECT to_regclass('rowlock_demo.jobs')").fetchone() == (None,)


@pytest.mark.timeout(120)
async def test_an_interrupted_demo_exits_130_quietly(cli: Cli) -> None:
    process = await cli.start("demo", "--database-url", cli.url)
    assert process.stdout is not None
    async for line in process.stdout:
        if b"running" in line:
            process.send_signal(signal.SIGINT)
            break
    _, err = await in_time(process.communicate())
    assert (process.returncode, err.decode()) == (130, "")


@pytest.mark.timeout(120)
async def test_a_terminated_demo_leaves_no_folder(cli: Cli, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = await cli.start("demo", TMPDIR=str(temporary))
    assert process.stdout is not None
    async for line in process.stdout:
        if b"running" in line:
            process.send_signal(signal.SIGTERM)
            break
    _, err = await in_time(process.communicate())
    assert (process.returncode, err.decode()) == (130, "")
    assert list(temporary.iterdir()) == []


@pytest.mark.timeout(180)
async def test_the_demo_ends_and_leaves_a_link_that_works_for_a_while(cli: Cli) -> None:
    options = ("--database-url", cli.url, "--linger", "1h", "--port", "0")
    answer = await cli("demo", *options)
    assert answer.code == 0
    assert "All 23 jobs ended as they should.\n" in answer.out
    said = re.fullmatch(r"rowlock: the dashboard, for 1h or until `kill (\d+)`: (http://\S+)\n", answer.err)
    assert said is not None, answer.err
    process, link = int(said[1]), said[2]
    async with httpx.AsyncClient(follow_redirects=True) as client:
        home = await client.get(link, headers={"Accept": "text/html"})
        assert home.status_code == 200
        assert home.headers["content-type"].startswith("text/html")
        found = await client.get(f"{link.partition('/auth/')[0]}/jobs", params={"q": "kind:demo.*"})
        assert found.json()["items"] != []
    os.kill(process, signal.SIGTERM)

    async def gone() -> bool:
        with psycopg.connect(cli.url) as connection:
            return connection.execute("SELECT to_regclass('rowlock_demo.jobs')").fetchone() == (None,)

    await eventually(gone)


@pytest.mark.timeout(180)
async def test_what_the_demo_leaves_ends_by_itself(cli: Cli) -> None:
    answer = await cli("demo", "--database-url", cli.url, "--linger", "1s", "--port", "0")
    assert answer.code == 0

    async def gone() -> bool:
        with psycopg.connect(cli.url) as connection:
            return connection.execute("SELECT to_regclass('rowlock_demo.jobs')").fetchone() == (None,)

    await eventually(gone)


@pytest.mark.timeout(180)
async def test_the_demo_goes_on_in_the_dashboard_until_it_is_stopped(cli: Cli) -> None:
    token = "f" * 32
    process = await cli.start("demo", "--database-url", cli.url, "--serve", "--port", "0", ROWLOCK_SERVE_TOKEN=token)
    assert process.stderr is not None
    line = (await in_time(process.stderr.readline())).decode()
    assert line.endswith("/api/v1/auth/local?token=$ROWLOCK_SERVE_TOKEN\n")
    api = line.partition("http://")[2].partition("/auth/local")[0]
    async with httpx.AsyncClient(
        timeout=PATIENCE, base_url=f"http://{api}", headers={"Authorization": f"Bearer {token}"}
    ) as client:

        async def busy() -> bool:
            found = await client.get("/jobs", params={"q": "kind:shop.*"})
            return len(found.json()["items"]) > 3

        await eventually(busy)
        assert (
            (await client.get(f"http://{api.removesuffix('/api/v1')}/")).headers["content-type"].startswith("text/html")
        )
    process.send_signal(signal.SIGINT)
    out, err = await in_time(process.communicate())
    assert (process.returncode, err.decode(), b"Traceback" in out) == (0, "", False)
    with psycopg.connect(cli.url) as connection:
        assert connection.execute("SELECT to_regclass('rowlock_demo.jobs')").fetchone() == (None,)
