"""Workflows in the store: edges, releases, cascades, verdicts, and what is taken back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import ORDER, Store, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.model.job import Claim


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as opened_store:
        yield opened_store


class Flow:
    """A workflow written straight into the store."""

    def __init__(self, store: Store, number: int, worker: int) -> None:
        self.store, self.number, self.worker = store, number, worker
        self.jobs: dict[str, int] = {}

    @classmethod
    async def of(cls, store: Store, edges: list[tuple[str, str, str]], /, **steps: dict[str, Any]) -> Flow:
        number = await store.value("INSERT INTO {s}.workflows (name) VALUES ('f') RETURNING id")
        flow = cls(store, number, await store.worker())
        names = dict.fromkeys([name for up, down, _ in edges for name in (up, down)] + list(steps))
        plan = {
            "steps": [{"name": name, "kind": "k"} | steps.get(name, {}) for name in names],
            "edges": [{"upstream": up, "downstream": down, "needs": needs} for up, down, needs in edges],
        }
        await flow.grow(plan)
        return flow

    async def grow(self, plan: dict[str, Any]) -> None:
        text = "SELECT jsonb_object_agg(name, job_id) FROM {s}.workflow_write($1, $2)"
        self.jobs |= json.loads(await self.store.value(text, self.number, json.dumps(plan)))

    async def claim(self, name: str) -> Claim:
        (claim,) = await self.store.claim(self.worker, self.jobs[name])
        return claim

    async def end(self, name: str, state: str = "completed") -> None:
        assert await self.store.complete(await self.claim(name), state=state)

    async def states(self) -> dict[str, str]:
        rows = await self.store.connection.fetch(
            "SELECT s.name, j.state FROM rowlock.workflow_steps s JOIN rowlock.jobs j ON j.id = s.job_id"
            " WHERE s.workflow_id = $1",
            self.number,
        )
        return {row["name"]: row["state"] for row in rows}

    async def state(self) -> str:
        return str(await self.store.value("SELECT state FROM {s}.workflows WHERE id = $1", self.number))


S, F, X, T = "success", "finish", "failure", "strict"


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
