"""Workflows in the store: edges, releases, cascades, verdicts, and what is taken back."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.factories import ORDER, Store, opened, several
from tests.workflow_factory import F, Flow, S, T, X, added, plan_of, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as opened_store:
        yield opened_store


async def test_a_step_is_released_by_the_end_of_the_last_one_it_waits_for(store: Store) -> None:
    flow = await Flow.of(store, [("a", "c", S), ("b", "c", S)])
    assert await flow.states() == {"a": "queued", "b": "queued", "c": "blocked"}
    await flow.end("a")
    assert (await flow.states())["c"] == "blocked"
    await flow.end("b")
    assert (await flow.states())["c"] == "queued"
    await flow.end("c")
    assert await flow.state() == "completed"


@pytest.mark.parametrize(
    ("needs", "state", "becomes"),
    [
        (S, "completed", "queued"),
        (S, "completed_with_errors", "queued"),
        (S, "failed", "cancelled"),
        (T, "completed_with_errors", "cancelled"),
        (T, "completed", "queued"),
        (F, "failed", "queued"),
        (F, "completed", "queued"),
        (X, "failed", "queued"),
        (X, "completed", "cancelled"),
    ],
)
async def test_an_edge_is_met_as_it_says(store: Store, needs: str, state: str, becomes: str) -> None:
    flow = await Flow.of(store, [("a", "b", needs)])
    await flow.end("a", state)
    assert (await flow.states())["b"] == becomes


async def test_a_failure_cancels_everything_behind_it(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S), ("b", "c", S), ("c", "d", S), ("c", "after", F)])
    await flow.end("a", "failed")
    assert await flow.states() == {
        "a": "failed",
        "b": "cancelled",
        "c": "cancelled",
        "d": "cancelled",
        "after": "queued",
    }
    assert await flow.state() == "running"
    await flow.end("after")
    assert await flow.state() == "failed"


async def test_what_completed_is_undone_in_reverse(store: Store) -> None:
    undo = {"kind": "k", "args": {}}
    flow = await Flow.of(store, [("a", "b", S), ("b", "c", S)], a={"undo": undo}, b={"undo": undo}, c={"undo": undo})
    await flow.end("a")
    await flow.end("b")
    await flow.end("c", "failed")
    states = await flow.states()
    assert (states["undo b"], states["undo a"]) == ("queued", "blocked")
    assert await flow.state() == "compensating"
    for name, then in (("undo b", "compensating"), ("undo a", "failed")):
        flow.jobs[name] = await store.value("SELECT job_id FROM {s}.workflow_steps WHERE name = $1", name)
        await flow.end(name)
        assert await flow.state() == then


async def test_a_cancelled_waiting_step_is_an_end_too(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", F)])
    row = await store.one(
        "cancel_waiting", ids=[flow.jobs["a"]], state="cancelled", error=None, channel=store.database.channel, **ORDER
    )
    assert [line[0] for line in json.loads(row["released"])] == [flow.jobs["b"]]
    await flow.end("b")
    assert await flow.state() == "cancelled"


def whats(rows: list[Any]) -> dict[str, str]:
    return {row["name"]: row["what"] for row in rows}


async def repaired(store: Store) -> list[int]:
    row = await store.one("workflow_repair", flows=200, steps=500, channel=store.database.channel)
    return list(row["ids"] or ())


async def halted(store: Store, workflow: int) -> list[int]:
    error = '{"reason": "workflow cancelled"}'
    row = await store.one(
        "workflow_halt", workflow=workflow, state="cancelled", error=error, channel=store.database.channel
    )
    return list(row["ids"])


async def retried(store: Store, workflow: int, step: str) -> list[Any]:
    return await store.fetch("workflow_retry", workflow=workflow, step=step, by_whom="ada", note="again")


async def flow_of(store: Store, rows: list[Any]) -> Flow:
    flow = Flow(store, rows[0]["workflow_id"], await store.worker())
    flow.jobs = {row["name"]: row["job_id"] for row in rows}
    return flow


# --- writing ---------------------------------------------------------------------------------------------------------


async def test_a_start_writes_its_plan_or_keeps_the_live_one_of_its_key(store: Store) -> None:
    first = await started(store, plan_of(("a", "b", S)), unique_key="org:7")
    assert [(row["name"], row["what"], row["state"]) for row in first] == [
        ("a", "created", "queued"),
        ("b", "created", "blocked"),
    ]
    again = await started(store, plan_of(names=("x",)), unique_key="org:7")
    assert [(row["job_id"], row["what"]) for row in again] == [(row["job_id"], "kept") for row in first]
    flow = await flow_of(store, first)
    await flow.end("a")
    await flow.end("b")
    (other,) = await started(store, plan_of(names=("x",)), unique_key="org:7")
    assert other["what"] == "created"
    assert (await store.row(other["job_id"]))["tenant"] == "acme"


@pytest.mark.parametrize(
    "plan",
    [
        plan_of(("a", "b", S)) | {"steps": [{"name": "a", "kind": "k"}]},
        {"steps": [{"name": "a", "kind": "k"}] * 2, "edges": []},
        {"steps": [], "edges": []},
        {"steps": [{"name": "a", "kind": "k", "undo": {"kind": "k", "priority": "high"}}], "edges": []},
        {"steps": [{"name": "a"}], "edges": []},
    ],
    ids=["unknown step", "one name twice", "nothing", "an undo that cannot be", "no kind"],
)
async def test_a_plan_that_cannot_be_is_refused_as_a_whole(store: Store, plan: dict[str, Any]) -> None:
    with pytest.raises(asyncpg.PostgresError):
        await started(store, plan)
    assert await store.value("SELECT count(*) FROM {s}.jobs") == 0
    assert await store.value("SELECT count(*) FROM {s}.workflows") == 0


async def test_a_plain_job_becomes_the_first_step_of_what_follows_it(store: Store) -> None:
    job = await store.enqueue()
    rows = await added(store, plan_of(("k", "next", S)) | {"steps": [{"name": "next", "kind": "k"}]}, job=job)
    assert whats(rows) == {"next": "created"}
    flow = await flow_of(store, rows)
    flow.jobs["k"] = job
    await flow.end("k")
    assert (await flow.states())["next"] == "queued"
    await flow.end("next")
    assert await flow.state() == "completed"


@pytest.mark.parametrize(("state", "becomes"), [("completed", "queued"), ("failed", "cancelled")])
async def test_what_follows_a_job_that_has_ended_is_judged_at_once(store: Store, state: str, becomes: str) -> None:
    job, worker = await store.enqueue(), await store.worker()
    await store.complete(*await store.claim(worker, job), state=state)
    (row,) = await added(store, plan_of(("k", "n", S)) | {"steps": [{"name": "n", "kind": "k"}]}, job=job)
    assert (row["what"], row["state"]) == ("created", becomes)


async def test_a_running_step_adds_children_that_others_wait_for(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)])
    claim = await flow.claim("a")
    children = plan_of(("c1", "c2", S), names=("c3",), joins=True)
    assert whats(await added(store, children, claim=claim)) == dict.fromkeys(("c1", "c2", "c3"), "created")
    rows = await added(store, children, claim=claim)
    assert whats(rows) == dict.fromkeys(("c1", "c2", "c3"), "kept")
    flow.jobs |= {row["name"]: row["job_id"] for row in rows}
    await store.complete(claim)
    await flow.end("c3")
    await flow.end("c1")
    assert (await flow.states())["b"] == "blocked"
    await flow.end("c2")
    assert (await flow.states())["b"] == "queued"


async def test_what_cannot_be_added_says_why(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)])
    claim = await flow.claim("a")
    stale = claim._replace(fence=claim.fence - 1)
    assert [row["what"] for row in await added(store, plan_of(names=("c",)), claim=stale)] == ["lost"]
    (unknown,) = await added(store, plan_of(("nobody", "c", S)) | {"steps": [{"name": "c", "kind": "k"}]}, claim=claim)
    assert (unknown["what"], unknown["name"]) == ("unknown", "nobody")
    late = plan_of(("c", "a", S)) | {"steps": [{"name": "c", "kind": "k"}]}
    (row,) = await added(store, late, claim=claim)
    assert (row["what"], row["name"]) == ("late", "a")
    with pytest.raises(asyncpg.CheckViolationError, match="would wait for itself"):
        await added(store, plan_of(("b", "c", S), ("c", "b", S)) | {"steps": [{"name": "c", "kind": "k"}]}, claim=claim)
    await store.one("workflow_cancel", workflow=flow.number)
    assert [row["what"] for row in await added(store, plan_of(names=("c",)), claim=claim)] == ["cancelled"]
    assert await store.value("SELECT total FROM {s}.workflows WHERE id = $1", flow.number) == 2
    await halted(store, flow.number)
    await store.complete(claim)
    rows = await added(store, plan_of(names=("c",)), workflow=flow.number)
    assert [row["what"] for row in rows] == ["cancelled"]
    done = await Flow.of(store, [], x={})
    await done.end("x")
    assert [row["what"] for row in await added(store, plan_of(names=("c",)), workflow=done.number)] == ["finished"]


# --- cancel and retry ------------------------------------------------------------------------------------------------


async def test_a_cancelled_workflow_leaves_nothing_running(store: Store) -> None:
    undo = {"kind": "k"}
    flow = await Flow.of(store, [("a", "b", S), ("a", "r", S), ("b", "c", S)], a={"undo": undo}, r={"undo": undo})
    await flow.end("a")
    claim = await flow.claim("r")
    assert (await store.one("workflow_cancel", workflow=flow.number))["asked"]
    assert set(await halted(store, flow.number)) == {flow.jobs["b"], flow.jobs["c"], flow.jobs["r"]}
    assert await halted(store, flow.number) == []
    assert (await flow.states())["c"] == "cancelled"
    assert (await store.row(flow.jobs["r"]))["cancel_requested"]
    await store.give_back(claim)
    # What had completed is taken back, though the workflow is cancelled.
    assert await flow.state() == "compensating"
    flow.jobs["undo a"] = await store.value("SELECT job_id FROM {s}.workflow_steps WHERE name = 'undo a'")
    await flow.end("undo a")
    assert await flow.state() == "cancelled"


async def test_several_steps_of_a_cancelled_workflow_are_taken_back(store: Store) -> None:
    undo = {"kind": "k"}
    flow = await Flow.of(store, [("a", "b", S), ("b", "c", S)], a={"undo": undo}, b={"undo": undo})
    await flow.end("a")
    await flow.end("b")
    await store.one("workflow_cancel", workflow=flow.number)
    await halted(store, flow.number)
    for name in ("undo b", "undo a"):
        flow.jobs[name] = await store.value("SELECT job_id FROM {s}.workflow_steps WHERE name = $1", name)
        await flow.end(name)
    assert await flow.state() == "cancelled"


async def test_upkeep_finishes_the_cancel_of_somebody_who_died(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)])
    await store.one("workflow_cancel", workflow=flow.number)
    assert [row["id"] for row in await store.fetch("workflows_cancelling")] == [flow.number]
    await halted(store, flow.number)
    assert await flow.states() == {"a": "cancelled", "b": "cancelled"}
    assert await store.fetch("workflows_cancelling") == []
    assert await flow.state() == "cancelled"


async def test_a_retry_runs_a_step_and_everything_behind_it_again(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S), ("x", "d", S), ("b", "c", S), ("c", "d", S)])
    for name, state in (("a", "completed"), ("x", "completed"), ("b", "failed")):
        await flow.end(name, state)
    assert await flow.state() == "failed"
    rows = await retried(store, flow.number, "b")
    assert {row["name"]: row["state"] for row in rows} == {"b": "queued", "c": "blocked", "d": "blocked"}
    assert await flow.state() == "running"
    assert await store.value("SELECT count(*) FROM {s}.job_attempts WHERE job_id = $1", flow.jobs["b"]) == 1
    for name in ("b", "c", "d"):
        await flow.end(name)
    assert await flow.state() == "completed"
    assert set((await flow.states()).values()) == {"completed"}


async def test_a_retry_that_cannot_be_says_why(store: Store) -> None:
    flow = await flow_of(store, await started(store, plan_of(("a", "b", F)), unique_key="u"))
    assert [(row["what"], row["name"]) for row in await retried(store, flow.number, "a")] == [("waiting", "a")]
    assert [row["what"] for row in await retried(store, flow.number, "nobody")] == ["unknown"]
    assert [row["what"] for row in await retried(store, 0, "a")] == ["missing"]
    await flow.end("a", "failed")
    assert [(row["what"], row["name"]) for row in await retried(store, flow.number, "a")] == [("live", "b")]
    await flow.end("b")
    await started(store, plan_of(names=("x",)), unique_key="u")
    assert [row["what"] for row in await retried(store, flow.number, "a")] == ["taken"]
    undone = await Flow.of(store, [("a", "b", S)], a={"undo": {"kind": "k"}})
    await undone.end("a")
    await undone.end("b", "failed")
    assert [row["what"] for row in await retried(store, undone.number, "b")] == ["compensated"]


async def test_a_persons_retry_of_a_job_leaves_steps_to_their_workflow(store: Store) -> None:
    flow = await Flow.of(store, [], a={})
    await flow.end("a", "failed")
    assert await store.retry(flow.jobs["a"]) == []


# --- repair ----------------------------------------------------------------------------------------------------------


async def test_ends_that_older_code_wrote_are_followed_by_upkeep(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)])
    finished = "UPDATE {s}.jobs SET state = 'completed', finished_at = now(), fence = fence + 1 WHERE id = $1"
    await store.execute(finished, flow.jobs["a"])
    assert await repaired(store) == [flow.jobs["a"]]
    assert (await flow.states())["b"] == "queued"
    assert await repaired(store) == []
    await store.execute(finished, flow.jobs["b"])
    await repaired(store)
    assert await flow.state() == "completed"


async def test_a_release_that_passed_over_a_held_row_is_made_good(database_url: str) -> None:
    async with several(database_url, 2) as (store, other):
        flow = await Flow.of(store, [("a", "b", S), ("x", "c", S)])
        async with other.connection.transaction():
            await other.value(
                "SELECT count(*) FROM (SELECT 1 FROM {s}.jobs WHERE id = ANY ($1) FOR UPDATE) AS held",
                [flow.jobs["b"], flow.jobs["c"]],
            )
            await flow.end("a")
            await flow.end("x", "failed")
            assert (await flow.states())["b"] == "blocked"
        assert sorted(await repaired(store)) == [flow.jobs["b"], flow.jobs["c"]]
        states = await flow.states()
        assert (states["b"], states["c"]) == ("queued", "cancelled")
        assert await repaired(store) == []


# --- signals ---------------------------------------------------------------------------------------------------------


async def test_a_signal_releases_who_waits_for_it(store: Store) -> None:
    job, worker = await store.enqueue(), await store.worker()
    (claim,) = await store.claim(worker, job)
    assert (await store.suspend(claim, "go"))["resumed"] is None
    row = await store.row(job)
    assert (row["state"], row["attempt"]) == ("blocked", 0)
    assert (await store.signal(job, "other"))["released"] is None
    sent = await store.signal(job, "go", '{"a": 1}', "ada")
    assert (sent["what"], sent["state"]) == ("sent", "queued")
    assert (await store.signal(job, "go"))["what"] == "kept"
    (again,) = await store.claim(worker, job)
    found = await store.one("signal_of", id=job, fence=again.fence, name="go")
    assert json.loads(found["signal"]) == {"payload": {"a": 1}, "timed_out": False}
    assert await store.fetch("signal_of", id=job, fence=claim.fence, name="go") == []
    await store.complete(again)
    assert (await store.signal(job, "late"))["what"] == "final"
    assert (await store.signal(0, "late"))["what"] == "missing"


async def test_a_signal_may_come_before_anybody_waits(store: Store) -> None:
    job, worker = await store.enqueue(), await store.worker()
    await store.signal(job, "go")
    (claim,) = await store.claim(worker, job)
    row = await store.suspend(claim, "go")
    assert [line[0] for line in json.loads(row["resumed"])] == [job]
    assert (await store.row(job))["state"] == "queued"
    assert await store.settled(worker, claim)


async def test_a_wait_ends_when_its_time_is_over(store: Store) -> None:
    job, worker = await store.enqueue(expires_in=timedelta(hours=1)), await store.worker()
    (claim,) = await store.claim(worker, job)
    await store.suspend(claim, "go", 0.0)
    row = await store.one("signals_overdue", batch=10)
    assert row["ids"] == [job]
    (again,) = await store.claim(worker, job)
    found = await store.one("signal_of", id=job, fence=again.fence, name="go")
    assert json.loads(found["signal"])["timed_out"]
    assert (await store.signal(job, "go"))["timed_out"]
    await store.complete(again, state="failed")
    await store.retry(job)
    assert (await store.signal(job, "go"))["what"] == "sent"


async def test_a_job_that_was_retried_and_parked_is_told_of_no_timeout(store: Store) -> None:
    other, job = [await store.enqueue(gate_key="g") for _ in range(2)]
    worker = await store.worker()
    (before,) = await store.claim(worker, other)
    await store.complete(before)
    (claim,) = await store.claim(worker, job)
    await store.suspend(claim, "go", 0.0)
    await store.cancel_waiting(job)
    await store.retry(job, other)
    assert await store.claim(worker, other)
    assert await store.claim(worker, job) == []  # the gate is full: parked, and nothing else
    assert not (await store.one("signals_overdue", batch=10))["ids"]
    assert await store.value("SELECT count(*) FROM {s}.signals") == 0
    assert await store.value("SELECT count(*) FROM {s}.waits") == 0  # so the duty is not due for it again


async def test_a_cancel_that_was_asked_for_wins_over_a_wait(store: Store) -> None:
    job, worker = await store.enqueue(), await store.worker()
    (claim,) = await store.claim(worker, job)
    await store.cancel_running(job)
    await store.suspend(claim, "go")
    assert (await store.row(job))["state"] == "cancelled"
    assert await store.value("SELECT count(*) FROM {s}.waits") == 0


async def test_a_step_that_waits_for_a_signal_stays_in_its_workflow(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S), ("b", "c", S)], b={"delay": "1 h"})
    await flow.end("a")
    await store.execute("UPDATE {s}.jobs SET run_after = now() WHERE id = $1", flow.jobs["b"])
    await store.suspend(await flow.claim("b"), "go")
    assert await repaired(store) == []
    assert (await flow.states())["b"] == "blocked"
    await store.signal(flow.jobs["b"], "go")
    # Its delay was for the first release.
    await flow.end("b")
    assert (await flow.states())["c"] == "queued"


# --- approval, deletion, retention -----------------------------------------------------------------------------------


async def test_a_step_asks_for_approval_when_its_turn_comes(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)], b={"approval": 1, "answer_in": "1 h"})
    assert (await store.row(flow.jobs["b"]))["answer_by"] is None
    await store.edit(flow.jobs["b"], args='{"x": 1}')
    assert (await flow.states())["b"] == "blocked"
    await flow.end("a")
    assert (await flow.states())["b"] == "pending"
    assert (await store.row(flow.jobs["b"]))["answer_by"] is not None
    await store.approve(flow.jobs["b"])
    await flow.end("b")
    assert await flow.state() == "completed"


async def test_a_step_stays_while_its_workflow_goes_on(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)])
    await flow.end("a")
    assert await store.fetch("delete_job", id=flow.jobs["a"], **ORDER) == []
    await store.execute("UPDATE {s}.jobs SET finished_at = now() - interval '30 days' WHERE id = $1", flow.jobs["a"])
    assert (await store.one("prune", kind="*", state="*", batch=100))["pruned"] == 0
    await flow.end("b")
    assert len(await store.fetch("delete_job", id=flow.jobs["a"], **ORDER)) == 1


async def test_a_workflow_is_pruned_whole(store: Store) -> None:
    flow, live = await Flow.of(store, [("a", "b", S)]), await Flow.of(store, [("a", "b", S)])
    for one in (flow, live):
        await one.end("a")
    await flow.end("b")
    await store.signal(live.jobs["b"], "s")
    old = "UPDATE {s}.%s SET finished_at = now() - interval '8 days' WHERE finished_at IS NOT NULL"
    await store.execute(old % "jobs")
    assert (await store.one("prune_workflows", batch=100, careful=False))["workflows"] == 0
    await store.execute(old % "workflows")
    await store.fetch("set_retention", kinds=["k"], states=["completed"], keeps=[timedelta(days=30)])
    assert [row["id"] for row in await store.fetch("judge_workflows")] == [flow.number]
    assert await store.fetch("judge_workflows") == []
    assert (await store.one("prune_workflows", batch=100, careful=False))["workflows"] == 0
    await store.execute(
        "UPDATE {s}.workflows SET finished_at = now() - interval '31 days', kept_until = NULL"
        " WHERE finished_at IS NOT NULL"
    )
    assert await store.fetch("judge_workflows") == []
    row = await store.one("prune_workflows", batch=100, careful=False)
    assert (row["workflows"], row["pruned"]) == (1, 2)
    for table, left in (
        ("workflows", 1),
        ("workflow_steps", 2),
        ("edges", 1),
        ("waits", 1),
        ("jobs", 2),
        ("signals", 1),
    ):
        assert await store.value(f"SELECT count(*) FROM {{s}}.{table}") == left, table


async def test_outputs_are_read_by_name(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)])
    claim = await flow.claim("a")
    await store.one(
        "complete",
        channel=store.database.channel,
        ids=[claim.job_id],
        fences=[claim.fence],
        states=["completed"],
        results=['{"n": 7}'],
        errors=[None],
    )
    rows = await store.fetch("outputs", id=flow.jobs["b"], names=["a", "b", "nobody"])
    assert {row["name"]: row["result"] for row in rows} == {"a": '{"n": 7}', "b": None}
