from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.factories import TOLD, Store, opened
from tests.workflow_factory import plan_of, started

from rowlock import DatabaseBusy, JobNotFound, Rowlock, State, WrongState
from rowlock.desk import bulk, search

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.desk.conftest import Desk

    from rowlock.model.job import Claim


# --- list ------------------------------------------------------------------------------------------------------------


async def test_jobs_are_found_by_reference_tag_and_tenant(app: Rowlock) -> None:
    @app.job
    async def work(n: int) -> None: ...

    for n in range(4):
        await work.options(
            refs={"project": n % 2, "name": "x"}, tags=["even" if n % 2 == 0 else "odd", "all"], tenant=f"t{n // 2}"
        ).enqueue(n)
    await work.options(tenant="t1").enqueue(9)

    async def found(**filters: object) -> list[object]:
        return [job.args["n"] for job in await app.jobs.list(**filters)]  # type: ignore[arg-type]  # the test's own

    assert await found(refs={"project": 1}) == [3, 1]
    assert await found(refs={"project": 1, "name": "x"}) == [3, 1]
    assert await found(refs={"project": 1, "name": "y"}) == []
    assert await found(tag="even") == [2, 0]
    assert await found(tag="all", limit=2) == [3, 2]
    assert await found(tag="all", refs={"project": 0}, tenant="t1") == [2]
    assert await found(tenant="t1") == [9, 3, 2]
    assert await found(tag="all", states=["running"]) == []
    assert await found(tag="all", kind="work", states=[State.QUEUED]) == [3, 2, 1, 0]
    assert await found() == [9, 3, 2, 1, 0]
    order = UUID(int=7)
    await work.options(refs={"order": order}).enqueue(10)
    assert await found(refs={"order": order}) == await found(refs={"order": str(order)}) == [10]


async def test_pages_by_reference_go_on_behind_the_last_id(app: Rowlock) -> None:
    @app.job
    async def work(n: int) -> None: ...

    for n in range(5):
        await work.options(tags=["t"]).enqueue(n)
    first = await app.jobs.list(tag="t", limit=3)
    second = await app.jobs.list(tag="t", limit=3, before=first[-1].public_id)
    assert [job.args["n"] for job in [*first, *second]] == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("few", [True, False], ids=["by state", "by id"])
async def test_jobs_are_listed_by_state_newest_first(desk: Desk, monkeypatch: pytest.MonkeyPatch, few: bool) -> None:
    monkeypatch.setattr(search, "_FEW", 100 if few else 0)
    store, worker = desk.store, await desk.worker()
    made: dict[str, list[int]] = {str(state): [] for state in State}
    await store.gate("g", 1)
    for _ in range(3):
        made["pending"].insert(0, await store.enqueue(approval=True))
        made["queued"].insert(0, await store.enqueue(priority=len(made["queued"])))
        made["running"].insert(0, await store.enqueue(tenant="t"))
        await store.claim(worker, made["running"][0], lane="lane")
        for state in ("failed", "completed", "cancelled"):
            made[state].insert(0, await store.enqueue("other"))
            await store.complete(*await store.claim(worker, made[state][0]), state=state)
    holder = await store.enqueue(gate_key="g")
    made["blocked"] = sorted([await store.enqueue(gate_key="g") for _ in range(2)], reverse=True)
    await store.claim(worker, holder)
    await store.claim(worker, *made["blocked"])
    made["running"].insert(0, holder)

    async def found(*states: str, **more: Any) -> list[int]:  # noqa: ANN401 - the filters' own
        return [job.id for job in await desk.app.jobs.list(states=states, **more)]

    for state in State:
        assert await found(state) == made[state], state
    assert await found("pending", "failed") == sorted(made["pending"] + made["failed"], reverse=True)
    assert await found("queued", "completed") == sorted(made["queued"] + made["completed"], reverse=True)
    assert await found("failed", kind="k") == []
    assert await found("queued", kind="k") == made["queued"]
    assert await found("running", lane="lane", tenant="t") == made["running"][1:]
    first = await found("failed", limit=2)
    assert [*first, *await found("failed", before=first[-1])] == made["failed"]
    assert await found() == []


async def test_a_list_looks_no_further_than_a_search(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_SCAN", 3)
    rare, *_ = [await desk.store.enqueue(kind) for kind in ("rare", "k", "k", "k")]
    none = await desk.app.jobs.list(kind="rare")
    assert (none, none.cut_off) == ([], True)
    rest = await desk.app.jobs.list(kind="rare", before=none.before)
    assert ([job.id for job in rest], rest.cut_off, rest.before) == ([rare], False, None)
    page = await desk.app.jobs.search("kind:rare")
    assert (page.items, page.cut_off) == ([], True)
    page = await desk.app.jobs.search("kind:rare", after=page.next)
    assert [job.id for job in page.items] == [rare]


# --- delete ----------------------------------------------------------------------------------------------------------


async def test_delete_removes_a_finished_job_with_everything_beside_it(app: Rowlock, desk: Desk) -> None:
    @app.job
    async def work() -> None: ...

    job = await work.options(refs={"project": 1}, tags=["t"]).enqueue()
    other = await work.options(refs={"project": 1}, tags=["t"]).enqueue()
    worker = await desk.worker()
    (claim,) = await desk.store.claim(worker, job.id)
    await desk.store.report(claim)
    for told in TOLD:
        await desk.store.execute(told, job.id)
    await app.jobs.stop(job.id, by="ada")
    gone = await app.jobs.delete(job.public_id)
    assert (gone.id, gone.state) == (job.id, State.CANCELLED)
    for table in ("job_refs", "job_attempts", "job_progress", "job_acts", "job_items", "job_logs", "job_checkpoints"):
        left = await desk.store.value(f"SELECT count(*) FROM {{s}}.{table} WHERE job_id = $1", job.id)
        assert left == 0, table
    assert [left.id for left in await app.jobs.list(tag="t")] == [other.id]
    with pytest.raises(JobNotFound):
        await app.jobs.delete(job.id)


@pytest.mark.parametrize("running", [False, True])
async def test_a_live_job_is_not_deleted(desk: Desk, running: bool) -> None:
    number, worker = await desk.store.enqueue(), await desk.worker()
    if running:
        await desk.store.claim(worker, number)
    with pytest.raises(WrongState, match="only a finished job can be deleted; cancel it first"):
        await desk.app.jobs.delete(number)
    assert (await desk.app.jobs.get(number)).id == number


# --- many at once ----------------------------------------------------------------------------------------------------


async def test_cancel_many_cancels_what_it_can_and_tells_the_rest(desk: Desk) -> None:
    store, worker = desk.store, await desk.worker()
    waiting, pending, running, ended = (
        await store.enqueue(),
        await store.enqueue(approval=True),
        await store.enqueue(),
        await store.enqueue(),
    )
    await store.claim(worker, running)
    await store.complete(*await store.claim(worker, ended))
    done = await desk.app.jobs.cancel_many([waiting, pending, running, ended, 999, waiting], by="ada")
    assert [(job.id, job.state) for job in done.changed] == [
        (waiting, State.CANCELLED),
        (pending, State.CANCELLED),
        (running, State.RUNNING),
    ]
    assert done.changed[2].cancel_requested
    assert done.refused.keys() == {ended, 999}
    assert done.refused[ended] == "it is completed already"
    assert "there is no job" in done.refused[999]
    assert [act.by for act in (await desk.app.jobs.history(waiting)).acts] == ["ada"]
    again = await desk.app.jobs.cancel_many([running])
    assert [job.id for job in again.changed] == [running]


async def test_many_go_in_batches(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_BATCH", 3)
    numbers = [await desk.store.enqueue() for _ in range(7)]
    assert len((await desk.app.jobs.cancel_many(reversed(numbers))).changed) == 7
    done = await desk.app.jobs.retry_many(numbers)
    assert [job.id for job in done.changed] == numbers
    assert {job.state for job in done.changed} == {State.QUEUED}
    assert (await desk.app.jobs.cancel_many([])).changed == []


async def test_retry_many_leaves_what_is_not_finished(desk: Desk) -> None:
    ended, waiting = await desk.store.enqueue(), await desk.store.enqueue()
    await desk.app.jobs.cancel(ended)
    done = await desk.app.jobs.retry_many([ended, waiting, 999], by="ada", note="again")
    assert [job.id for job in done.changed] == [ended]
    assert done.refused[waiting] == "it is queued, not finished"
    assert 999 in done.refused


async def test_retry_many_of_two_with_one_unique_key_runs_one_of_them(desk: Desk) -> None:
    numbers = []
    for _ in range(2):
        numbers.append(await desk.store.enqueue(unique_key="k:a", unique_scope="live", statement="enqueue_keep"))
        await desk.app.jobs.cancel(numbers[-1])
    numbers.append(await desk.store.enqueue())
    await desk.app.jobs.cancel(numbers[-1])
    done = await desk.app.jobs.retry_many(numbers)
    assert [job.id for job in done.changed] == [numbers[0], numbers[2]]
    assert "its unique key is held by the live job" in done.refused[numbers[1]]
    again = await desk.app.jobs.retry_many([numbers[1]])
    assert "its unique key is held by the live job" in again.refused[numbers[1]]


async def test_retried_jobs_run(app: Rowlock) -> None:
    fail = True

    @app.job
    async def work() -> None:
        if fail:
            raise ValueError("no")

    async with app.worker(), asyncio.timeout(30):
        made = [await work.options(max_attempts=1).enqueue() for _ in range(3)]
        for job in made:
            assert (await app.jobs.wait(job.id)).state is State.FAILED
        fail = False
        await app.jobs.retry_many(job.id for job in made)
        for job in made:
            assert (await app.jobs.wait(job.id)).state is State.COMPLETED


@contextlib.asynccontextmanager
async def guarding(desk: Desk, claim: Claim) -> AsyncIterator[Store]:
    """A handler inside ctx.guarded(), whose transaction holds its job."""
    async with opened(desk.store.database) as handler:
        await handler.execute("SET application_name = 'the shop'")
        async with handler.connection.transaction():
            assert await handler.guard(claim)
            yield handler


async def test_an_order_for_a_guarded_job_says_soon_who_holds_it(desk: Desk) -> None:
    (claim,) = await desk.store.claim(await desk.worker(), await desk.store.enqueue())
    async with guarding(desk, claim) as handler:
        for order in (desk.app.jobs.cancel, desk.app.jobs.stop):
            began = time.monotonic()
            with pytest.raises(DatabaseBusy, match=rf"process {handler.pid} \(the shop, idle in transaction, ") as busy:
                await order(claim.job_id)
            assert time.monotonic() - began < 9, "it waited for the lock_timeout of the connection"
            assert (busy.value.sqlstate, "Nothing was written" in str(busy.value)) == ("55P03", True)
    assert (await desk.app.jobs.cancel(claim.job_id)).cancel_requested


@pytest.mark.parametrize("action", ["cancel", "retry"])
async def test_an_order_for_many_jobs_leaves_the_one_that_is_held(desk: Desk, action: str) -> None:
    jobs = [await desk.store.enqueue() for _ in range(5)]
    if action == "retry":
        await desk.store.stop(*jobs)
    async with opened(desk.store.database) as other, other.connection.transaction():
        await other.execute("SELECT 1 FROM {s}.jobs WHERE id = $1 FOR UPDATE", jobs[2])
        order = desk.app.jobs.cancel_many if action == "cancel" else desk.app.jobs.retry_many
        done = await order(jobs)
    assert [job.id for job in done.changed] == [*jobs[:2], *jobs[3:]]
    assert done.refused.keys() == {jobs[2]}
    assert "another transaction holds it: process" in done.refused[jobs[2]]


async def test_cancelling_a_workflow_does_not_wait_for_a_step_that_is_held(desk: Desk) -> None:
    rows = await started(desk.store, plan_of(names=("a", "b", "c")))
    (claim,) = await desk.store.claim(await desk.worker(), rows[1]["job_id"])
    async with guarding(desk, claim):
        view = await desk.app.workflows.cancel(rows[0]["workflow_id"])
    assert view.cancel_requested
    assert await desk.store.states(*(row["job_id"] for row in rows)) == ["cancelled", "running", "cancelled"]
