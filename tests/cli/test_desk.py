"""explain, rm, stats, workers drain and status: the newer half of the desk on the command line."""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import TYPE_CHECKING

import pytest
from tests.cli.processes import ended, holding, lines_until
from tests.factories import opened
from tests.waiting import eventually

from rowlock.model import ids
from rowlock.model.state import State

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock

pytestmark = pytest.mark.timeout(120)


async def test_explain_says_why_in_words_and_codes(cli: Cli) -> None:
    public_id = await cli.enqueue("pay", amount=1)
    answer = await cli("jobs", "explain", public_id)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"Job {public_id} (pay) is pending. ")
    record = (await cli("jobs", "explain", public_id, "--json")).json
    assert record["job_id"] == public_id
    assert record["reasons"][0]["text"] in record["verdict"]
    assert record["reasons"][0]["code"]
    unknown = await cli("jobs", "explain", "7777")
    assert unknown.code == 1
    assert "There is no job 7777" in unknown.err


async def test_locks_are_listed_with_holder_and_waiters(cli: Cli, app: Rowlock) -> None:
    assert (await cli("locks", "ls")).out == "No locks.\n"

    async def wait() -> None:
        async with app.lock("edition", "main"):
            pass

    async with app.lock("edition", "main"):
        waiting = asyncio.create_task(wait())

        async def waits() -> bool:
            return bool((await app.locks.list())[0].waiters)

        await eventually(waits)
        lines = [line.split() for line in (await cli("locks", "ls")).out.splitlines()]
        assert [line[:3] for line in lines] == [
            ["NAMESPACE", "KEY", "WHO"],
            ["edition", "main", "holds"],
            ["edition", "main", "waits"],
        ]
        (record,) = (await cli("locks", "ls", "--json")).json
        assert (record["namespace"], record["key"], len(record["waiters"])) == ("edition", "main", 1)
        assert record["holder"]["process"].endswith(f":{os.getpid()}")
    await waiting


async def test_rm_removes_final_jobs_and_refuses_the_others(cli: Cli, app: Rowlock) -> None:
    done, waiting = await cli.enqueue("greet", name="Ada"), await cli.enqueue("greet", name="Bob")
    await cli("run-job", done, "--app", "tasks:app")
    answer = await cli("jobs", "rm", done, waiting)
    assert answer.code == 1
    assert done in answer.out
    assert f"Cannot delete job {waiting}" in answer.err
    assert [job.public_id for job in await app.jobs.list()] == [waiting]


async def test_a_mistyped_id_is_told_before_the_first_order_is_given(cli: Cli, app: Rowlock) -> None:
    public_id = await cli.enqueue("greet", name="Ada")
    answer = await cli("jobs", "cancel", public_id, "not-an-id")
    assert (answer.code, answer.out) == (2, "")
    assert (await app.jobs.get(public_id)).state == State.QUEUED


async def test_stats_shows_states_lanes_backlog_and_failures(cli: Cli) -> None:
    await cli.enqueue("greet", name="Ada")
    await cli("run-job", await cli.enqueue("explode"), "--app", "tasks:app")
    answer = await cli("stats")
    assert (answer.code, answer.err) == (0, "")
    lines = [line.split() for line in answer.out.splitlines()]
    assert ["STATE", "NOW", "ENDED", "IN", "1H"] in lines
    assert ["queued", "1"] in lines
    assert any(line[:5] == ["explode", "1", "1", "100.0%", "failed:"] for line in lines)
    record = (await cli("stats", "--window", "15m", "--json")).json
    assert (record["window"], record["states"]["queued"]["value"], record["ended"]["failed"]["value"]) == (900, 1, 1)
    assert [(item["kind"], item["due"]["value"]) for item in record["backlog"]] == [("greet", 1)]
    assert [(item["kind"], item["rate"]) for item in record["failures"]] == [("explode", 1.0)]
    assert (await cli("stats", "--window", "soon")).code == 2


async def test_stats_shows_what_the_views_say_of_slow_jobs_references_and_tenants(cli: Cli, app: Rowlock) -> None:
    async with opened(cli.url) as store:
        worker = await store.worker("tortoise")
        job = await store.enqueue("render", refs='{"project": 7}', tenant="acme")
        (claim,) = await store.claim(worker, job)
        await store.report(claim)
        await store.complete(*await store.claim(worker, await store.enqueue("render", tenant="acme")))
        record = (await cli("stats", "--slow", "0s", "--json")).json
        assert [one["id"] for one in record["slow"]] == [ids.encode(job)]
        (work,), (tenant,) = await app.stats.references(), await app.stats.tenants()
        assert [(one["name"], one["value"], one["phase"]) for one in record["references"]] == [
            (work.name, work.value, work.phase)
        ]
        # The rate falls from one look to the next; the number of ends does not.
        assert [(one["tenant"], one["ended"]["value"]) for one in record["tenants"]] == [("acme", tenant.ended.value)]
        lines = [line.split() for line in (await cli("stats", "--slow", "0s")).out.splitlines()]
    assert ["project=7", "p", "render", "1"] in [line[:4] for line in lines]
    assert ["acme", "1", "0"] in [line[:3] for line in lines]
    assert any(line[:3] == [ids.encode(job), "render", "default"] and "tortoise" in line for line in lines)


async def test_status_names_jobs_by_their_public_ids_wherever_it_names_them(cli: Cli) -> None:
    """In a slot, in a slot that its handler does not leave, and as the oldest job that no lane serves."""
    async with opened(cli.url) as store:
        await store.lane("front", kinds=["render"], slots=3)
        worker = await store.worker("tortoise")
        runs = await store.enqueue("render")
        await store.claim(worker, runs)
        left, waits = await store.enqueue("render"), await store.enqueue("unknown")
        held = json.dumps([[left, "render", "front", 9.0]])
        await store.execute("UPDATE {s}.workers SET held = $2::text::jsonb, stuck = 1 WHERE id = $1", worker, held)
        record = (await cli("workers", "status", "--json")).json
    ((busy,), (unserved,)) = record["workers"], record["unserved"]
    assert [job["id"] for job in busy["jobs"]] == [ids.encode(runs)]
    assert [slot["job_id"] for slot in busy["held"]] == [ids.encode(left)]
    assert unserved["oldest_id"] == ids.encode(waits)
    assert (busy["id"], busy["jobs"][0]["worker_id"]) == (str(worker), str(worker))
    for public_id in (busy["jobs"][0]["id"], busy["held"][0]["job_id"], unserved["oldest_id"]):
        assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{2,4})+", public_id)


async def test_a_drained_worker_ends_its_jobs_and_leaves(cli: Cli, app: Rowlock) -> None:
    process, public_id, release = await holding(cli, app)
    table = await cli("workers", "status")
    assert any(line.split()[0] == "tester" and public_id in line for line in table.out.splitlines())
    (worker,) = (await cli("workers", "drain", "tester", "--json")).json
    assert (worker["name"], worker["requested"]) == ("tester", "drain")
    release.touch()
    await lines_until(process.stderr, "← done")
    assert (await ended(process))[0] == 0
    assert (await app.jobs.get(public_id)).state == State.COMPLETED
    unknown = await cli("workers", "drain", "tester")
    assert unknown.code == 1
    assert "No worker has the id or name 'tester'" in unknown.err
