"""Limits hold at every commit, whatever way a job leaves; nothing stays parked when traffic stops."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import Store, opened, several

from rowlock.model.job import Claim

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from rowlock.store.database import Record

OVERFULL = """
SELECT g.key, g.max_running, g.held, count(j.id) FILTER (WHERE j.gate_place > 0) AS places,
       count(j.id) FILTER (WHERE j.state = 'running') AS running
FROM rowlock.gates g LEFT JOIN rowlock.jobs j ON j.gate_key = g.key AND j.finished_at IS NULL
GROUP BY g.key
HAVING g.held > g.max_running OR g.held <> count(j.id) FILTER (WHERE j.gate_place > 0)
    OR count(j.id) FILTER (WHERE j.state = 'running') > g.max_running
"""


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as opened_store:
        yield opened_store


async def held(store: Store, key: str = "g") -> int:
    return int(await store.value("SELECT held FROM {s}.gates WHERE key = $1", key))


EXITS: dict[str, Callable[[Store, Claim], Awaitable[object]]] = {
    "complete": lambda store, claim: store.complete(claim),
    "fail": lambda store, claim: store.complete(claim, state="failed"),
    "retry": lambda store, claim: store.give_back(claim, delay=60),
    "snooze": lambda store, claim: store.give_back(claim, delay=60, refund=1, outcome="snoozed"),
    "stop": lambda store, claim: store.stop(claim.job_id),
    "rescue": lambda store, _: store.rescue(),
    "too old": lambda store, _: store.too_old(),
    "disown": lambda store, _: store.one(
        "disown", worker=1, held=[], before=datetime.now(UTC), channel=store.database.channel
    ),
}


@pytest.mark.parametrize("way", EXITS)
async def test_every_exit_hands_its_place_to_the_first_parked_job(store: Store, way: str) -> None:
    worker = await store.worker()
    await store.gate("g", 1)
    (claim,) = await store.claim(worker, await store.enqueue(gate_key="g"))
    parked = [await store.enqueue(gate_key="g") for _ in range(2)]
    assert await store.claim(worker, *parked) == []
    aged = "claimed_at = claimed_at - interval '1 minute', too_old_at = CASE WHEN state = 'running' THEN now() END"
    await store.execute(f"UPDATE {{s}}.jobs SET {aged}")
    await store.silence(worker)
    await EXITS[way](store, claim)
    assert await store.states(*parked) == ["queued", "blocked"]
    assert await held(store) == 1
    assert await store.connection.fetch(OVERFULL) == []


@pytest.mark.parametrize("way", ["cancel", "expire", "too old"])
async def test_a_promoted_job_that_ends_before_it_runs_hands_its_place_on(store: Store, way: str) -> None:
    worker = await store.worker()
    await store.gate("g", 1)
    (claim,) = await store.claim(worker, await store.enqueue(gate_key="g"))
    parked = [await store.enqueue(gate_key="g") for _ in range(2)]
    await store.claim(worker, *parked)
    await store.complete(claim)
    await store.execute("UPDATE {s}.jobs SET expires_at = now(), too_old_at = now() WHERE id = $1", parked[0])
    await {"cancel": store.cancel_waiting, "expire": store.expire, "too old": store.too_old}[way](
        *([parked[0]] if way == "cancel" else [])
    )
    assert await store.states(parked[1]) == ["queued"]
    assert await held(store) == 1


async def test_parking_refunds_the_attempt_and_clears_the_claim(store: Store) -> None:
    await store.gate("g", 0)
    job = await store.enqueue(gate_key="g")
    assert await store.claim(await store.worker(), job) == []
    row = await store.row(job)
    assert (row["state"], row["attempt"], row["claimed_by"], row["lane"]) == ("blocked", 0, None, None)


async def test_a_full_gate_takes_its_whole_key_out_of_the_claim(store: Store) -> None:
    await store.gate("g", 1)
    jobs = [await store.enqueue(gate_key="g") for _ in range(20)]
    free = await store.enqueue()
    worker = await store.worker()
    rows = await store.claim_some(worker, 2)
    assert [row["parked"] for row in rows] == [False, True]
    assert await store.states(*jobs) == ["running"] + ["blocked"] * 19
    assert [row["id"] for row in await store.claim_some(worker, 2)] == [free]


async def test_fifo_runs_in_order_although_newcomers_are_claimed_first(store: Store) -> None:
    worker = await store.worker()
    await store.gate("g", 1, fifo=True)
    jobs = [await store.enqueue(gate_key="g") for _ in range(6)]
    started: list[int] = []
    waiting = list(reversed(jobs[1:]))  # the youngest asks first
    claims = await store.claim(worker, jobs[0])
    while claims:
        (claim,) = claims
        started.append(claim.job_id)
        if waiting:
            assert await store.claim(worker, waiting.pop(0)) == []
        if len(started) == 1:
            assert await store.claim(worker, *waiting) == []
        await store.complete(claim)
        claims = await store.claim(worker, *jobs)
    assert started == jobs


async def test_a_newcomer_may_take_a_free_place_beside_the_parked_unless_fifo(store: Store) -> None:
    worker = await store.worker()
    for key, fifo in (("open", False), ("strict", True)):
        await store.gate(key, 0, fifo=fifo)
        parked, newcomer = await store.enqueue(gate_key=key), await store.enqueue(gate_key=key, priority=-1)
        await store.claim(worker, parked)
        await store.execute("UPDATE {s}.jobs SET state = 'queued', gate_place = 0 WHERE id = $1", newcomer)
        await store.execute("UPDATE {s}.gates SET max_running = 1 WHERE key = $1", key)
        claims = await store.claim(worker, newcomer)
        assert bool(claims) == (not fifo)
        assert await held(store, key) == 1


async def test_repair_recounts_and_promotes(store: Store) -> None:
    await store.gate("g", 2)
    await store.gate("idle", 1)
    parked = "SELECT 'k', 'g', 'blocked', -1 FROM generate_series(1, 3)"
    await store.execute(f"INSERT INTO {{s}}.jobs (kind, gate_key, state, gate_place) {parked}")
    await store.execute("UPDATE {s}.gates SET held = 2")
    assert (await store.one("repair_gates"))["changed"] == 1  # g really has 2 now: promoted; idle: recounted
    assert (await held(store), await held(store, "idle")) == (2, 0)
    assert await store.value("SELECT count(*) FROM {s}.jobs WHERE state = 'queued' AND gate_place = 1") == 2
    assert (await store.one("repair_gates"))["changed"] == 0


async def test_a_raised_limit_lets_the_parked_in_and_a_lowered_one_waits(store: Store) -> None:
    worker = await store.worker()
    await store.gate("g", 1)
    jobs = [await store.enqueue(gate_key="g") for _ in range(4)]
    claims = await store.claim(worker, *jobs)
    await store.execute("UPDATE {s}.gates SET max_running = 3")
    await store.fetch("repair_gates")
    claims += await store.claim(worker, *jobs)
    assert len(claims) == 3
    await store.execute("UPDATE {s}.gates SET max_running = 1")
    await store.complete(*claims[:2])
    assert await store.states(jobs[3]) == ["blocked"]
    await store.complete(claims[2])
    assert await store.states(jobs[3]) == ["queued"]


async def test_repair_takes_a_place_back_that_nobody_came_for(store: Store) -> None:
    worker = await store.worker()
    await store.gate("g", 1)
    (claim,) = await store.claim(worker, await store.enqueue(gate_key="g"))
    first, second = [await store.enqueue(gate_key="g") for _ in range(2)]
    await store.claim(worker, first, second)
    await store.complete(claim)
    await store.execute("UPDATE {s}.jobs SET run_after = now() - interval '5 minutes' WHERE id = $1", first)
    await store.fetch("repair_gates")
    assert await held(store) == 1
    assert sorted(await store.states(first, second)) == ["blocked", "queued"]


async def test_a_parked_job_whose_approval_became_void_is_not_promoted_past_the_approver(store: Store) -> None:
    worker = await store.worker()
    await store.gate("g", 1)
    (claim,) = await store.claim(worker, await store.enqueue(gate_key="g"))
    key: dict[str, Any] = {"unique_key": "k:x", "unique_scope": "live", "gate_key": "g", "approval": True}
    job = await store.enqueue(**key)
    await store.approve(job)
    assert await store.claim(worker, job) == []
    assert await store.enqueue(statement="enqueue_replace_live", **key) == job
    await store.complete(claim)
    assert await store.states(job) == ["pending"]
    assert await held(store) == 0


async def test_limits_hold_at_every_commit_and_everything_ends(database_url: str) -> None:
    """Four claimers, five gates, every way out; a fifth connection looks at what is committed all the time."""
    limits = {f"g{n}": 1 + n % 3 for n in range(5)}
    async with several(database_url, 4, guarded=True) as claimers, opened(database_url) as watcher:
        for key, limit in limits.items():
            await watcher.gate(key, limit)
        await watcher.execute(
            "INSERT INTO {s}.jobs (kind, gate_key) SELECT 'k', 'g' || n % 5 FROM generate_series(1, 300) n"
        )
        ended = asyncio.Event()

        async def watch() -> list[Record]:
            while not ended.is_set():
                if found := await watcher.connection.fetch(OVERFULL):
                    return found
            return []

        watching = asyncio.ensure_future(watch())
        await asyncio.gather(*(work(store, random.Random(n)) for n, store in enumerate(claimers)))  # noqa: S311 - a test's dice
        ended.set()
        assert await watching == []
        # The quiet end: no repair ran, nothing is parked, no place is held.
        assert await watcher.value("SELECT count(*) FROM {s}.jobs WHERE finished_at IS NULL") == 0
        assert await watcher.value("SELECT sum(held) FROM {s}.gates") == 0


async def work(store: Store, dice: random.Random) -> None:
    worker = await store.worker()
    while await store.value("SELECT EXISTS (SELECT 1 FROM {s}.jobs WHERE finished_at IS NULL)"):
        rows = [row for row in await store.claim_some(worker, 4) if not row["parked"]]
        for row in sorted(rows, key=lambda row: int(row["id"])):
            claim = (await store.row(row["id"]))["fence"]
            await leave(store, row["id"], claim, dice.random())
        if not rows:
            await store.value("SELECT pg_sleep(0.002)")


async def leave(store: Store, job: int, fence: int, fate: float) -> None:

    claim = Claim(job, fence)
    if fate < 0.1:
        await store.give_back(claim)
    elif fate < 0.2:
        await store.give_back(claim, refund=1, outcome="snoozed")
    elif fate < 0.3:
        await store.stop(job)
    elif fate < 0.4:
        await store.cancel_running(job)
        await store.give_back(claim)
    else:
        await store.complete(claim)


async def test_a_rescue_of_several_jobs_gives_each_place_back_once(store: Store) -> None:
    await store.gate("g", 1)
    gated = [await store.enqueue(gate_key="g") for _ in range(4)]
    plain = [await store.enqueue() for _ in range(3)]
    worker = await store.worker()
    assert len(await store.claim(worker, gated[0], *plain)) == 4
    assert await store.claim(worker, *gated[1:]) == []
    lost = await store.fetch("rescue_dead", workers=[worker], max_losses=3, channel=store.database.channel)
    assert len(lost) == 4
    assert await store.states(*gated[1:]) == ["queued", "blocked", "blocked"]
    assert await store.value("SELECT held FROM {s}.gates WHERE key = 'g'") == 1
