"""Workflows as people ask about them: pages, filters, sight, and why a step waits."""

from __future__ import annotations

from typing import Any

import pytest

from rowlock import (
    Context,
    InvalidCursor,
    InvalidId,
    InvalidOption,
    JobNotFound,
    Permission,
    Principal,
    Rowlock,
    Workflow,
    WorkflowNotFound,
    WrongState,
    chain,
)
from rowlock.model import ids
from rowlock.model.access import ALL


def task(app: Rowlock, kind: str) -> Any:  # noqa: ANN401 - of any signature
    return app.task(kind)


@pytest.fixture
def kinds(app: Rowlock) -> Rowlock:
    @app.job
    async def first(n: int = 1) -> int:
        return n

    @app.job
    async def second(n: int = 1) -> int:
        return n

    @app.job
    async def ask(ctx: Context, n: int = 1) -> int:
        return int(await ctx.wait_for("answer", timeout="1h")) + n

    return app


async def test_pages_and_filters(kinds: Rowlock) -> None:
    line = chain(task(kinds, "first"), task(kinds, "second"), name="line")
    made = [await line.enqueue() for _ in range(5)]
    other = await chain(task(kinds, "second"), task(kinds, "first"), name="other").enqueue()
    await kinds.workflows.cancel(made[0].id)
    page = await kinds.workflows.list(name="line", limit=2)
    assert [view.id for view in page.items] == [made[4].id, made[3].id]
    assert page.items[0].steps == ()
    assert page.next is not None
    second = await kinds.workflows.list(name="line", limit=2, after=page.next)
    assert [view.id for view in second.items] == [made[2].id, made[1].id]
    last = await kinds.workflows.list(name="line", limit=2, after=second.next)
    assert ([view.id for view in last.items], last.next) == ([made[0].id], None)
    assert [view.id for view in (await kinds.workflows.list(states=["cancelled"])).items] == [made[0].id]
    assert (await kinds.workflows.list(name="nobody")).items == []
    assert (await kinds.workflows.list(limit=1)).items[0].id == other.id
    with pytest.raises(InvalidCursor, match="another search"):
        await kinds.workflows.list(after=page.next)
    with pytest.raises(InvalidOption, match="no state 'done'"):
        await kinds.workflows.list(states=["done"])
    with pytest.raises(InvalidOption, match="limit"):
        await kinds.workflows.list(limit=0)


async def test_ids_of_workflows_are_no_ids_of_jobs(kinds: Rowlock) -> None:
    started = await chain(task(kinds, "first"), task(kinds, "second")).enqueue()
    assert started.public_id.startswith("W-")
    assert (await kinds.workflows.get(started.public_id.lower().replace("-", ""))).id == started.id
    with pytest.raises(InvalidId, match="workflow's"):
        await kinds.jobs.get(started.public_id)
    with pytest.raises(InvalidId):
        await kinds.jobs.get(started.public_id.removeprefix("W-"))
    with pytest.raises(InvalidId, match="not a workflow id"):
        await kinds.workflows.get(ids.encode(started.jobs["first"]))
    with pytest.raises(WorkflowNotFound):
        await kinds.workflows.get(10_000)


async def test_another_tenants_workflow_is_not_there(kinds: Rowlock) -> None:
    started = await chain(task(kinds, "first"), task(kinds, "second")).options(tenant="a").enqueue()
    stranger = kinds.desk(Principal("bo", "b", permissions=ALL - {Permission.READ_ALL}))
    owner = kinds.desk(Principal("ada", "a", permissions=ALL - {Permission.READ_ALL}))
    assert (await owner.workflows.get(started.id)).tenant == "a"
    assert [view.id for view in (await owner.workflows.list()).items] == [started.id]
    assert (await stranger.workflows.list()).items == []
    for call in (
        stranger.workflows.get(started.id),
        stranger.workflows.wait(started.id, timeout=1),
        stranger.workflows.results(started.id, ["first"]),
        stranger.workflows.cancel(started.id),
        stranger.workflows.retry(started.id, "first"),
        stranger.workflows.signal(started.id, "first", "x"),
    ):
        with pytest.raises(WorkflowNotFound):
            await call
    with pytest.raises(JobNotFound):
        await stranger.jobs.signal(started.jobs["first"], "x")
    assert (await kinds.workflows.get(started.id)).cancel_requested is False


async def test_why_a_step_waits(kinds: Rowlock) -> None:
    flow = Workflow("many")
    before = [flow.add(task(kinds, "first").step()) for _ in range(7)]
    flow.add("last", task(kinds, "second").options(gate="g").step(), after=before)
    flow.add("any", task(kinds, "second").step(), after=before[:2], any_of=True, when="finish")
    started = await flow.enqueue()
    told = await kinds.jobs.explain(started.jobs["last"])
    assert told.codes[0] == "waits_for_steps"
    assert "parked" not in told.codes
    text = told.reasons[0].text
    assert started.public_id in text
    assert "'first' (first, queued) to succeed" in text
    assert "and 2 others" in text
    assert told.reasons[0].details["remaining"] == 7
    assert "waits for one of 'first'" in (await kinds.jobs.explain(started.jobs["any"])).reasons[0].text
    await kinds.database().fetch("workflow_cancel", workflow=started.id)
    assert (await kinds.jobs.explain(started.jobs["last"])).codes[0] == "workflow_cancelled"


async def test_why_a_job_waits_for_a_signal(kinds: Rowlock) -> None:
    job = await task(kinds, "ask").enqueue()
    await kinds.run_job(job.id)
    told = await kinds.jobs.explain(job.id)
    assert told.codes[0] == "waits_for_signal"
    assert f"rowlock jobs signal {job.public_id} answer" in told.reasons[0].text
    await kinds.jobs.signal(job.id, "answer", 41, by="ada")
    await kinds.run_job(job.id)
    assert await job.wait(5) == 42
    (entry,) = await kinds.audit.list(action="job.signal")
    assert (entry.target, entry.after, entry.acting_for) == (f"job:{job.public_id}", {"signal": "answer"}, "ada")


async def test_a_chain_goes_on_after_the_dispatch_boundary(kinds: Rowlock) -> None:
    started = await chain(task(kinds, "first"), task(kinds, "second")).enqueue(5)
    with pytest.raises(WrongState, match="only a queued job"):
        await kinds.run_job(started.jobs["second"])
    await kinds.run_job(started.jobs["first"])
    assert (await kinds.jobs.get(started.jobs["second"])).state == "queued"
    await kinds.run_job(started.jobs["second"])
    assert await started.wait(5) == 5
