"""Jobs that wait for other jobs or for a signal, as operators see them: counted, found, explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.workflow_factory import Flow, S

from rowlock import Count, State

if TYPE_CHECKING:
    from tests.desk.conftest import Desk


@pytest.fixture
async def waiting(desk: Desk) -> dict[str, int]:
    """Steps that wait for others, a job and a step that wait for a signal, one at a gate; some that do not any more."""
    store, worker = desk.store, await desk.worker()
    await desk.lane()
    flow = await Flow.of(store, [("a", "b", S), ("b", "c", S), ("x", "y", S), ("x", "z", S), ("q", "r", S)])
    await store.suspend(await flow.claim("a"), "go")
    plain, over = await store.enqueue(), await store.enqueue()
    for claim in await store.claim(worker, plain, over):
        await store.suspend(claim, "sign")
    await store.signal(over, "sign")
    await flow.end("q")
    await store.cancel_waiting(flow.jobs["z"])
    await store.gate("g", 0)
    parked = await store.enqueue(gate_key="g")
    await store.claim(worker, parked)
    names = ("a", "b", "c", "y")
    return {"plain": plain, "parked": parked} | {name: flow.jobs[name] for name in names}


async def test_everything_that_is_blocked_is_counted_and_found(desk: Desk, waiting: dict[str, int]) -> None:
    assert await desk.store.value("SELECT count(*) FROM {s}.jobs WHERE state = 'blocked'") == len(waiting)
    overview = await desk.app.stats.overview()
    assert overview.states[State.BLOCKED] == Count(len(waiting))
    found = await desk.app.jobs.search("state:blocked")
    assert {job.id for job in found.items} == set(waiting.values())


async def test_what_a_blocked_job_waits_for_is_explained(desk: Desk, waiting: dict[str, int]) -> None:
    for name, code in (("b", "waits_for_steps"), ("y", "waits_for_steps"), ("plain", "waits_for_signal")):
        assert code in await desk.codes(waiting[name]), name
    assert "waits_for_signal" in await desk.codes(waiting["a"])
    assert not {"waits_for_steps", "waits_for_signal"} & {*await desk.codes(waiting["parked"])}


async def test_a_count_of_more_waits_than_are_looked_at_says_so(desk: Desk, waiting: dict[str, int]) -> None:
    await desk.store.execute(
        "INSERT INTO {s}.waits (job_id, remaining) SELECT -n, 1 FROM generate_series(1, 3000) AS n"
    )
    assert (await desk.app.stats.overview()).states[State.BLOCKED] == Count(len(waiting), exact=False)
