"""Entering, leaving, promoting and cancelling at one gate, staged; lane caps with two claimers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.factories import ORDER, Store, several
from tests.waiting import in_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.model.job import Claim


@pytest.fixture
async def trio(database_url: str) -> AsyncIterator[list[Store]]:
    async with several(database_url, 3) as stores:
        yield stores


async def held(store: Store, key: str = "g") -> int:
    return int(await store.value("SELECT held FROM {s}.gates WHERE key = $1", key))


async def running(store: Store, worker: int, key: str = "g") -> Claim:
    (claim,) = await store.claim(worker, await store.enqueue(gate_key=key))
    return claim


async def test_a_leave_that_commits_while_a_newcomer_is_judged_wakes_it(trio: list[Store]) -> None:
    """The lost wake-up: judged full, then the last holder leaves and finds nobody parked, then the newcomer parks."""
    one, two, three = trio
    worker = await one.worker()
    await one.gate("g", 1)
    holder = await running(one, worker)
    newcomer = await one.enqueue(gate_key="g")
    async with three.connection.transaction():
        await three.value("SELECT held FROM {s}.gates WHERE key = 'g' FOR UPDATE")  # both meet at the gate's row
        enter = await three.blocked(one, one.claim(worker, newcomer))
        leave = await three.blocked(two, two.complete(holder))
    admitted, done = await asyncio.gather(enter, leave)
    assert done == [holder.job_id]
    assert admitted or await one.states(newcomer) == ["queued"]
    assert await held(one) == 1


async def test_a_leave_waits_for_a_newcomer_that_is_parking_and_then_promotes_it(trio: list[Store]) -> None:
    one, two, _ = trio
    worker = await one.worker()
    await one.gate("g", 1)
    holder = await running(one, worker)
    newcomer = await one.enqueue(gate_key="g")
    async with one.connection.transaction():
        assert await one.claim(worker, newcomer) == []
        leave = await one.blocked(two, two.complete(holder))
    assert await leave == [holder.job_id]
    row = await one.row(newcomer)
    assert (row["state"], row["gate_place"]) == ("queued", 1)
    assert await held(one) == 1
    assert len(await one.claim(worker, newcomer)) == 1


async def test_a_newcomer_waits_for_a_leaver_and_gets_its_place(trio: list[Store]) -> None:
    one, two, _ = trio
    worker = await one.worker()
    await one.gate("g", 1)
    holder = await running(one, worker)
    newcomer = await one.enqueue(gate_key="g")
    async with two.connection.transaction():
        assert await two.complete(holder)
        enter = await two.blocked(one, one.claim(worker, newcomer))
    assert [claim.job_id for claim in await enter] == [newcomer]
    assert await held(one) == 1


async def test_two_newcomers_of_a_new_key_share_one_place(trio: list[Store]) -> None:
    one, two, _ = trio
    worker = await one.worker()
    jobs = [await one.enqueue(gate_key="new") for _ in range(2)]
    async with one.connection.transaction():
        assert len(await one.claim(worker, jobs[0])) == 1
        enter = await one.blocked(two, two.claim(worker, jobs[1]))
    assert await enter == []
    assert await one.states(*jobs) == ["running", "blocked"]
    assert await held(one, "new") == 1


async def test_a_parked_job_that_is_being_cancelled_is_passed_over(trio: list[Store]) -> None:
    one, two, _ = trio
    worker = await one.worker()
    await one.gate("g", 1)
    holder = await running(one, worker)
    parked = [await one.enqueue(gate_key="g") for _ in range(2)]
    assert await one.claim(worker, *parked) == []
    async with two.connection.transaction():
        assert await two.cancel_waiting(parked[0]) == [parked[0]]
        assert await in_time(one.complete(holder)) == [holder.job_id]
    assert await one.states(*parked) == ["cancelled", "queued"]
    assert await held(one) == 1


async def test_a_cancel_that_waited_for_a_promotion_hands_the_place_on(trio: list[Store]) -> None:
    one, two, _ = trio
    worker = await one.worker()
    await one.gate("g", 1)
    holder = await running(one, worker)
    parked = [await one.enqueue(gate_key="g") for _ in range(2)]
    assert await one.claim(worker, *parked) == []
    async with one.connection.transaction():
        assert await one.complete(holder)
        cancel = await one.blocked(two, two.cancel_waiting(parked[0]))
    assert await cancel == [parked[0]]
    assert await one.states(*parked) == ["cancelled", "queued"]
    assert await held(one) == 1


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_parked_job_a_leaver_had_to_pass_over_is_found_again(trio: list[Store], fifo: bool) -> None:
    one, two, _ = trio
    worker = await one.worker()
    await one.gate("g", 1, fifo=fifo)
    holder = await running(one, worker)
    parked = await one.enqueue(gate_key="g")
    assert await one.claim(worker, parked) == []
    async with two.connection.transaction():
        await two.fetch("reprioritise", ids=[parked], priority=1, **ORDER)
        assert await in_time(one.complete(holder))
    assert await one.states(parked) == ["blocked"]
    if fifo:  # the next newcomer makes up for it, without overtaking
        newcomer = await one.enqueue(gate_key="g")
        assert await one.claim(worker, newcomer) == []
    else:
        await one.fetch("repair_gates")
    assert await one.states(parked) == ["queued"]
    assert await held(one) == 1


async def test_a_lane_cap_holds_with_two_claimers(trio: list[Store]) -> None:
    one, two, _ = trio
    worker = await one.worker()
    await one.lane("capped", max_total=3)
    for _ in range(10):
        await one.enqueue()

    async def claim(store: Store) -> int:
        async with store.connection.transaction():
            granted = await store.one("cap_enter", lanes=["capped"], free=[2])
            if not granted["free"]:
                return 0
            rows = await store.claim_some(worker, granted["free"])
            await store.fetch("cap_taken", lanes=["capped"] * len(rows))
            return len(rows)

    async with one.connection.transaction():
        assert (await one.one("cap_enter", lanes=["capped"], free=[2]))["free"] == 2
        rows = await one.claim_some(worker, 2)
        await one.fetch("cap_taken", lanes=["capped"] * len(rows))
        second = await one.blocked(two, claim(two))
    assert await second == 1
    assert await claim(one) == 0
    assert await held(one, "lane:capped") == 3


async def test_gates_of_several_keys_are_left_in_opposite_orders_without_deadlock(trio: list[Store]) -> None:
    one, two, _ = trio
    worker = await one.worker()
    for key in "abcd":
        await one.gate(key, 4)
    for _ in range(50):
        jobs = [await one.enqueue(gate_key=key) for key in "abcddcba"]
        claims = await one.claim(worker, *jobs)
        assert len(claims) == 8
        done = await asyncio.gather(one.complete(*claims[:4]), two.complete(*claims[4:]))
        assert [len(part) for part in done] == [4, 4]
    assert await one.value("SELECT sum(held) FROM {s}.gates") == 0
