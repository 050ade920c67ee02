"""What takes a step back: a whole job, which cannot fail where the jobs of others end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.factories import Store, opened
from tests.workflow_factory import Flow, S, added, plan_of, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as opened_store:
        yield opened_store


BAD: dict[str, tuple[Any, str]] = {
    "no kind": ({}, "What takes step a back needs a kind"),
    "a long kind": ({"kind": "k" * 201}, "needs a kind of 1 to 200"),
    "a high priority": ({"kind": "k", "priority": 101}, "has a priority from -100 to 100"),
    "no attempts": ({"kind": "k", "max_attempts": 0}, "has at least one attempt"),
    "no object": ("k", "must be an object"),
    "a long gate": ({"kind": "k", "gate_key": "g" * 1001}, "at most 1000 bytes"),
    "a long tag": ({"kind": "k", "tags": ["t", "t" * 1001]}, "at most 1000 bytes"),
    "a long ref": ({"kind": "k", "refs": {"project": "p" * 1001}}, "at most 1000 bytes"),
    "a list of refs": ({"kind": "k", "refs": [1]}, "has refs by name"),
    "no number": ({"kind": "k", "priority": "high"}, "smallint"),
    "no time": ({"kind": "k", "delay": "soon"}, "interval"),
}


@pytest.mark.parametrize("what", BAD)
async def test_an_undo_that_could_not_be_written_later_is_refused_with_its_plan(store: Store, what: str) -> None:
    undo, why = BAD[what]
    plan = {"steps": [{"name": "b", "kind": "k", "undo": {"kind": "k"}}, {"name": "a", "kind": "k", "undo": undo}]}
    with pytest.raises(asyncpg.PostgresError, match=why):
        await started(store, plan | {"edges": []})
    assert await store.value("SELECT count(*) FROM {s}.jobs") == 0
    assert await store.value("SELECT count(*) FROM {s}.workflows") == 0


UNDO = {"kind": "k"}


@pytest.mark.parametrize(
    ("there", "more"),
    [
        ([], [{"name": "undo x"}, {"name": "x", "undo": UNDO}]),
        ([{"name": "x", "undo": UNDO}], [{"name": "undo x"}]),
        ([{"name": "undo x"}], [{"name": "x", "undo": UNDO}]),
    ],
)
async def test_the_name_of_what_takes_a_step_back_is_its_own(
    store: Store, there: list[dict[str, Any]], more: list[dict[str, Any]]
) -> None:
    flow = await Flow.of(store, [], **{step["name"]: step for step in [{"name": "y"}, *there]})
    with pytest.raises(asyncpg.CheckViolationError, match="undo <step>"):
        await flow.grow({"steps": [{"kind": "k", **step} for step in more], "edges": []})
    assert await store.value("SELECT count(*) FROM {s}.workflow_steps") == 1 + len(there)


async def test_a_step_that_grows_a_workflow_is_told_that_a_name_is_kept(store: Store) -> None:
    flow = await Flow.of(store, [], x={"undo": UNDO}, y={})
    (row,) = await added(store, plan_of(names=("undo x",)), claim=await flow.claim("y"))
    assert (row["what"], row["name"]) == ("reserved", "undo x")
    assert whether_free(await added(store, plan_of(names=("undo y",)), workflow=flow.number))


def whether_free(rows: list[Any]) -> bool:
    return [row["what"] for row in rows] == ["created"]


WHOLE = {
    "kind": "u",
    "args": {"what": {"$output": "a"}},
    "priority": 7,
    "share": 3,
    "max_attempts": 2,
    "gate_key": "g",
    "tags": ["blue"],
    "refs": {"project": 7},
    "meta": {"trace": "abc"},
    "delay": "1 h",
    "expires_in": "1 d",
    "max_age": "2 d",
    "rate_keys": ["r"],
    "rate_weight": 3,
}


async def test_an_undo_step_has_all_that_was_said_of_it(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)], a={"undo": WHOLE})
    await flow.end("a")
    await flow.end("b", "failed")
    row = await store.row(await store.value("SELECT job_id FROM {s}.workflow_steps WHERE undoes = 'a'"))
    for name in ("kind", "priority", "share", "max_attempts", "gate_key", "tags", "rate_keys", "rate_weight"):
        assert row[name] == WHOLE[name], name
    assert [json.loads(row[name]) for name in ("args", "refs", "meta")] == [WHOLE[x] for x in ("args", "refs", "meta")]
    waits = row["run_after"] - row["created_at"], row["expires_at"] - row["run_after"], row["too_old_at"]
    assert row["state"] == "queued"
    assert [round(span.total_seconds() / 3600) for span in waits[:2]] == [1, 24]
    assert waits[2] is not None
    assert await store.value("SELECT count(*) FROM {s}.job_refs WHERE job_id = $1", row["id"]) == 2


async def test_an_undo_step_may_ask_for_approval(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)], a={"undo": {"kind": "k", "approval": 1, "answer_in": "1 h"}})
    await flow.end("a")
    await flow.end("b", "failed")
    assert (await flow.states())["undo a"] == "pending"
    number = await store.value("SELECT job_id FROM {s}.workflow_steps WHERE undoes = 'a'")
    assert (await store.row(number))["answer_by"] is not None
    await store.reject(number)
    assert await flow.state() == "failed"


async def test_a_name_that_is_taken_all_the_same_does_not_stop_an_undo(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)], a={"undo": UNDO}, c={})
    await store.execute("UPDATE {s}.workflow_steps SET name = 'undo a' WHERE name = 'c'")
    for name, state in (("a", "completed"), ("c", "completed"), ("b", "failed")):
        await flow.end(name, state)
    name, number = await store.connection.fetchrow(  # type: ignore[misc]  # a row
        "SELECT name, job_id FROM rowlock.workflow_steps WHERE undoes = 'a'"
    )
    assert (name, await flow.state()) == (f"undo a {number}", "compensating")


async def test_an_undo_that_cannot_be_written_fails_nobody_elses_job(store: Store) -> None:
    flow = await Flow.of(store, [("a", "b", S)], a={"undo": UNDO}, other={"undo": UNDO})
    await flow.end("a")
    await flow.end("other")
    await store.execute("UPDATE {s}.workflow_steps SET undo = '{}' WHERE name = 'a'")
    claims = [*await store.claim(flow.worker, await store.enqueue()), await flow.claim("b")]
    assert len(await store.complete(*sorted(claims), state="failed")) == 2
    assert await flow.state() == "failed"
    assert "null value" in await store.value("SELECT undo_error FROM {s}.workflows")
    assert await store.value("SELECT count(*) FROM {s}.workflow_steps WHERE undoes IS NOT NULL") == 0


@pytest.mark.parametrize(("code", "state"), [(1, "queued"), (1 | 2 << 3, "pending")])
async def test_a_rule_approves_a_step_when_its_turn_comes(store: Store, code: int, state: str) -> None:
    await store.execute("INSERT INTO {s}.approval_rules (kind, created_by, note) VALUES ('k', 'ada', 'fine')")
    flow = await Flow.of(store, [("a", "b", S), ("b", "c", S)], b={"approval": code})
    (claim,) = [await flow.claim("a")]
    row = await store.one("complete_plain", channel="c", ids=[claim.job_id], fences=[claim.fence])
    assert (await flow.states())["b"] == state
    # Whoever waits for the released is told of it.
    told = [line[0] for line in json.loads(row["released"] or "[]")]
    assert told == ([flow.jobs["b"]] if state == "queued" else [])
    act = "SELECT verb || ' ' || by_whom || ' ' || note FROM {s}.job_acts WHERE job_id = $1"
    assert await store.value(act, flow.jobs["b"]) == "approve ada rule 1: fine"
    assert (await store.row(flow.jobs["b"]))["approvers"] == ["ada"]
