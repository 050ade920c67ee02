"""Two who move the same workflow at one moment, staged with two connections."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import Store, opened, several
from tests.waiting import in_time
from tests.workflow_factory import added, plan_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CANCELLED = '{"reason": "workflow cancelled"}'


@pytest.fixture
async def stores(database_url: str) -> AsyncIterator[list[Store]]:
    async with several(database_url, 2) as opened:
        yield opened


async def start(
    store: Store, *edges: tuple[str, str], key: str | None = None, undo: dict[str, Any] | None = None
) -> tuple[int, dict[str, int]]:
    names = dict.fromkeys(name for edge in edges for name in edge)
    plan = {
        "steps": [{"name": name, "kind": "k", "undo": (undo or {}).get(name)} for name in names],
        "edges": [{"upstream": up, "downstream": down} for up, down in edges],
    }
    about: dict[str, Any] = {"tenant": None, "submitted_by": None, "unique_key": key, "meta": None}
    rows = await store.fetch("workflow_start", name="f", plan=json.dumps(plan), **about)
    return rows[0]["workflow_id"], {row["name"]: row["job_id"] for row in rows}


async def add(store: Store, job: int, name: str) -> list[Any]:
    plan = {"steps": [{"name": name, "kind": "k"}], "edges": [{"upstream": "k", "downstream": name}]}
    return await store.fetch(
        "workflow_add", job=job, fence=None, workflow=None, plan=json.dumps(plan), channel=store.database.channel
    )


async def test_two_finishers_of_one_fan_in_release_it_once(stores: list[Store]) -> None:
    mine, other = stores
    workflow, jobs = await start(mine, ("a", "c"), ("b", "c"))
    worker = await mine.worker()
    first, second = await mine.claim(worker, jobs["a"], jobs["b"])
    transaction = mine.connection.transaction()
    await transaction.start()
    await mine.complete(first)
    late = await mine.blocked(other, other.complete(second))
    await transaction.commit()
    await late
    row = await mine.row(jobs["c"])
    assert (row["state"], row["fence"]) == ("queued", 1)
    assert await mine.value("SELECT open FROM {s}.workflows WHERE id = $1", workflow) == 1


@pytest.mark.parametrize("first", ["finish", "cancel"])
async def test_a_cancel_and_a_finish_leave_nothing_running(stores: list[Store], first: str) -> None:
    mine, other = stores
    workflow, jobs = await start(mine, ("a", "b"))
    (claim,) = await mine.claim(await mine.worker(), jobs["a"])
    transaction = mine.connection.transaction()
    await transaction.start()
    if first == "finish":
        await mine.complete(claim)
        late: asyncio.Future[Any] = await mine.blocked(other, other.one("workflow_cancel", workflow=workflow))
    else:
        await mine.one("workflow_cancel", workflow=workflow)
        late = await mine.blocked(other, other.complete(claim))
    await transaction.commit()
    await late
    # Whoever finishes after the cancel releases nothing, before anybody has come to halt the rest.
    assert (await mine.row(jobs["b"]))["state"] == ("queued" if first == "finish" else "cancelled")
    await mine.one(
        "workflow_halt", workflow=workflow, state="cancelled", error=CANCELLED, channel=mine.database.channel
    )
    assert await mine.states(jobs["a"], jobs["b"]) == ["completed", "cancelled"]
    assert await mine.value("SELECT state FROM {s}.workflows WHERE id = $1", workflow) == "cancelled"


@pytest.mark.parametrize("first", ["finish", "adopt"])
async def test_what_follows_a_job_that_ends_at_this_moment_is_released(stores: list[Store], first: str) -> None:
    mine, other = stores
    job = await mine.enqueue()
    (claim,) = await mine.claim(await mine.worker(), job)
    transaction = mine.connection.transaction()
    await transaction.start()
    if first == "finish":
        await mine.complete(claim)
        late: asyncio.Future[Any] = await mine.blocked(other, add(other, job, "next"))
    else:
        await add(mine, job, "next")
        late = await mine.blocked(other, other.complete(claim))
    await transaction.commit()
    await late
    assert await mine.value("SELECT state FROM {s}.jobs WHERE id <> $1", job) == "queued"


@pytest.mark.parametrize("first", ["signal", "suspend"])
async def test_a_signal_that_comes_while_a_job_suspends_is_not_lost(stores: list[Store], first: str) -> None:
    mine, other = stores
    job = await mine.enqueue()
    (claim,) = await mine.claim(await mine.worker(), job)
    transaction = mine.connection.transaction()
    await transaction.start()
    if first == "signal":
        await mine.signal(job, "go")
        late: asyncio.Future[Any] = await mine.blocked(other, other.suspend(claim, "go"))
    else:
        await mine.suspend(claim, "go")
        late = await mine.blocked(other, other.signal(job, "go"))
    await transaction.commit()
    await late
    assert (await mine.row(job))["state"] == "queued"


async def test_a_claim_that_is_revoked_at_this_moment_adds_nothing(stores: list[Store]) -> None:
    mine, other = stores
    workflow, jobs = await start(mine, ("a", "b"))
    (claim,) = await mine.claim(await mine.worker(), jobs["a"])
    transaction = mine.connection.transaction()
    await transaction.start()
    await mine.stop(jobs["a"])
    plan = json.dumps({"steps": [{"name": "c", "kind": "k"}], "edges": []})
    late = await mine.blocked(
        other,
        other.fetch(
            "workflow_add",
            job=claim.job_id,
            fence=claim.fence,
            workflow=None,
            plan=plan,
            channel=other.database.channel,
        ),
    )
    await transaction.commit()
    assert [row["what"] for row in await late] == ["lost"]
    assert await mine.value("SELECT total FROM {s}.workflows WHERE id = $1", workflow) == 2


async def test_a_retry_and_a_prune_of_one_workflow_do_not_wait_for_each_other_in_a_circle(stores: list[Store]) -> None:
    mine, other = stores
    workflow, jobs = await start(mine, ("a", "b"))
    worker = await mine.worker()
    await mine.complete(*await mine.claim(worker, jobs["a"]), state="failed")
    await mine.execute("UPDATE {s}.workflows SET finished_at = now() - interval '9 days'")
    transaction = mine.connection.transaction()
    await transaction.start()
    await mine.fetch("workflow_retry", workflow=workflow, step="a", by_whom=None, note=None)
    late = await mine.blocked(other, other.one("prune_workflows", batch=10, careful=False))
    await transaction.commit()
    assert (await late)["workflows"] == 0
    assert await mine.states(jobs["a"], jobs["b"]) == ["queued", "blocked"]


async def test_two_who_follow_the_same_end_count_it_once(stores: list[Store]) -> None:
    mine, other = stores
    workflow, jobs = await start(mine, ("a", "b"), ("a", "c"))
    # Ended by code that knows no workflows: whoever repairs first follows it, and so does whoever adds behind it.
    await mine.execute("UPDATE {s}.jobs SET state = 'completed', finished_at = now() WHERE id = $1", jobs["a"])
    repair = {"flows": 10, "steps": 10, "channel": mine.database.channel}
    transaction = mine.connection.transaction()
    await transaction.start()
    await mine.one("workflow_repair", **repair)
    late = await mine.blocked(other, other.one("workflow_repair", **repair))
    await transaction.commit()
    await late
    assert await mine.value("SELECT open FROM {s}.workflows WHERE id = $1", workflow) == 2
    assert await mine.value("SELECT array_agg(remaining) FROM {s}.waits") == [0, 0]
    assert [(await mine.row(jobs[name]))["fence"] for name in "bc"] == [1, 1]


async def test_two_last_ends_at_once_take_back_once(stores: list[Store]) -> None:
    mine, other = stores
    workflow, jobs = await start(mine, ("a", "b"), ("a", "c"), undo={"a": {"kind": "k"}})
    worker = await mine.worker()
    await mine.complete(*await mine.claim(worker, jobs["a"]))
    first, second = await mine.claim(worker, jobs["b"], jobs["c"])
    transaction = mine.connection.transaction()
    await transaction.start()
    await mine.complete(first, state="failed")
    late = await mine.blocked(other, other.complete(second, state="failed"))
    await transaction.commit()
    await late
    flow = await mine.connection.fetchrow("SELECT * FROM rowlock.workflows WHERE id = $1", workflow)
    assert flow is not None
    assert (flow["state"], flow["open"], flow["total"], flow["failed"]) == ("compensating", 1, 4, 2)
    assert await mine.value("SELECT count(*) FROM {s}.workflow_steps WHERE undoes = 'a'") == 1


@pytest.mark.parametrize("first", ["finish", "add"])
async def test_what_is_added_behind_the_last_step_as_it_ends_runs_on(stores: list[Store], first: str) -> None:
    mine, other = stores
    workflow, jobs = await start(mine, ("a", "k"))
    worker = await mine.worker()
    await mine.complete(*await mine.claim(worker, jobs["a"]))
    (claim,) = await mine.claim(worker, jobs["k"])
    transaction = mine.connection.transaction()
    await transaction.start()
    if first == "finish":
        await mine.complete(claim)
        late: asyncio.Future[Any] = await mine.blocked(other, add(other, jobs["k"], "next"))
    else:
        await add(mine, jobs["k"], "next")
        late = await mine.blocked(other, other.complete(claim))
    await transaction.commit()
    await late
    flow = await mine.connection.fetchrow("SELECT * FROM rowlock.workflows WHERE id = $1", workflow)
    assert flow is not None
    assert (flow["state"], flow["open"], flow["total"], flow["finished_at"]) == ("running", 1, 3, None)
    (row,) = await mine.connection.fetch("SELECT id, state FROM rowlock.jobs WHERE finished_at IS NULL")
    assert row["state"] == "queued"
    await mine.complete(*await mine.claim(worker, row["id"]))
    assert await mine.value("SELECT state FROM {s}.workflows WHERE id = $1", workflow) == "completed"


@pytest.mark.parametrize("order", ["add", "retry"])
@pytest.mark.parametrize("first", ["another", "order"])
async def test_a_workflow_goes_on_unless_another_one_of_its_key_begins(
    stores: list[Store], order: str, first: str
) -> None:
    mine, other = stores
    workflow, jobs = await start(mine, ("a", "k"), key="org:7")
    worker = await mine.worker()
    await mine.complete(*await mine.claim(worker, jobs["a"]))
    await mine.complete(*await mine.claim(worker, jobs["k"]))

    async def go_on(store: Store) -> list[Any]:
        if order == "add":
            return await add(store, jobs["k"], "next")
        return await store.fetch("workflow_retry", workflow=workflow, step="k", by_whom=None, note=None)

    transaction = mine.connection.transaction()
    await transaction.start()
    if first == "another":
        await start(mine, ("a", "b"), key="org:7")
        late: asyncio.Future[Any] = await mine.blocked(other, go_on(other))
        await transaction.commit()
        assert (await late)[0]["what"] == ("finished" if order == "add" else "taken")
        assert await mine.value("SELECT state FROM {s}.workflows WHERE id = $1", workflow) == "completed"
        assert await mine.states(jobs["a"], jobs["k"]) == ["completed", "completed"]
    else:
        await go_on(mine)
        late = await mine.blocked(other, start(other, ("a", "b"), key="org:7"))
        await transaction.commit()
        assert (await late)[0] == workflow


async def test_two_calls_of_one_job_that_begin_its_workflow_take_turns(stores: list[Store]) -> None:
    mine, other = stores
    (claim,) = await mine.claim(await mine.worker(), await mine.enqueue())
    transaction = mine.connection.transaction()
    await transaction.start()
    # Both calls have come as far as the job's row, which a handler holds as ctx.guarded() does.
    await mine.guard(claim)
    async with opened(mine.database) as third:
        adding = [
            await mine.blocked(store, added(store, plan_of(names=(name,)), claim=claim))
            for store, name in ((other, "a"), (third, "b"))
        ]
        await transaction.rollback()
        first, second = await in_time(asyncio.gather(*adding))
    assert [row["what"] for row in (*first, *second)] == ["created", "created"]
    assert first[0]["workflow_id"] == second[0]["workflow_id"]
