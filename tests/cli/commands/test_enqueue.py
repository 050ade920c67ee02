from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from rowlock.model.state import State

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock


async def test_enqueue_prints_the_id_and_what_happened(cli: Cli, app: Rowlock) -> None:
    answer = await cli("enqueue", "greet", "--app", "tasks:app", "--args", '{"name": "Ada", "times": 2}')
    assert (answer.code, answer.err) == (0, "")
    public_id, what = answer.out.split()
    assert what == "created"
    job = await app.jobs.get(public_id)
    assert (job.kind, job.state, job.args) == ("greet", State.QUEUED, {"name": "Ada", "times": 2})


async def test_every_option_reaches_the_job(cli: Cli, app: Rowlock) -> None:
    options = ["--priority", "-7", "--run-in", "1h", "--unique-key", "ada", "--on-conflict", "keep", "--tenant", "acme"]
    call = ("enqueue", "greet", "--args", '["Ada"]', *options, "--json")
    first = (await cli(*call, ROWLOCK_APP="tasks:app")).json
    second = (await cli(*call, ROWLOCK_APP="tasks:app")).json
    assert (first["kind"], first["what"], first["deduplicated"]) == ("greet", "created", False)
    assert second == first | {"what": "kept", "deduplicated": True}
    job = await app.jobs.get(first["id"])
    assert (job.priority, job.tenant, job.unique_key) == (-7, "acme", "greet:ada")
    assert timedelta(minutes=59) < job.run_after - datetime.now(UTC) <= timedelta(hours=1)


async def test_run_at_and_idempotency_key(cli: Cli, app: Rowlock) -> None:
    call = ("enqueue", "greet", "--app", "tasks:app", "--args", '{"name": "Ada"}', "--idempotency-key", "day", "--json")
    first = (await cli(*call, "--run-at", "2099-01-31T09:00:00+01:00")).json
    again = (await cli(*call)).json
    assert (first["what"], again["what"]) == ("created", "kept")
    assert again["id"] == first["id"]
    assert (await app.jobs.get(first["id"])).run_after == datetime(2099, 1, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["greeet"], 1, "Did you mean 'greet'?"),
        (["greet", "--args", "{name: 1}"], 2, "--args is not JSON"),
        (["greet", "--args", "7"], 2, "takes a JSON object"),
        (["greet", "--args", "{}"], 2, "name"),
        (["greet", "--args", '{"name": "Ada", "tims": 2}'], 2, "times"),
        (["greet", "--args", '["Ada"]', "--priority", "1000"], 2, "priority"),
        (["greet", "--args", '["Ada"]', "--run-in", "soon"], 2, "run_in"),
        (["greet", "--args", '["Ada"]', "--run-at", "2099-01-31T09:00"], 2, "--run-at needs a time zone"),
        (["greet", "--args", '["Ada"]', "--run-at", "noon"], 2, "--run-at takes an ISO 8601"),
        (["greet", "--args", '["Ada"]', "--on-conflict", "ignore"], 2, "on_conflict"),
    ],
)
async def test_a_refused_enqueue_says_why(
    cli: Cli, app: Rowlock, arguments: list[str], code: int, message: str
) -> None:
    answer = await cli("enqueue", *arguments, "--app", "tasks:app")
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith("rowlock: ")
    assert message in answer.err
    assert await app.jobs.list() == []


async def test_a_taken_unique_key_is_refused(cli: Cli) -> None:
    call = ("enqueue", "greet", "--app", "tasks:app", "--args", '{"name": "Ada"}', "--unique-key", "ada")
    first = await cli(*call)
    second = await cli(*call)
    assert second.code == 1
    assert first.out.split()[0] in second.err


async def test_run_job_runs_one_job_here(cli: Cli, app: Rowlock) -> None:
    public_id = await cli.enqueue("greet", name="Ada")
    ran = (await cli("run-job", public_id, "--app", "tasks:app", "--json")).json
    assert (ran["id"], ran["state"], ran["result"], ran["attempt"]) == (public_id, "completed", "Hello, Ada!", 1)
    again = await cli("run-job", public_id, "--app", "tasks:app")
    assert again.code == 1
    assert "completed" in again.err
    assert (await app.jobs.get(public_id)).attempt == 1


async def test_run_job_fails_with_the_job(cli: Cli) -> None:
    public_id = await cli.enqueue("explode")
    answer = await cli("run-job", public_id, "--app", "tasks:app")
    assert answer.code == 1
    assert "failed" in answer.out
    assert "ValueError: out of paper" in answer.err


async def test_a_kind_that_workers_told_of_needs_no_code(cli: Cli, app: Rowlock) -> None:
    """As in the container of a CronJob: repeated, it enqueues nothing more and is no failure."""

    @app.job("mow")
    async def mow(field: str) -> None: ...

    async with app.worker():
        pass
    call = ("enqueue", "mow", "--args", '{"field": "north"}', "--idempotency-key", "mow:2027-03-28")
    first, again = await cli(*call), await cli(*call)
    assert (first.code, again.code, first.err, again.err) == (0, 0, "", "")
    assert [answer.out.split()[1] for answer in (first, again)] == ["created", "kept"]
    assert first.out.split()[0] == again.out.split()[0]
    unknown = await cli("enqueue", "now")
    assert (unknown.code, "Did you mean 'mow'?" in unknown.err, "--app" in unknown.err) == (1, True, True), unknown.err


async def test_commands_that_run_code_need_the_application(cli: Cli) -> None:
    answer = await cli("run-job", "1")
    assert answer.code == 2
    assert "--app" in answer.err
    assert "ROWLOCK_APP" in answer.err
