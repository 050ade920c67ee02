"""Rates, fair shares and ageing as a worker lives with them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.waiting import PATIENCE, busy_for, eventually

from rowlock import InvalidOption, Rate, RateLimited
from rowlock.errors import ConfigurationError
from rowlock.flow.claim.claimer import Claimer
from rowlock.flow.claim.cursors import Cursors
from rowlock.model.lane import Lane
from rowlock.model.tenant_share import share_of
from rowlock.store.connections.worker_connection import WorkerConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    import asyncpg

    from rowlock import Rowlock


async def test_a_rate_holds_its_key_back_and_no_other(app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]) -> None:
    @app.job(rate=lambda org: Rate(10, "1s", burst=2).for_key(f"org:{org}") if org == 1 else Rate(1, "1h").for_key("2"))
    async def call(org: int) -> None: ...

    held_back = await call.enqueue_many([{"org": 2}] * 3)
    handles = [await call.enqueue(1) for _ in range(8)]
    async with app.worker():
        for handle in handles:
            await handle.wait(timeout=PATIENCE)
    assert sorted([(await handle.job()).state for handle in held_back]) == ["completed", "queued", "queued"]
    # Two at once, then six more at ten a second, by the clock that admits them.
    took = await sql.fetchval(
        "SELECT max(claimed_at) - min(claimed_at) FROM jobs WHERE id = ANY ($1)", [h.id for h in handles]
    )
    assert took.total_seconds() > 0.5
    assert await sql.fetchval("SELECT max(attempt) FROM jobs") == 1
    # No job is claimed again and again. One whose turn is far away is put back once or twice. A claim that comes late
    # finds more jobs due than the burst has tokens, and puts them back; it admits one at least.
    claimed = "SELECT max(fence) FROM jobs WHERE id = ANY ($1)"
    assert await sql.fetchval(claimed, [h.id for h in held_back]) <= 3
    assert await sql.fetchval(claimed, [h.id for h in handles]) <= len(handles)


async def test_a_backlog_over_its_rate_costs_an_idle_worker_no_statements(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    @app.job(rate=Rate(1, "1h"))
    async def call(n: int) -> None: ...

    await call.enqueue_many([{"n": n} for n in range(200)])
    async with app.worker() as worker:
        assert worker is not None
        waiting = "SELECT count(*) = 199 FROM jobs WHERE state = 'queued' AND rate_turn AND run_after > now()"
        await eventually(lambda: sql.fetchval(waiting))
    assert await sql.fetchval("SELECT max(seq) FROM jobs WHERE state = 'queued'") <= 3


@pytest.mark.parametrize("how", ["raise", "return"])
async def test_a_limited_handler_pauses_its_rate_for_everybody_and_loses_no_attempt(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record], how: str
) -> None:
    tries: list[int] = []

    @app.job(rate=Rate(100, "1s"))
    async def call(n: int) -> object:
        tries.append(n)
        if n == 1 and len(tries) == 1:
            if how == "return":
                return RateLimited("700ms")
            raise RateLimited("700ms")
        return None

    await app.lanes.create(Lane("default", kinds=("*",), slots=1))
    first, second = await call.enqueue(1), await call.enqueue(2)
    async with app.worker():
        await first.wait(timeout=30)
        await second.wait(timeout=30)
    assert sorted(tries) == [1, 1, 2]
    limited = "SELECT ended_at FROM job_attempts"
    assert (await sql.fetchval(f"SELECT min(claimed_at) - ({limited}) FROM jobs")).total_seconds() > 0.6
    assert (await first.job()).attempt == 1
    outcomes = await sql.fetch("SELECT outcome FROM job_attempts")
    assert [row["outcome"] for row in outcomes] == ["limited"]
    assert (await sql.fetchval("SELECT paused_by FROM rates")) == f"job {first.id}"


async def test_a_lane_has_a_rate_of_its_own_edited_while_it_runs(app: Rowlock) -> None:
    started: list[float] = []

    @app.job
    async def call() -> None:
        started.append(time.monotonic())

    await app.lanes.create("default", kinds=["*"], rate="4/1h")
    handles = [await call.enqueue() for _ in range(12)]
    async with app.worker() as worker:
        assert worker is not None

        async def four() -> bool:
            return len(started) == 4

        await eventually(four)
        explained = await app.jobs.explain(handles[-1].id)
        assert "lane_rate" in [reason.code for reason in explained.reasons]
        await app.lanes.set("default", rate=Rate(50, "1s", burst=4))
        for handle in handles:
            await handle.wait(timeout=PATIENCE)
        assert (await app.lanes.set("default", rate="off")).rate is None
    assert await app.limits.rates() == []


def test_what_a_rate_cannot_be_is_said() -> None:
    for amount, per, burst, window in ((0, "1s", None, False), (1, "0s", None, False), (1, "1s", 2, True)):
        with pytest.raises(InvalidOption):
            Rate(amount, per, burst=burst, window=window)
    with pytest.raises(InvalidOption, match="10/s"):
        Rate.parse("x")
    with pytest.raises(ConfigurationError, match="lane:"):
        Rate(1).for_key("lane:x")
    assert [str(Rate.parse(text)) for text in ("10/s", "5 / 30s", "100/1m")] == ["10/s", "5/30s", "100/m"]
    assert str(Rate(3, "2s", burst=7)) == "3/2s burst 7"


async def test_weights_beyond_a_rate_and_two_rates_of_one_key_are_refused(app: Rowlock) -> None:
    @app.job(rate=[Rate(5), Rate(100, "1m", window=True).for_key("other")])
    async def call() -> None: ...

    with pytest.raises(InvalidOption, match="from 1 to 5"):
        await call.options(weight=6).enqueue()
    with pytest.raises(InvalidOption, match="share the key"):
        await call.options(rate=[Rate(5), Rate(6)]).enqueue()
    await call.options(weight=5).enqueue()
    assert [view.key for view in await app.limits.rates()] == ["kind:call", "other"]


async def test_a_small_tenant_is_served_by_turns_beside_a_large_one(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    @app.job(fair=True)
    async def work(n: int) -> None: ...

    big, small = share_of("big"), share_of("small")
    assert big != small
    await app.lanes.create(Lane("default", kinds=("*",), slots=20, order="fair"))
    await work.options(tenant="big").enqueue_many([{"n": n} for n in range(20_000)])
    await work.options(tenant="small").enqueue_many([{"n": n} for n in range(100)])
    assert await sql.fetchval("SELECT count(DISTINCT share) FROM jobs") == 2
    link = WorkerConnection(app.database(), "claim")
    try:
        cursors = Cursors(time.monotonic)
        cursors.publish([(("work", 0, big), None), (("work", 0, small), None)])
        claimer = Claimer(link, 1, cursors, ["work"])
        lanes = await app.lanes.list()
        claimer.serve({lane.name: lane for lane in lanes}, lanes)
        order: list[int] = []
        while order.count(small) < 100:
            order += [row["share"] for row in await claimer.claim({"default": 20})]
    finally:
        await link.close()
    assert len(order) <= 2.2 * 100


async def test_a_fair_lane_makes_jobs_fair_whose_kind_does_not_say_so(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    @app.job
    async def work(n: int) -> None: ...

    await app.lanes.create(Lane("default", kinds=("*",), order="fair"))
    handle = await work.options(tenant="acme").enqueue(1)
    plain = await work.enqueue(2)
    assert await sql.fetchval("SELECT share FROM jobs WHERE id = $1", handle.id) == share_of("acme")
    assert await sql.fetchval("SELECT share FROM jobs WHERE id = $1", plain.id) == 0
    assert await sql.fetchval("SELECT count(*) FROM pairs WHERE share = $1", share_of("acme")) == 1
    async with app.worker():
        await handle.wait(timeout=10)
        await plain.wait(timeout=10)


async def test_a_low_job_rises_until_it_starves_no_more(
    make_app: Callable[..., Rowlock], sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    app = make_app()
    order: list[str] = []

    @app.job
    async def work(name: str) -> None:
        order.append(name)
        await busy_for(0.02)

    await app.lanes.create("default", kinds=["*"], slots=1, aging_interval="1s")
    low = await work.options(priority=-1).enqueue("low")
    await sql.execute("UPDATE duties SET every = '200 ms' WHERE name = 'ageing'")
    await sql.execute("UPDATE duties SET every = '500 ms' WHERE name = 'sweep'")
    stop = asyncio.Event()

    async def flood() -> None:
        while not stop.is_set():
            await work.enqueue("high")
            await busy_for(0.01)

    flooding = asyncio.ensure_future(flood())
    async with app.worker():
        await low.wait(timeout=45)
        stop.set()
        await flooding
        await app.lanes.drain("default")
    assert (await low.job()).priority >= 0
