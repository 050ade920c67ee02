from __future__ import annotations

import json
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.cli.processes import ended, lines_until

from rowlock.desk.doctor import Doctor
from rowlock.settings import Settings
from rowlock.store.connections import probes

if TYPE_CHECKING:
    from tests.cli.conftest import Answer, Cli

    from rowlock import Rowlock

pytestmark = pytest.mark.timeout(120)
NOWHERE = "postgresql://ada:horse@127.0.0.1:1/none"


def verdicts(answer: Answer) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in json.loads(answer.out)["findings"]:
        found.setdefault(finding["check"], []).append(finding["verdict"])
    return found


async def test_a_healthy_installation_is_all_ok(cli: Cli) -> None:
    process = await cli.start("worker", "--app", "tasks:app")
    await lines_until(process.stderr, "lane front")
    answer = await cli("doctor", "--app", "tasks:app", "--json")
    found = verdicts(answer)
    del found["durability"]  # the tests' own server is faster than safe
    assert found == {check: ["ok"] for check in found}
    assert {"python", "rowlock", "app", "database", "pooler", "clock", "listen", "schema", "workers"} <= found.keys()
    process.send_signal(signal.SIGTERM)
    await ended(process)


async def test_every_finding_is_a_line_with_what_to_do_and_strict_tells_of_warnings(cli: Cli) -> None:
    await cli("lanes", "set", "front", "--create", "--kinds", "greet")
    await cli("lanes", "drain", "front")
    await cli.enqueue("greet", name="Ada")
    with psycopg.connect(cli.url) as connection:
        connection.execute("UPDATE rowlock.jobs SET run_after = now() - interval '1 hour'")
    answer = await cli("doctor")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    at = lines.index("warn  lanes         front is drained, and 1 due jobs wait")
    assert lines[at + 1].strip() == "→ rowlock lanes resume front"
    assert any(line.startswith("warn  waiting       the oldest due job is ") for line in lines)
    assert "warnings, 0 failures." in lines[-1]
    assert (await cli("doctor", "--strict")).code == 1


async def test_what_fails_is_told_with_its_exit_code(cli: Cli, empty_database_url: str) -> None:
    unreachable = await cli("doctor", "--database-url", NOWHERE, "--json")
    assert unreachable.code == 3
    assert verdicts(unreachable)["database"] == ["fail"]
    assert "horse" not in unreachable.out
    missing = await cli("doctor", "--database-url", empty_database_url, "--json")
    assert missing.code == 3
    assert verdicts(missing)["schema"] == ["fail"]
    wrong = await cli("doctor", "--app", "taks:app", "--json")
    assert wrong.code == 1
    assert (verdicts(wrong)["app"], verdicts(wrong)["schema"]) == (["fail"], ["ok"])
    url = await cli("doctor", "--database-url", "mysql://localhost/jobs")
    assert url.code == 3
    assert "postgresql://" in url.out


async def test_without_a_url_nothing_is_started_to_be_looked_at(cli: Cli) -> None:
    answer = await cli("doctor", "--json", ROWLOCK_DATABASE_URL="", ROWLOCK_DATA_DIR=str(cli.folder / "nothing"))
    assert answer.code == 0
    assert verdicts(answer)["database"] == ["warn"]
    assert not (cli.folder / "nothing").exists()


async def test_an_old_transaction_and_a_table_without_vacuum_are_found(app: Rowlock, database_url: str) -> None:
    async def found(check: str) -> list[Any]:
        return [one for one in await Doctor(app.database(), app.settings).examine() if one.check == check]

    database = app.database()
    with psycopg.connect(database_url) as connection:
        connection.execute("ALTER TABLE rowlock.jobs SET (autovacuum_enabled = false)")
        connection.commit()
        ((vacuum,),) = [await found("vacuum")]
        assert (vacuum.verdict, vacuum.says) == ("fail", "autovacuum is off for jobs")
        connection.execute("SELECT 1")
        old = await database.fetch("doctor_transactions", older=timedelta(0))
        assert f"process {connection.info.backend_pid}" in [row["what"] for row in old]


async def test_held_quarantined_and_unapproved_jobs_are_found(cli: Cli, app: Rowlock) -> None:
    pay, other = await cli.enqueue("pay", amount=1), await cli.enqueue("explode")
    with psycopg.connect(cli.url) as connection:
        connection.execute("UPDATE rowlock.jobs SET created_at = now() - interval '2 days' WHERE kind = 'pay'")
        connection.execute(
            "UPDATE rowlock.jobs SET state = 'failed', finished_at = now(), errors = '{\"reason\": \"quarantined\"}'"
            " WHERE kind = 'explode'"
        )
        connection.execute(
            "INSERT INTO rowlock.jobs (kind, state, approval) SELECT 'greet', 'pending', 0 FROM generate_series(1, 3)"
        )
    found = {one.check: one for one in await Doctor(app.database(), app.settings).examine()}
    assert found["approval"].says == "1 jobs await it, the oldest for 2d"
    assert pay in found["approval"].do
    assert found["held"].says.startswith("3 jobs are held")
    assert (found["quarantine"].verdict, other in found["quarantine"].do) == ("warn", True)


async def test_upkeep_that_is_not_carried_out_is_found(app: Rowlock, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO rowlock.workers (name, host, pid, version, started_at) "
            "VALUES ('w', 'h', 1, '0', now() - interval '1 hour')"
        )
        found = {one.check: one for one in await Doctor(app.database(), app.settings).examine()}
        assert (found["upkeep"].verdict, found["upkeep"].says[:8]) == ("warn", "the last")
        connection.execute("UPDATE rowlock.workers SET started_at = now()")
        found = {one.check: one for one in await Doctor(app.database(), app.settings).examine()}
        assert found["upkeep"].verdict == "ok"  # it has just begun


@pytest.mark.parametrize(
    ("failed", "completed", "told"),
    [(96, 4, True), (11, 9, True), (10, 10, False), (5, 0, True), (4, 0, False), (6, 5, False)],
)
async def test_a_kind_that_mostly_fails_is_named_with_its_commonest_error(
    app: Rowlock, database_url: str, failed: int, completed: int, told: bool
) -> None:
    error = json.dumps({"reason": "failed", "type": "OSError", "message": "no route"})
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO rowlock.jobs (kind, state, claimed_at) "
            "SELECT 'mail', 'running', now() FROM generate_series(1, %s)",
            [failed + completed],
        )
        connection.execute(
            "UPDATE rowlock.jobs j SET state = CASE WHEN n.n <= %s THEN 'failed' ELSE 'completed' END, "
            "finished_at = now(), errors = CASE WHEN n.n = 1 THEN '{}' WHEN n.n <= %s THEN %s::jsonb END "
            "FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM rowlock.jobs) n WHERE n.id = j.id",
            [failed, failed, error],
        )
    found = {one.check: one for one in await Doctor(app.database(), app.settings).examine()}["failures"]
    assert found.verdict == ("warn" if told else "ok")
    if told:
        assert f"{failed} of {failed + completed} jobs of mail failed" in found.says
        assert "OSError: no route" in found.says
        assert "rowlock jobs show" in found.do


async def test_a_check_that_fails_itself_keeps_no_other_from_being_made(app: Rowlock, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("ALTER TABLE rowlock.duties RENAME COLUMN last_run_at TO broken")
    found = {one.check: one for one in await Doctor(app.database(), app.settings).examine()}
    assert found["lanes"].says.startswith("could not be checked: ")
    assert found["waiting"].verdict == "ok"


async def test_a_message_comes_back_and_no_pooler_is_seen_on_a_direct_connection(app: Rowlock) -> None:
    seconds = await probes.round_trip(app.database())
    assert seconds is not None
    assert await probes.find_pooler(app.database()) == probes.PoolerCheck(pooler=False, by_transaction=False)
    quiet = await Doctor(app.database(), Settings(listen=False)).examine()
    assert [one.says for one in quiet if one.check == "listen"] == ["off (ROWLOCK_LISTEN): workers poll"]
