"""Approvals that meet another approval, a cancel or their deadline: exactly one of the two is accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.factories import several

from rowlock.desk.guard import TRUSTED
from rowlock.model.approval import Approval

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.factories import Store


@pytest.fixture
async def stores(database_url: str) -> AsyncIterator[list[Store]]:
    async with several(database_url, 2) as both:
        yield both


async def asked(store: Store, **more: object) -> int:
    return await store.enqueue("k", approval=Approval(**more).code, submitted_by="eve")  # type: ignore[arg-type]


async def approve(store: Store, job_id: int, by: str) -> list[str | None]:
    """One entry per job judged: None accepted, else why not."""
    rows = await store.fetch("approve", ids=[job_id], principal=False, **TRUSTED.signed("approve", by, None))
    return [row["refused"] for row in rows]


async def acts(store: Store) -> int:
    return int(await store.value("SELECT count(*) FROM {s}.job_acts"))


async def test_of_two_approvers_at_once_one_act_is_accepted(stores: list[Store]) -> None:
    first, second = stores
    job = await asked(first)
    async with first.connection.transaction():
        assert await approve(first, job, "ada") == [None]
        waiting = await first.blocked(second, approve(second, job, "bob"))
    assert await waiting == []
    row = await first.row(job)
    assert (row["state"], row["approvers"], row["fence"], await acts(first)) == ("queued", ["ada"], 1, 1)


async def test_two_of_two_approvers_at_once_both_count(stores: list[Store]) -> None:
    first, second = stores
    job = await asked(first, approvers=2)
    async with first.connection.transaction():
        assert await approve(first, job, "ada") == [None]
        waiting = await first.blocked(second, approve(second, job, "bob"))
    assert await waiting == [None]
    row = await first.row(job)
    assert (row["state"], row["approvers"], row["fence"]) == ("queued", ["ada", "bob"], 1)


async def test_the_same_person_twice_at_once_counts_once(stores: list[Store]) -> None:
    first, second = stores
    job = await asked(first, approvers=2)
    async with first.connection.transaction():
        await approve(first, job, "ada")
        waiting = await first.blocked(second, approve(second, job, "ada"))
    assert await waiting == ["again"]
    assert ((await first.row(job))["state"], await acts(first)) == ("pending", 1)


@pytest.mark.parametrize("winner", ["approve", "cancel"])
async def test_approve_against_cancel(stores: list[Store], winner: str) -> None:
    first, second = stores
    job = await asked(first)
    async with first.connection.transaction():
        if winner == "approve":
            await approve(first, job, "ada")
            waiting = await first.blocked(second, second.cancel_waiting(job))
        else:
            await first.cancel_waiting(job)
            waiting = await first.blocked(second, approve(second, job, "ada"))
    # A queued job can be cancelled as well: the later order ends it. A cancelled one cannot be approved.
    assert await waiting == ([job] if winner == "approve" else [])
    assert (await first.row(job))["state"] == "cancelled"
    assert await acts(first) == (2 if winner == "approve" else 1)


async def unanswered(store: Store) -> list[int]:
    row = await store.one(
        "unanswered", state="expired", error='{"reason": "unanswered"}', channel=store.database.channel
    )
    return list(row["ids"])


async def test_approve_against_expiry(stores: list[Store]) -> None:
    first, second = stores
    job = await asked(first)
    await first.execute("UPDATE {s}.jobs SET answer_by = clock_timestamp() - interval '1 h'")
    async with first.connection.transaction():
        # In time for the one who approves, and too late in the row as the other sees it.
        await first.execute("UPDATE {s}.jobs SET answer_by = clock_timestamp() + interval '1 h'")
        assert await approve(first, job, "ada") == [None]
        assert await unanswered(second) == []
    assert await unanswered(second) == []
    assert (await first.row(job))["state"] == "queued"


async def test_expiry_against_approve(stores: list[Store]) -> None:
    first, second = stores
    job = await asked(first)
    await first.execute("UPDATE {s}.jobs SET answer_by = clock_timestamp() - interval '1 s'")
    async with first.connection.transaction():
        assert await unanswered(first) == [job]
        waiting = await first.blocked(second, approve(second, job, "ada"))
    assert await waiting == []
    assert (await first.row(job))["state"] == "expired"


async def test_a_rule_that_goes_while_a_job_comes(stores: list[Store]) -> None:
    first, second = stores
    rule = await first.one(
        "approval_rule_add",
        kind="k",
        submitted_by=None,
        of_tenant=None,
        args=None,
        args_match="exact",
        note=None,
        by_whom="boss",
    )
    async with first.connection.transaction():
        job = await asked(first)
        assert [row["state"] for row in await first.fetch("auto_approve", ids=[job])] == ["queued"]
        await second.fetch("approval_rule_remove", id=rule["id"])
    assert (await first.row(job))["state"] == "queued"
    later = await asked(first)
    assert await first.fetch("auto_approve", ids=[later]) == []
