from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
from typing import TYPE_CHECKING

import psycopg
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def schemas(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE '%bench%'").fetchall()
    return [name for (name,) in rows]


async def test_the_bench_measures_in_a_schema_of_its_own_and_removes_it(cli: Cli) -> None:
    measured = (await cli("bench", "--jobs", "400", "--slots", "20", "--yes", "--json")).json
    assert measured["slots"] == 20
    assert measured["bulk"]["jobs"] == 400
    assert measured["enqueue"]["jobs"] == 20
    assert measured["drain"]["jobs"] == 400 + 20 + 1
    assert all(measured[part]["per_second"] > 0 for part in ("enqueue", "bulk", "drain"))
    assert 0 <= measured["pickup_ms"]["p50"] <= measured["pickup_ms"]["p95"] <= measured["pickup_ms"]["p99"]
    assert schemas(cli.url) == []
    assert (await cli("jobs", "ls", "--json")).json == []


async def test_the_bench_shows_a_table_to_people(cli: Cli) -> None:
    answer = await cli("bench", "--jobs", "100", "--yes")
    assert [line.split("  ")[0] for line in answer.out.splitlines()] == [
        *("WHAT", "enqueue one by one", "enqueue in bulk", "drain", "pick-up from commit")
    ]


async def test_without_anybody_to_ask_the_bench_wants_yes_and_touches_nothing(cli: Cli) -> None:
    answer = await cli("bench")
    assert answer.code == 2
    assert "add --yes" in answer.err
    assert schemas(cli.url) == []


async def test_a_person_may_say_no(cli: Cli) -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowlock", "bench"),
        cwd=cli.folder,
        env=cli.environment,
        stdin=theirs,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(theirs)
    os.write(ours, b"n\n")
    _, err = await process.communicate()
    os.close(ours)
    assert process.returncode == 1
    assert b"removed afterwards. Go on?" in err
    assert schemas(cli.url) == []


async def test_a_terminated_bench_leaves_no_schema(cli: Cli) -> None:
    process = await cli.start("bench", "--jobs", "1000000", "--yes")

    async def made() -> list[str]:
        return schemas(cli.url)

    await eventually(made)
    process.send_signal(signal.SIGTERM)
    _, err = await process.communicate()
    assert (process.returncode, err.decode()) == (130, "")
    assert schemas(cli.url) == []


async def test_without_a_database_the_bench_starts_the_embedded_one(cli: Cli) -> None:
    data = cli.folder / "data"
    measured = (await cli("bench", "--jobs", "100", "--json", ROWLOCK_DATABASE_URL="", ROWLOCK_DATA_DIR=str(data))).json
    assert measured["drain"]["jobs"] == 100 + 5 + 1
