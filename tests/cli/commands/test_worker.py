from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.cli.processes import ended, exists, holding, lines_until
from tests.waiting import eventually

from rowlock.model.state import State

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock


async def test_sigterm_drains_and_exits_0(cli: Cli, app: Rowlock) -> None:
    process, public_id, release = await holding(cli, app)
    (worker,) = (await cli("workers", "ls", "--json")).json
    assert (worker["name"], worker["pid"], worker["state"]) == ("tester", process.pid, "up")
    process.send_signal(signal.SIGTERM)
    await lines_until(process.stderr, "SIGTERM: draining")
    release.touch()
    code, out, err = await ended(process)
    assert (code, out) == (0, "")
    assert "← done" in err
    assert "Traceback" not in err
    job = await app.jobs.get(public_id)
    assert (job.state, job.result, job.attempt) == (State.COMPLETED, "released", 1)
    assert await app.workers.list() == []


async def test_a_second_sigterm_returns_the_job_and_refunds_its_attempt(cli: Cli, app: Rowlock) -> None:
    process, public_id, _ = await holding(cli, app)
    process.send_signal(signal.SIGTERM)
    await lines_until(process.stderr, "SIGTERM: draining")
    process.send_signal(signal.SIGTERM)
    code, _, err = await ended(process)
    assert code == 0
    assert "SIGTERM again" in err
    history = await app.jobs.history(public_id)
    assert (history.job.state, history.job.attempt) == (State.QUEUED, 0)
    assert [attempt.outcome for attempt in history.attempts] == ["interrupted"]


BLOCKING = """
import threading
from pathlib import Path

from tasks import app


@app.job("block")
def block(started: Path) -> None:
    started.touch()
    threading.Event().wait()
"""


async def test_a_handler_that_never_ends_does_not_keep_the_process(cli: Cli, app: Rowlock) -> None:
    (cli.folder / "blocking.py").write_text(BLOCKING)
    started = cli.folder / "started"
    args = ("block", "--app", "blocking:app", "--args", json.dumps({"started": str(started)}), "--json")
    public_id = str((await cli("enqueue", *args)).json["id"])
    worker = ("worker", "--app", "blocking:app")
    process = await cli.start(*worker, ROWLOCK_SHUTDOWN_AFTER="1s", ROWLOCK_STOP_PATIENCE="1s")
    await eventually(lambda: exists(started))
    process.send_signal(signal.SIGTERM)
    code, _, err = await ended(process)
    assert (code, "returned 1 unfinished jobs" in err) == (0, True)
    assert (await app.jobs.get(public_id)).state == State.QUEUED


async def test_the_worker_says_where_it_works_and_logs_each_transition(cli: Cli, app: Rowlock) -> None:
    process = await cli.start("worker", "--app", "tasks:app", "--lanes", "front=2,default=1")
    lines = await lines_until(process.stderr, "lane front")
    public_id = await cli.enqueue("greet", name="Ada")
    lines += await lines_until(process.stderr, "← done")
    process.send_signal(signal.SIGINT)
    assert (await ended(process))[0] == 0
    text = "".join(lines)
    assert "schema rowlock, kinds count, explode, greet, hold, login, pay" in text
    assert "lane default (1 slots): count, explode, hold, login, pay" in text
    assert "lane front (2 slots): greet" in text
    assert "→ start   greet" in text
    assert (await app.jobs.get(public_id)).state == State.COMPLETED


async def test_a_lane_that_no_worker_serves_is_named(cli: Cli) -> None:
    process = await cli.start("worker", "--app", "tasks:app", "--lanes", "front=2")
    lines = await lines_until(process.stderr, "no worker serves lane")
    assert "no worker serves lane default (count, explode, hold, login, pay): --lanes leaves it out here" in lines[-1]
    other = await cli.start("worker", "--app", "tasks:app", "--lanes", "default")
    beginning = await lines_until(other.stderr, "lane default")
    other.send_signal(signal.SIGTERM)
    code, _, rest = await ended(other)  # it has looked around by then, while the first one was there
    process.send_signal(signal.SIGTERM)
    assert (code, (await ended(process))[0]) == (0, 0)
    assert "no worker serves" not in "".join(beginning) + rest


async def test_json_logs_are_one_object_per_line_on_standard_output(cli: Cli) -> None:
    await cli.enqueue("greet", name="Ada")
    process = await cli.start("worker", "--app", "tasks:app", "--json")
    lines = await lines_until(process.stdout, "← done")
    process.send_signal(signal.SIGTERM)
    code, rest, err = await ended(process)
    assert (code, err) == (0, "")
    records = [json.loads(line) for line in [*lines, *rest.splitlines()]]
    (start,) = [record for record in records if record["message"].startswith("→ start")]
    assert (start["level"], start["kind"], start["attempt"], start["lane"]) == ("info", "greet", 1, "front")


async def test_the_worker_waits_for_its_schema_and_says_so(cli: Cli) -> None:
    with psycopg.connect(cli.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA rowlock CASCADE")
    process = await cli.start("worker", "--app", "tasks:app")
    await lines_until(process.stderr, "waits: Rowlock's tables are not in schema")
    assert (await cli("schema", "upgrade")).code == 0
    await lines_until(process.stderr, "started with lanes")
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 0


async def test_a_waiting_worker_obeys_signals(cli: Cli) -> None:
    process = await cli.start("worker", "--app", "tasks:app", "--database-url", "postgresql://nobody@127.0.0.1:1/none")
    await lines_until(process.stderr, "cannot be reached")
    process.send_signal(signal.SIGTERM)
    code, _, err = await ended(process)
    assert code == 0
    assert "Traceback" not in err


async def test_sigterm_during_a_slow_import_is_an_ordinary_end(cli: Cli) -> None:
    cli.folder.joinpath("slow.py").write_text("import time\nopen('importing', 'w').close()\ntime.sleep(600)\n")
    process = await cli.start("worker", "--app", "slow:app")
    await eventually(lambda: exists(cli.folder / "importing"), within=40)
    process.send_signal(signal.SIGTERM)
    assert await ended(process) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--lanes", "fornt"], 1, "Did you mean 'front'?"),
        (["--lanes", "front=2,default"], 2, "--lanes takes names"),
        (["--log-level", "loud"], 2, "--log-level takes"),
    ],
)
async def test_a_worker_that_cannot_start_says_why(cli: Cli, arguments: list[str], code: int, message: str) -> None:
    answer = await cli("worker", "--app", "tasks:app", *arguments)
    assert answer.code == code
    assert message in answer.err


async def test_a_failure_is_logged_with_its_reason(cli: Cli) -> None:
    await cli.enqueue("explode")
    process = await cli.start("worker", "--app", "tasks:app")
    lines = await lines_until(process.stderr, "! failed")
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 0
    assert lines[-1].endswith(" s: ValueError: out of paper\n")
