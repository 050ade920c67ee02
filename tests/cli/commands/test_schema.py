from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from tests.cli.conftest import Cli

from rowlock.store.schema.migrate import newest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.forked import Forks

    from rowlock import Rowlock


@pytest.fixture
def empty(tmp_path: Path, empty_database_url: str, forks: Forks) -> Cli:
    return Cli(tmp_path, empty_database_url, forks)


def execute(cli: Cli, statement: str) -> None:
    with psycopg.connect(cli.url, autocommit=True) as connection:
        connection.execute(statement.encode())


async def test_a_schema_is_made_checked_and_removed(empty: Cli) -> None:
    missing = await empty("schema", "status")
    assert missing.code == 3
    assert "rowlock schema upgrade" in missing.err
    made = (await empty("schema", "upgrade", "--schema", "queue", "--json")).json
    assert made == {"schema": "queue", "version": newest(), "applied": list(range(1, newest() + 1))}
    assert "nothing to do" in (await empty("schema", "upgrade", "--schema", "queue")).out
    status = (await empty("schema", "status", "--json", ROWLOCK_SCHEMA="queue")).json
    assert (status["version"], status["newest"], status["status"]) == (newest(), newest(), "current")
    assert [step["version"] for step in status["steps"]] == list(range(1, newest() + 1))
    assert (await empty("schema", "verify", "--schema", "queue")).code == 0
    assert (await empty("schema", "downgrade", "--to", "0", "--schema", "queue")).code == 0
    assert (await empty("schema", "status", "--schema", "queue")).code == 3


async def test_status_is_a_table(cli: Cli) -> None:
    answer = await cli("schema", "status")
    assert answer.code == 0
    head, *rows = answer.out.splitlines()
    assert head.split() == ["VERSION", "NAME", "APPLIED"]
    assert [row.split()[0] for row in rows] == [str(n) for n in range(1, newest() + 1)]


async def test_a_downgrade_that_drops_jobs_needs_a_yes(cli: Cli, app: Rowlock) -> None:
    public_id = await cli.enqueue("greet", name="Ada")
    refused = await cli("schema", "downgrade", "--to", "0")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert (await app.jobs.get(public_id)).kind == "greet"
    done = await cli("schema", "downgrade", "--to", "0", "--yes", "--json")
    assert done.json["version"] == 0
    assert (await cli("jobs", "ls")).code == 3


async def test_the_printed_script_makes_the_schema(empty: Cli) -> None:
    script = await empty("schema", "sql", "--schema", "queue")
    assert script.code == 0
    execute(empty, script.out)
    assert (await empty("schema", "verify", "--schema", "queue")).code == 0
    back = await empty("schema", "sql", "--schema", "queue", "--since", str(newest()), "--to", "0", "--json")
    assert "DROP TABLE" in back.json["sql"]


async def test_a_script_without_a_transaction_runs_in_that_of_a_tool(empty: Cli) -> None:
    """One transaction for the way up, the way back and up again, as a migration tool may have it."""
    before, now = newest() - 3, newest()
    steps = [(0, before), (before, now), (now, before), (before, now), (now, 0), (0, now)]
    with psycopg.connect(empty.url) as tool:
        for since, to in steps:
            script = await empty("schema", "sql", "--no-transaction", "--since", str(since), "--to", str(to))
            assert script.code == 0
            for word in ("BEGIN;", "COMMIT;", "CONCURRENTLY"):
                assert f"\n{word}" not in f"\n{script.out}"
            tool.execute(script.out.encode())
            assert tool.info.transaction_status is TransactionStatus.INTRANS
        tool.commit()
    assert (await empty("schema", "verify")).code == 0


async def test_the_script_needs_no_database(cli: Cli) -> None:
    answer = await cli("schema", "sql", ROWLOCK_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert answer.code == 0
    assert answer.out.startswith("BEGIN;")


async def test_verify_names_differences(cli: Cli) -> None:
    execute(cli, "DROP INDEX rowlock.jobs_claim")
    answer = await cli("schema", "verify")
    assert answer.code == 1
    assert "missing: " in answer.out
    assert "jobs_claim" in answer.out


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ("DROP SCHEMA rowlock CASCADE", "rowlock schema upgrade"),
        ("DELETE FROM rowlock.schema_steps WHERE version > 1", "rowlock schema upgrade"),
        ("INSERT INTO rowlock.schema_steps VALUES (9000, 'future')", "newer rowlock"),
    ],
)
async def test_commands_refuse_a_schema_that_does_not_fit(cli: Cli, change: str, advice: str) -> None:
    execute(cli, change)
    commands: list[list[Any]] = [["jobs", "ls"], ["schema", "status"], ["enqueue", "greet", "--app", "tasks:app"]]
    for arguments in commands:
        answer = await cli(*arguments)
        assert answer.code == 3
        assert advice in answer.err
