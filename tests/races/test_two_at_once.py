"""Two transactions on one job, staged: one holds its row, the other waits for it, then the first commits."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.factories import Store, opened, several
from tests.waiting import in_time

from rowlock.flow.claim.claimer import arguments
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def pair(database_url: str) -> AsyncIterator[list[Store]]:
    async with several(database_url, 2) as stores:
        yield stores


@contextlib.asynccontextmanager
async def holding(store: Store) -> AsyncIterator[None]:
    """An open transaction, committed at the end."""
    async with store.connection.transaction():
        yield


async def test_claim_and_claim_never_take_one_job_and_never_wait(pair: list[Store]) -> None:
    one, two = pair
    worker = await one.worker()
    jobs = [await one.enqueue() for _ in range(6)]
    async with holding(one):
        first = [row["id"] for row in await one.claim_some(worker, 3)]
        second = [row["id"] for row in await in_time(two.claim_some(worker, 10))]
        assert await in_time(two.claim(worker, first[0])) == []
    assert first == jobs[:3]
    assert second == jobs[3:]
    assert {(await one.row(job))["fence"] for job in jobs} == {1}


async def test_claims_merged_over_kinds_never_take_one_job_either(pair: list[Store]) -> None:
    one, two = pair
    worker = await one.worker()
    jobs = [await one.enqueue("ab"[n % 2]) for n in range(8)]
    both = (("a", 0), ("b", 0))
    async with holding(one):
        first = [row["id"] for row in await one.claim_some(worker, 3, both)]
        second = [row["id"] for row in await in_time(two.claim_some(worker, 8, both))]
    assert sorted(first) == jobs[:3]
    assert sorted(second) == jobs[3:]


async def test_a_claim_passes_over_a_job_that_is_being_cancelled(pair: list[Store]) -> None:
    one, two = pair
    job, other = await one.enqueue(), await one.enqueue()
    async with holding(one):
        assert await one.cancel_waiting(job) == [job]
        assert [row["id"] for row in await two.claim_some(await two.worker(), 5)] == [other]
    assert await one.states(job) == ["cancelled"]


async def test_a_cancel_that_waited_for_a_claim_finds_the_job_running(pair: list[Store]) -> None:
    one, two = pair
    job = await one.enqueue()
    async with holding(one):
        assert await one.claim(await one.worker(), job)
        cancel = await one.blocked(two, two.cancel_waiting(job))
    assert await cancel == []
    assert await two.cancel_running(job) == [job]
    assert (await one.row(job))["cancel_requested"]


async def test_a_completion_wins_over_a_cancel_that_came_later(pair: list[Store]) -> None:
    one, two = pair
    (claim,) = await one.claim(await one.worker(), await one.enqueue())
    async with holding(one):
        assert await one.complete(claim)
        cancel = await one.blocked(two, two.cancel_running(claim.job_id))
    assert await cancel == []
    row = await one.row(claim.job_id)
    assert (row["state"], row["cancel_requested"]) == ("completed", False)


async def test_a_completion_is_kept_although_a_cancel_was_asked(pair: list[Store]) -> None:
    one, two = pair
    (claim,) = await one.claim(await one.worker(), await one.enqueue())
    async with holding(two):
        assert await two.cancel_running(claim.job_id)
        complete = await two.blocked(one, one.complete(claim))
    assert await complete == [claim.job_id]
    assert await one.states(claim.job_id) == ["completed"]


@pytest.mark.parametrize("revoke", ["stop", "rescue"])
async def test_a_completion_that_waited_for_a_revocation_changes_nothing(pair: list[Store], revoke: str) -> None:
    one, two = pair
    worker = await one.worker()
    (claim,) = await one.claim(worker, await one.enqueue())
    await one.silence(worker)
    async with holding(two):
        assert await (two.stop(claim.job_id) if revoke == "stop" else two.rescue()) == [claim.job_id]
        complete = await two.blocked(one, one.complete(claim))
    assert await complete == []
    assert not await one.settled(worker, claim)
    assert await one.states(claim.job_id) == ["cancelled" if revoke == "stop" else "queued"]


async def test_a_stop_that_waited_for_a_completion_changes_nothing(pair: list[Store]) -> None:
    one, two = pair
    worker = await one.worker()
    (claim,) = await one.claim(worker, await one.enqueue())
    async with holding(one):
        assert await one.complete(claim)
        stop = await one.blocked(two, two.stop(claim.job_id))
    assert await stop == []
    assert await one.settled(worker, claim)
    assert await one.states(claim.job_id) == ["completed"]


async def test_a_rescue_passes_over_a_job_that_is_being_completed(pair: list[Store]) -> None:
    one, two = pair
    worker = await one.worker()
    (claim,) = await one.claim(worker, await one.enqueue())
    await one.silence(worker)
    async with holding(one):
        assert await one.complete(claim)
        assert await in_time(two.rescue()) == []
    assert await one.states(claim.job_id) == ["completed"]


async def test_a_late_completion_does_not_end_the_run_a_person_started_again(pair: list[Store]) -> None:
    one, two = pair
    worker = await one.worker()
    (claim,) = await one.claim(worker, await one.enqueue())
    await one.stop(claim.job_id)
    async with holding(two):
        assert await two.retry(claim.job_id)
        assert await one.complete(claim) == []
    assert await one.complete(claim) == []
    (again,) = await one.claim(worker, claim.job_id)
    assert await one.complete(claim) == []
    assert not await one.settled(worker, claim)
    assert await one.complete(again) == [claim.job_id]


async def test_a_cancel_that_commits_while_a_retry_waits_for_the_row_wins(pair: list[Store]) -> None:
    one, two = pair
    (claim,) = await one.claim(await one.worker(), await one.enqueue())
    async with holding(two):
        assert await two.cancel_running(claim.job_id)
        back = await two.blocked(one, one.give_back(claim))
    assert await back == [claim.job_id]
    row = await one.row(claim.job_id)
    assert (row["state"], row["fence"]) == ("cancelled", claim.fence + 1)


async def test_a_cancel_wins_over_holding_a_lost_job_for_a_person(pair: list[Store]) -> None:
    one, _ = pair
    await one.fetch(
        "register_kinds",
        names=["k"],
        on_worker_lost=["hold"],
        max_losses=[None],
        isolates=[False],
        hooks=[None],
        defaults=[None],
    )
    worker = await one.worker()
    (claim,) = await one.claim(worker, await one.enqueue())
    await one.cancel_running(claim.job_id)
    await one.silence(worker)
    assert await one.rescue() == [claim.job_id]
    assert await one.states(claim.job_id) == ["cancelled"]


async def test_stops_and_completions_in_opposite_order_never_deadlock(pair: list[Store]) -> None:
    one, two = pair
    worker = await one.worker()
    for number in range(200):
        jobs = [await one.enqueue(gate_key="g" if number % 2 else None) for _ in range(4)]
        await one.execute("INSERT INTO {s}.gates (key, max_running) VALUES ('g', 9) ON CONFLICT DO NOTHING")
        claims = await one.claim(worker, *jobs)
        assert len(claims) == 4
        done, stopped = await asyncio.gather(one.complete(*claims), two.stop(*reversed(jobs)))
        assert sorted([*done, *stopped]) == jobs
    assert await one.value("SELECT held FROM {s}.gates WHERE key = 'g'") == 0


async def test_a_job_whose_twin_came_meanwhile_ends_as_superseded(pair: list[Store]) -> None:
    one, _ = pair
    key = {"unique_key": "k:x", "unique_scope": "waiting"}
    (claim,) = await one.claim(await one.worker(), await one.enqueue(**key))
    twin = await one.enqueue(**key)
    assert await one.give_back(claim) == [claim.job_id]
    row = await one.row(claim.job_id)
    assert (row["state"], row["errors"]) == ("cancelled", f'{{"by": {twin}, "reason": "superseded"}}')
    assert await one.states(twin) == ["queued"]


async def test_a_twin_that_commits_at_the_same_moment_is_seen_by_the_second_try(pair: list[Store]) -> None:
    one, two = pair
    key = {"unique_key": "k:x", "unique_scope": "waiting"}
    (claim,) = await one.claim(await one.worker(), await one.enqueue(**key))
    async with holding(two):
        await two.enqueue(**key)
        back = await two.blocked(one, one.give_back(claim))
    with pytest.raises(asyncpg.UniqueViolationError) as raised:
        await back
    assert isinstance(raised.value, TRANSIENT)  # so the finisher runs it again
    assert await one.give_back(claim) == [claim.job_id]
    assert await one.states(claim.job_id) == ["cancelled"]


@pytest.mark.parametrize("way", ["give_back", "rescue", "held"])
async def test_several_running_jobs_of_one_key_come_back_in_one_statement(pair: list[Store], way: str) -> None:
    one, _ = pair
    worker = await one.worker()
    if way == "held":
        await one.fetch(
            "register_kinds",
            names=["k"],
            on_worker_lost=["hold"],
            max_losses=[None],
            isolates=[False],
            hooks=[None],
            defaults=[None],
        )
    claims = []
    for _ in range(3):
        claims += await one.claim(worker, await one.enqueue(unique_key="k:x", unique_scope="waiting"))
    await one.silence(worker)
    moved = await one.give_back(*claims) if way == "give_back" else await one.rescue()
    assert sorted(moved) == [claim.job_id for claim in claims]
    newest = "pending" if way == "held" else "queued"
    assert await one.states(*(claim.job_id for claim in claims)) == ["cancelled", "cancelled", newest]


async def test_a_held_job_whose_twin_waits_ends_as_superseded(pair: list[Store]) -> None:
    """Else it breaks the unique index, and with it the rescue of everybody, in every round."""
    one, _ = pair
    await one.fetch(
        "register_kinds",
        names=["k"],
        on_worker_lost=["hold"],
        max_losses=[None],
        isolates=[False],
        hooks=[None],
        defaults=[None],
    )
    worker = await one.worker()
    (claim,) = await one.claim(worker, await one.enqueue(unique_key="k:x", unique_scope="waiting"))
    await one.enqueue(unique_key="k:x", unique_scope="waiting")
    await one.silence(worker)
    assert await one.rescue() == [claim.job_id]
    assert await one.states(claim.job_id) == ["cancelled"]


async def test_of_two_elections_of_one_duty_one_wins(pair: list[Store]) -> None:
    one, two = pair
    async with holding(one):
        assert len(await one.fetch("elect", name="sweep")) == 1
        second = await one.blocked(two, two.fetch("elect", name="sweep"))
    assert await second == []


async def test_a_person_cannot_retry_what_retention_takes_at_this_moment(pair: list[Store]) -> None:
    one, two = pair
    (claim,) = await one.claim(await one.worker(), await one.enqueue())
    await one.complete(claim)
    await one.execute("UPDATE {s}.jobs SET finished_at = now() - interval '30 days'")
    async with holding(one):
        assert (await one.one("prune", kind="*", state="*", batch=10))["pruned"] == 1
        retry = await one.blocked(two, two.retry(claim.job_id))
    assert await retry == []


async def test_retention_passes_over_a_job_a_person_is_retrying(pair: list[Store]) -> None:
    one, two = pair
    (claim,) = await one.claim(await one.worker(), await one.enqueue())
    await one.complete(claim)
    await one.execute("UPDATE {s}.jobs SET finished_at = now() - interval '30 days'")
    async with holding(one):
        assert len(await one.retry(claim.job_id)) == 1
        assert (await in_time(two.one("prune", kind="*", state="*", batch=10)))["pruned"] == 0
    assert await one.states(claim.job_id) == ["queued"]


async def test_a_job_given_back_into_the_future_meanwhile_is_not_claimed_early(pair: list[Store]) -> None:
    """The claim read the head before another worker claimed it and gave it back; the lock must judge the newest row."""
    one, two = pair
    jobs = [await one.enqueue("a"), await one.enqueue("b")]
    worker = await one.worker()
    # An advisory lock inside the claim's own plan stops it between its snapshot and the lock of the head.
    statement = one.database.statements["claim"].dollar
    stopping = statement.replace(
        "WHERE h.id IS NOT NULL", "WHERE h.id IS NOT NULL AND pg_advisory_xact_lock(1) IS NOT NULL"
    )
    assert stopping != statement
    low = await one.value("SELECT timestamptz '2001-01-01'")
    values = arguments(worker, {"default": 5}, {"default": [(("a", 0, 0), low), (("b", 0, 0), low)]})
    async with opened(one.database) as stopper:
        await stopper.execute("SELECT pg_advisory_lock(1)")
        bound = one.database.statements["claim"].bind(values)
        claim = await stopper.blocked(two, two.connection.fetch(stopping, *bound))
        (other,) = await one.claim(worker, jobs[0])
        await one.give_back(other, delay=3600)
        await stopper.execute("SELECT pg_advisory_unlock(1)")
    assert [row["id"] for row in await claim] == [jobs[1]]


async def test_a_guarded_transaction_holds_its_claim_against_a_stop(pair: list[Store]) -> None:
    one, two = pair
    (claim,) = await one.claim(await one.worker(), await one.enqueue())
    async with holding(one):
        assert await one.guard(claim)
        stop = await one.blocked(two, two.stop(claim.job_id))
        await one.execute("CREATE TABLE mine ()")
    assert await stop == [claim.job_id]
    async with holding(two):
        assert not await two.guard(claim)


async def test_a_claim_passes_over_a_job_that_is_being_edited(pair: list[Store]) -> None:
    one, two = pair
    job, other = await one.enqueue(approval=1), await one.enqueue()
    await one.approve(job)
    async with holding(one):
        await one.edit(job, args='{"n": 2}')
        assert [row["id"] for row in await two.claim_some(await two.worker(), 5)] == [other]
    assert await two.claim(await two.worker(), job) == []
    assert await one.states(job) == ["pending"]


async def test_an_edit_that_waited_for_a_claim_changes_nothing(pair: list[Store]) -> None:
    one, two = pair
    job = await one.enqueue()
    async with holding(one):
        assert await one.claim(await one.worker(), job)
        edit = await one.blocked(two, two.edit(job, args='{"n": 2}'))
    assert (await edit)["found"] == 0
    row = await one.row(job)
    assert (row["state"], row["args"], row["fence"]) == ("running", "{}", 1)


async def test_of_two_edits_at_once_the_second_is_told(pair: list[Store]) -> None:
    one, two = pair
    job = await one.enqueue()
    async with holding(one):
        assert (await one.edit(job, tags=["one"]))["found"] == 1
        edit = await one.blocked(two, two.edit(job, tags=["two"]))
    assert (await edit)["found"] == 0
    assert (await one.row(job))["tags"] == ["one"]
