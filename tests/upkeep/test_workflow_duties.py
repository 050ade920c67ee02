"""The duties of workflows and signals, as the duty runner runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.workflow_factory import Flow, S

if TYPE_CHECKING:
    from tests.upkeep.duty_running import Desk

    from rowlock.model.queue_pair import Pair


@pytest.fixture
def woken(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> list[Pair]:
    """The pairs workers are told of."""
    told: list[Pair] = []
    waker = desk.runner._context.waker
    monkeypatch.setattr(waker, "wake", lambda pairs: told.extend(pair for pair, _ in pairs))
    return told


async def test_ends_that_nobody_followed_are_followed(desk: Desk, woken: list[Pair]) -> None:
    flow = await Flow.of(desk.store, [("a", "b", S)])
    await desk.store.execute(
        "UPDATE {s}.jobs SET state = 'completed', finished_at = now() WHERE id = $1", flow.jobs["a"]
    )
    assert await desk.run("workflows") == 1
    assert (await flow.states())["b"] == "queued"
    assert woken == [("k", 0, 0)]
    assert await desk.run("workflows") == 0


async def test_a_cancel_whose_process_is_gone_is_finished(desk: Desk, woken: list[Pair]) -> None:
    undo = {"kind": "u", "priority": 3}
    flow = await Flow.of(desk.store, [("a", "b", S), ("a", "r", S), ("b", "c", S)], a={"undo": undo})
    await flow.end("a")
    claim = await flow.claim("r")
    await desk.store.one("workflow_cancel", workflow=flow.number)
    assert await desk.run("workflows") == 3
    states = await flow.states()
    assert (states["b"], states["c"], states["r"]) == ("cancelled", "cancelled", "running")
    assert (await desk.store.row(flow.jobs["r"]))["cancel_requested"]
    assert woken == []
    await desk.store.give_back(claim)
    assert (await flow.states())["undo a"] == "queued"
    assert await flow.state() == "compensating"
    assert await desk.run("workflows") == 0


async def test_what_a_cancel_takes_back_wakes_workers(desk: Desk, woken: list[Pair]) -> None:
    flow = await Flow.of(desk.store, [("a", "b", S)], a={"undo": {"kind": "u", "priority": 3}})
    await flow.end("a")
    await desk.store.one("workflow_cancel", workflow=flow.number)
    assert await desk.run("workflows") == 1
    assert woken == [("u", 3, 0)]


async def test_who_waited_for_a_signal_long_enough_goes_on(desk: Desk, woken: list[Pair]) -> None:
    store, worker = desk.store, await desk.store.worker()
    late, patient = [await store.enqueue() for _ in range(2)]
    for job, seconds in ((late, 0.0), (patient, 3600.0)):
        (claim,) = await store.claim(worker, job)
        await store.suspend(claim, "go", seconds)
    assert await desk.run("signals") == 1
    assert await store.states(late, patient) == ["queued", "blocked"]
    assert woken == [("k", 0, 0)]
    assert await desk.run("signals") == 0


async def test_a_step_whose_row_somebody_deleted_counts_as_cancelled(desk: Desk) -> None:
    flow = await Flow.of(desk.store, [("a", "b", S), ("x", "y", S)], x={"undo": {"kind": "u"}})
    await flow.end("x")
    await desk.store.execute("DELETE FROM {s}.jobs WHERE id = $1", flow.jobs["a"])
    assert await desk.run("workflows") == 1
    assert (await flow.states())["b"] == "cancelled"
    await flow.end("y")
    # Nobody knows what it did, so the workflow did not succeed: the others are taken back.
    assert await flow.state() == "compensating"
    assert await desk.store.value("SELECT verdict FROM {s}.workflows") == "cancelled"


async def test_a_step_that_is_deleted_when_all_is_over_counts_as_what_it_was(desk: Desk) -> None:
    flow = await Flow.of(desk.store, [("a", "b", S)], a={"undo": {"kind": "u"}})
    await flow.end("a")
    await flow.end("b")
    await desk.store.execute("DELETE FROM {s}.jobs WHERE id = $1", flow.jobs["a"])
    again = {"workflow": flow.number, "step": "b", "by_whom": None, "note": None}
    assert (await desk.store.fetch("workflow_retry", **again))[0]["what"] == "retried"
    await flow.end("b")
    assert await flow.state() == "completed"
