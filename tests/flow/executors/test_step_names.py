"""A handler sees which workflow and step it is, in every executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.flow.executors import jobs

from rowlock import Workflow
from rowlock.model import ids
from rowlock.testing import stub_context

if TYPE_CHECKING:
    from rowlock import Rowlock

NAMED: tuple[Any, ...] = (jobs.loop_named, jobs.thread_named, jobs.process_named, jobs.process_named_async)


async def test_a_step_knows_its_workflow_and_its_name(app: Rowlock) -> None:
    flow = Workflow("names")
    for n, task in enumerate(NAMED):
        flow.add(f"step {n}", task.step())
    started = await flow.enqueue()
    async with app.worker():
        results = await started.wait(timeout=60)
    number = (await started.workflow()).id
    expected = {f"step {n}": [number, ids.encode_workflow(number), f"step {n}"] for n in range(len(NAMED))}
    assert results == expected


FOLLOWS: tuple[Any, ...] = (jobs.loop_follows, jobs.thread_follows, jobs.process_follows, jobs.process_follows_async)


async def test_a_step_names_its_siblings_which_wait_for_what_it_adds(app: Rowlock) -> None:
    """ctx.workflow reaches steps that the handler did not add, by their names, before and behind the new one."""
    flow = Workflow("siblings")
    first = flow.add("first", jobs.neighbour.step(0))
    adding = [flow.add(f"step {n}", task.step()) for n, task in enumerate(FOLLOWS)]
    flow.add("last", jobs.neighbour.step(9), after=[first, *adding])
    started = await flow.enqueue()
    async with app.worker():
        await started.wait(timeout=60)
    view = await started.workflow()
    added = {f"after step {n}" for n in range(len(FOLLOWS))}
    edges = {(edge.upstream, edge.downstream) for edge in view.edges}
    assert {step.name for step in view.steps if step.state == "completed"} >= {"first", "last", *added}
    assert edges >= {("first", name) for name in added} | {(name, "last") for name in added}


async def test_a_job_of_no_workflow_has_neither(app: Rowlock) -> None:
    handles = [await task.enqueue() for task in NAMED]
    async with app.worker():
        assert [await handle.wait(timeout=60) for handle in handles] == [[None, None, None]] * len(NAMED)


def test_a_stub_can_be_a_step() -> None:
    job = stub_context(workflow_id=7, step="render").job
    assert (job.workflow_id, job.workflow, job.step) == (7, ids.encode_workflow(7), "render")
