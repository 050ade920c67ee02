from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from tests.factories import opened

from rowlock import Rowlock
from rowlock.model import ids

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


async def test_ls_shows_public_ids_in_aligned_columns_without_an_application(cli: Cli) -> None:
    first = await cli.enqueue("greet", name="Ada")
    second = await cli.enqueue("explode")
    answer = await cli("jobs", "ls")
    assert (answer.code, answer.err) == (0, "")
    head, *rows = answer.out.splitlines()
    assert head.split() == ["ID", "KIND", "STATE", "PRIORITY", "ATTEMPT", "LANE", "CREATED", "LAST"]
    assert [row.split()[:3] for row in rows] == [[second, "explode", "queued"], [first, "greet", "queued"]]
    assert {row.index("queued") for row in rows} == {head.index("STATE")}
    assert "due " in rows[0]


async def test_ls_filters_and_pages(cli: Cli) -> None:
    ada, bob = await cli.enqueue("greet", name="Ada"), await cli.enqueue("greet", name="Bob")
    pay = await cli.enqueue("pay", amount=5)
    pending = (await cli("jobs", "ls", "--state", "pending", "--json")).json
    assert [job["id"] for job in pending] == [pay]
    page = await cli("jobs", "ls", "--kind", "greet", "--limit", "1")
    assert bob in page.out
    assert f"--before {bob}" in page.err
    older = (await cli("jobs", "ls", "--kind", "greet", "--before", bob, "--json")).json
    assert [job["id"] for job in older] == [ada]


async def test_ls_finds_by_tenant_reference_and_tag(cli: Cli, database_url: str) -> None:
    other = Rowlock(database_url)

    @other.job
    async def greet() -> None: ...

    wanted = await greet.options(tenant="acme", refs={"project": 7}, tags=["urgent"]).enqueue()
    await greet.options(tenant="acme", refs={"project": 8}).enqueue()
    await other.close()
    for options in (["--ref", "project=7"], ["--tag", "urgent"], ["--tenant", "acme", "--ref", "project=7"]):
        assert [job["id"] for job in (await cli("jobs", "ls", *options, "--json")).json] == [wanted.public_id]
    answer = await cli("jobs", "ls", "--ref", "project")
    assert answer.code == 2
    assert "--ref takes NAME=VALUE" in answer.err


async def test_ls_takes_a_search_and_points_at_its_mistakes(cli: Cli) -> None:
    ada, bob = await cli.enqueue("greet", name="Ada"), await cli.enqueue("greet", name="Bob")
    assert [job["id"] for job in (await cli("jobs", "ls", "kind:gr* args.name:Ada", "--json")).json] == [ada]
    first = await cli("jobs", "ls", "kind:greet", "--limit", "1")
    assert bob in first.out
    assert "2 in all; the next page: --after " in first.err
    second = await cli("jobs", "ls", "kind:greet", "--limit", "1", "--after", first.err.split()[-1])
    assert ada in second.out
    wrong = await cli("jobs", "ls", "kind:greet stat:failed")
    assert wrong.code == 2
    said, line, caret = wrong.err.splitlines()
    assert said.endswith("Did you mean state:failed?")
    assert line[caret.index("^") :].startswith("stat:")
    mixed = await cli("jobs", "ls", "kind:greet", "--state", "failed")
    assert (mixed.code, "as terms of the search" in mixed.err) == (2, True)


async def test_an_empty_list_says_so_and_is_an_empty_json_list(cli: Cli) -> None:
    assert (await cli("jobs", "ls")).out == "No jobs.\n"
    assert (await cli("jobs", "ls", "--json")).json == []


async def test_an_unknown_state_is_refused_with_the_known_ones(cli: Cli) -> None:
    answer = await cli("jobs", "ls", "--state", "done")
    assert answer.code == 2
    assert "completed_with_errors" in answer.err


async def test_show_takes_number_or_public_id_and_tells_what_happened(cli: Cli) -> None:
    public_id = await cli.enqueue("explode")
    await cli("run-job", public_id, "--app", "tasks:app")
    number = str(ids.parse(public_id))
    answer = await cli("jobs", "show", number)
    assert answer.code == 0
    assert f"{public_id}\n" in answer.out
    assert "failed: ValueError: out of paper" in answer.out
    record = (await cli("jobs", "show", public_id.lower(), "--json")).json
    assert (record["state"], record["errors"]["type"]) == ("failed", "ValueError")
    assert record["attempts"] == []
    assert record["acts"] == []


async def test_secrets_are_never_shown(cli: Cli) -> None:
    public_id = await cli.enqueue("login", user="ada", password="correct horse")  # noqa: S106 - made up
    for arguments in (["jobs", "show", public_id], ["jobs", "show", public_id, "--json"], ["jobs", "ls", "--json"]):
        answer = await cli(*arguments)
        assert answer.code == 0
        assert "ada" in answer.out
        assert "correct horse" not in answer.out


async def test_orders_change_jobs_and_leave_a_trace(cli: Cli) -> None:
    first, second, third = [await cli.enqueue("pay", amount=n) for n in (1, 2, 3)]
    approved = (await cli("jobs", "approve", first, "--by", "ada", "--note", "fine", "--json")).json
    assert [(job["id"], job["state"]) for job in approved] == [(first, "queued")]
    raised = (await cli("jobs", "priority", first, "50", "--json")).json
    assert [job["priority"] for job in raised] == [50]
    rejected = (await cli("jobs", "reject", second, "--json")).json
    assert [job["state"] for job in rejected] == ["cancelled"]
    cancelled = (await cli("jobs", "cancel", first, third, "--json")).json
    assert [job["state"] for job in cancelled] == ["cancelled", "cancelled"]
    acts = (await cli("jobs", "show", first, "--json")).json["acts"]
    assert [(act["verb"], act["note"]) for act in acts] == [("approve", "fine"), ("priority", None), ("cancel", None)]
    assert acts[0]["by"] == "ada"


async def test_edit_changes_what_waits(cli: Cli) -> None:
    public_id = await cli.enqueue("pay", amount=1)
    await cli("jobs", "approve", public_id)
    edited = await cli(
        *("jobs", "edit", public_id, "--app", "tasks:app", "--args", '{"amount": 2}', "--tags", "a, b"),
        *("--run-at", "2040-01-01T00:00:00Z", "--priority", "7", "--by", "ada", "--note", "typo", "--json"),
    )
    (job,) = edited.json
    assert (job["state"], job["args"], job["tags"], job["priority"]) == ("pending", {"amount": 2}, ["a", "b"], 7)
    assert job["run_after"].startswith("2040-01-01")
    (act,) = [act for act in (await cli("jobs", "show", public_id, "--json")).json["acts"] if act["verb"] == "edit"]
    assert (act["by"], act["note"]) == ("ada", "typo")
    wrong = await cli("jobs", "edit", public_id, "--app", "tasks:app", "--args", '{"amount": "much"}')
    assert (wrong.code, "argument 'amount'" in wrong.err) == (2, True), wrong.err
    nothing = await cli("jobs", "edit", public_id)
    assert (nothing.code, "Nothing to change" in nothing.err) == (2, True)
    await cli("jobs", "cancel", public_id)
    ended = await cli("jobs", "edit", public_id, "--tags", "")
    assert (ended.code, "it is cancelled; only a waiting job can be edited" in ended.err) == (1, True), ended.err


async def test_retry_and_stop(cli: Cli) -> None:
    public_id = await cli.enqueue("explode")
    await cli("run-job", public_id, "--app", "tasks:app")
    retried = (await cli("jobs", "retry", public_id, "--json")).json
    assert [job["state"] for job in retried] == ["queued"]
    stopped = await cli("jobs", "stop", public_id)
    assert stopped.code == 0
    assert "cancelled" in stopped.out


async def test_an_order_that_one_job_refuses_still_reaches_the_others(cli: Cli, app: Rowlock) -> None:
    public_id = await cli.enqueue("greet", name="Ada")
    answer = await cli("jobs", "cancel", "999", public_id)
    assert answer.code == 1
    assert "There is no job 999" in answer.err
    assert (await app.jobs.get(public_id)).state == "cancelled"
    again = await cli("jobs", "cancel", public_id)
    assert (again.code, again.out) == (1, "")
    assert "it is cancelled" in again.err


async def test_a_mistyped_id_is_a_usage_error(cli: Cli) -> None:
    answer = await cli("jobs", "show", "363M-KAPQ-NW11-0Q")
    assert answer.code == 2
    assert "check symbol" in answer.err


async def test_orders_for_what_a_search_finds_are_confirmed(cli: Cli, app: Rowlock) -> None:
    ids_ = [await cli.enqueue("greet", name=name) for name in ("Ada", "Bob")]
    asked = await cli("jobs", "cancel", "--search", "kind:greet")
    assert asked.code == 1
    assert "cancel 2 jobs such as these? Nothing was done" in asked.err
    assert ids_[0] in asked.err
    done = await cli("jobs", "cancel", "--search", "kind:greet", "--yes", "--by", "ada")
    assert (done.code, done.out) == (0, "cancel: 2 jobs (operation 1).\n")
    assert {(await app.jobs.get(one)).state for one in ids_} == {"cancelled"}
    again = (await cli("jobs", "retry", "--search", "args.name:Ada", "--yes", "--json")).json
    assert (again["state"], again["done"]) == ("completed", 1)
    both = await cli("jobs", "cancel", ids_[0], "--search", "kind:greet")
    assert (both.code, "one of the two" in both.err) == (2, True)
    assert (await cli("jobs", "rm", "--search", "kind:none", "--yes")).out == "No jobs.\n"


async def test_approvals_and_their_rules(cli: Cli) -> None:
    waiting = await cli.enqueue("pay", amount=1)
    listed = await cli("approvals", "ls", "kind:pay")
    assert waiting in listed.out
    assert "1 person" in listed.out
    rule = (await cli("approvals", "rule", "add", "--kind", "pay", "--args", '{"amount": 5}', "--json")).json[0]
    approved = await cli.enqueue("pay", amount=5)
    assert approved not in (await cli("approvals", "ls")).out
    assert '{"amount": 5}' in (await cli("approvals", "rule", "ls")).out
    assert (await cli("approvals", "rule", "rm", str(rule["id"]))).code == 0
    assert (await cli("approvals", "rule", "rm", str(rule["id"]))).code == 1
    assert (await cli("approvals", "rule", "add", "--args", "5")).code == 2


async def test_the_index_on_arguments_is_built_on_demand(cli: Cli) -> None:
    assert (await cli("schema", "index", "args")).out == "The index on arguments is there.\n"
    assert (await cli("schema", "verify")).code == 0
    assert (await cli("schema", "index", "args", "--drop")).out == "The index on arguments is gone.\n"


async def test_orders_take_ids_from_a_pipe(cli: Cli) -> None:
    ids_ = [await cli.enqueue("pay", amount=n) for n in (1, 2, 3)]
    table = (await cli("jobs", "ls", "--limit", "2")).out
    approved = (await cli("jobs", "approve", "-", "--json", fed=table)).json
    assert [(job["id"], job["state"]) for job in approved] == [(ids_[2], "queued"), (ids_[1], "queued")]
    listed = (await cli("jobs", "ls", "--state", "pending", "--json")).out
    (rejected,) = (await cli("jobs", "reject", "-", "--json", fed=listed)).json
    assert rejected["id"] == ids_[0]
    none = await cli("jobs", "retry", "-", fed="No jobs.\n")
    assert (none.code, none.out, none.err) == (0, "", "")


async def test_a_bad_list_from_a_pipe_is_refused_before_anything_happens(cli: Cli) -> None:
    answer = await cli("jobs", "cancel", "-", fed='[{"kind": "greet"}]')
    assert (answer.code, answer.out) == (2, "")
    assert "Standard input is no list of jobs" in answer.err


async def test_a_reader_who_leaves_is_no_error(cli: Cli) -> None:
    for _ in range(3):
        await cli.enqueue("greet", name="Ada")
    reader, writer = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowlock", "jobs", "ls", "--json"),
        cwd=cli.folder,
        env=cli.environment,
        stdout=writer,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(reader)
    os.close(writer)
    _, err = await process.communicate()
    assert (process.returncode, err.decode()) == (141, "")


async def test_an_order_for_a_job_that_is_held_says_by_whom_and_reaches_the_others(
    cli: Cli, app: Rowlock, database_url: str
) -> None:
    held, free = await cli.enqueue("greet", name="Ada"), await cli.enqueue("greet", name="Bob")
    async with opened(database_url) as other, other.connection.transaction():
        await other.execute("SELECT 1 FROM {s}.jobs WHERE id = $1 FOR UPDATE", ids.decode(held))
        for arguments in ([held], [held, "--json"], [held, free]):
            answer = await cli("jobs", "cancel", *arguments)
            assert (answer.code, "Traceback" in answer.err) == (1, False), answer.err
            assert f"process {other.pid} (" in answer.err
        assert (await app.jobs.get(free)).state == "cancelled"
    assert (await cli("jobs", "cancel", held)).code == 0


async def test_an_order_for_a_job_that_a_trigger_refuses_says_so_and_reaches_the_others(
    cli: Cli, app: Rowlock, database_url: str
) -> None:
    refused, free = await cli.enqueue("greet", name="Ada"), await cli.enqueue("greet", name="Bob")
    async with opened(database_url) as other:
        await other.execute(f"""
            CREATE FUNCTION public.picky() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN IF OLD.id = {ids.decode(refused)} THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;
            CREATE TRIGGER picky BEFORE UPDATE ON rowlock.jobs FOR EACH ROW EXECUTE FUNCTION public.picky()
        """)
    answer = await cli("jobs", "cancel", refused, free)
    assert (answer.code, "Traceback" in answer.err, "not this one" in answer.err) == (1, False, True), answer.err
    assert (await app.jobs.get(free)).state == "cancelled"


async def test_a_row_that_cannot_be_read_is_shown_cancelled_and_removed(cli: Cli, database_url: str) -> None:
    async with opened(database_url) as store:
        number = await store.value(
            "INSERT INTO {s}.jobs (kind, args) VALUES ('greet', (repeat('[', 900) || repeat(']', 900))::jsonb)"
            " RETURNING id"
        )
    bad = ids.encode(number)
    for arguments in (["ls"], ["ls", "--json"], ["show", bad], ["explain", bad], ["cancel", bad], ["rm", bad]):
        answer = await cli("jobs", *arguments)
        assert (answer.code, "Traceback" in answer.err) == (0, False), answer.err
        if arguments[0] == "show":
            assert "arguments cannot be read: nested more than 150 levels deep" in answer.out
    assert (await cli("jobs", "show", bad)).code != 0


async def test_a_list_of_failed_jobs_shows_their_errors(cli: Cli) -> None:
    public_id = await cli.enqueue("explode")
    await cli("run-job", public_id, "--app", "tasks:app")
    for listed in (await cli("jobs", "ls", "state:failed"), await cli("jobs", "ls", "--state", "failed")):
        header, line = listed.out.splitlines()[:2]
        assert header.split()[-1] == "ERROR"
        assert line.startswith(public_id)
        assert "ValueError: out of paper" in line
