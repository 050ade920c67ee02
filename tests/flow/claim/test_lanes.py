from __future__ import annotations

import asyncio
import itertools
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.waiting import busy_for, eventually, promptly

from rowlock.errors import UnknownLane
from rowlock.model.lane import Lane
from rowlock.model.state import State
from rowlock.settings import lanes_from_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import asyncpg

    from rowlock import Rowlock

APPLIED = 2.0
"""Seconds within which a lane's edit applies."""


async def test_priority_then_age_across_the_kinds_of_a_lane(app: Rowlock) -> None:
    order: list[str] = []

    @app.job(priority=5)
    async def urgent(name: str) -> None:
        order.append(name)

    @app.job
    async def plain(name: str) -> None:
        order.append(name)

    @app.job
    async def other(name: str) -> None:
        order.append(name)

    await app.lanes.create(Lane("default", kinds=("*",), slots=1))
    handles = [
        await plain.enqueue("first plain"),
        await other.enqueue("then other"),
        await plain.enqueue("then plain"),
        await other.options(priority=-1).enqueue("last"),
        await urgent.enqueue("urgent by its kind"),
        await plain.options(priority=50).enqueue("most urgent by its call"),
    ]
    async with app.worker():
        await handles[3].wait(timeout=15)
    assert order == [
        "most urgent by its call",
        "urgent by its kind",
        "first plain",
        "then other",
        "then plain",
        "last",
    ]


class Room:
    """Counts who is inside, and how many there were at most."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.order: list[int] = []

    async def visit(self, n: int, seconds: float = 0.05) -> None:
        self.order.append(n)
        self.inside += 1
        self.most = max(self.most, self.inside)
        await busy_for(seconds)
        self.inside -= 1


async def test_slots_bound_what_one_worker_runs_at_once_and_lanes_do_not_wait_for_each_other(app: Rowlock) -> None:
    narrow, wide = Room(), Room()
    go = asyncio.Event()

    @app.job(lane="narrow")
    async def slow(n: int) -> None:
        await narrow.visit(n, 0)
        await go.wait()

    @app.job
    async def quick(n: int) -> None:
        await wide.visit(n, 0.01)

    await app.lanes.create(Lane("narrow", slots=2))
    await slow.enqueue_many([{"n": n} for n in range(8)])
    quicks = await quick.enqueue_many([{"n": n} for n in range(20)])
    async with app.worker():
        for handle in quicks:
            await handle.wait(timeout=15)
        await eventually(lambda: counted(narrow, 2))
        assert (await app.lanes.running())["narrow"] == 2
        go.set()
        await eventually(lambda: counted(narrow, 8))
    assert wide.most <= 10


async def counted(room: Room, n: int) -> bool:
    return len(room.order) == n and not room.inside


async def test_a_workers_own_number_of_slots_wins_over_the_lanes(app: Rowlock) -> None:
    room = Room()

    @app.job
    async def work(n: int) -> None:
        await room.visit(n)

    handles = await work.enqueue_many([{"n": n} for n in range(9)])
    async with app.worker({"default": 3}):
        for handle in handles:
            await handle.wait(timeout=15)
    assert room.most == 3


@pytest.mark.parametrize("strict", [False, True])
async def test_max_total_holds_over_all_workers_and_strict_order_is_single_file(
    make_app: Callable[..., Rowlock], strict: bool
) -> None:
    room = Room()
    first, second = make_app(), make_app()
    for app in (first, second):

        @app.job("work")
        async def work(n: int) -> None:
            await room.visit(n, 0.02)

    cap = 1 if strict else 2
    await first.lanes.create(
        Lane("default", kinds=("*",), slots=5, max_total=cap, order="strict" if strict else "fast")
    )
    handles = [await first.task("work").enqueue(n=n) for n in range(12)]
    async with first.worker(), second.worker():
        for handle in handles:
            await handle.wait(timeout=25)
    assert room.most <= cap
    assert not strict or room.order == list(range(12))


@pytest.mark.parametrize("listen", [True, False])
async def test_edits_drain_and_resume_apply_within_two_seconds(make_app: Callable[..., Rowlock], listen: bool) -> None:
    app = make_app(listen=listen)
    room = Room()

    @app.job
    async def work(n: int) -> None:
        await room.visit(n, 0.01)

    async with app.worker() as worker:
        assert worker is not None
        await (await work.enqueue(0)).wait(timeout=10)
        await applied(app.lanes.drain("default"), lambda: not worker.lanes["default"].enabled)
        waiting = await work.enqueue(1)
        assert room.order == [0]
        slots = itertools.cycle((3, 4))

        async def edit() -> float:
            wanted = next(slots)
            return await applied(
                app.lanes.set("default", slots=wanted), lambda: worker.lanes["default"].slots == wanted
            )

        await promptly(edit, under=APPLIED)
        assert room.order == [0]
        await app.lanes.resume("default")
        await waiting.wait(timeout=30)


async def applied(edit: Awaitable[object], seen: Callable[[], bool]) -> float:
    """Seconds until a worker has seen the edit."""
    await edit
    began = time.monotonic()

    async def look() -> bool:
        return seen()

    await eventually(look)
    return time.monotonic() - began


async def test_the_decorators_lane_is_made_and_filled_once_and_an_operators_move_stays(
    make_app: Callable[..., Rowlock],
) -> None:
    def declare() -> Rowlock:
        app = make_app()

        @app.job("report", lane="reports")
        async def report() -> None: ...

        return app

    app = declare()
    async with app.worker():
        assert (await app.lanes.get("reports")).kinds == ("report",)
        await app.lanes.set("default", kinds=["*", "report"])
        assert (await app.lanes.get("reports")).kinds == ()
    again = declare()
    async with again.worker() as worker:
        assert worker is not None
        assert (await again.lanes.get("reports")).kinds == ()
        job = await again.jobs.wait((await again.task("report").enqueue()).id, timeout=10)
    assert job.lane == "default"


async def test_lanes_of_the_environment_are_made_at_start_where_absent(make_app: Callable[..., Rowlock]) -> None:
    app = make_app(lanes=lanes_from_text("fast:kinds=ping|pong,slots=3,poll=1s,stale=5s;slow:kinds=*,slots=1"))
    async with app.worker():
        assert {lane.name: (lane.kinds, lane.slots) for lane in await app.lanes.list()} == {
            "fast": (("ping", "pong"), 3),
            "slow": (("*",), 1),
        }
        await app.lanes.set("slow", slots=7)
    async with app.worker():
        assert (await app.lanes.get("slow")).slots == 7


async def test_a_kind_unknown_to_a_worker_is_left_for_one_that_knows_it(make_app: Callable[..., Rowlock]) -> None:
    old, new = make_app(), make_app()

    @old.job("known")
    async def known() -> str:
        return "old"

    @new.job("fresh")
    async def fresh() -> str:
        return "new"

    async with old.worker():
        handle = await fresh.enqueue()
        assert await (await known.enqueue()).wait(timeout=10) == "old"
        assert (await handle.job()).state == "queued"
        async with new.worker():
            assert await handle.wait(timeout=10) == "new"
    assert (await handle.job()).attempt == 1


async def test_a_lane_that_is_not_there_is_refused_by_name_and_leaves_nothing_open(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    with pytest.raises(UnknownLane, match="There is no lane 'repots'; there are default"):
        async with app.worker(["repots"]):
            pass
    assert await sql.fetchval("SELECT count(*) FROM workers WHERE state <> 'gone'") == 0
    mine = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'rowlock:%'"
    )
    await eventually(lambda: none(sql, mine))


async def none(sql: asyncpg.Connection[asyncpg.Record], query: str) -> bool:
    return not await sql.fetchval(query)


async def test_a_worker_serves_only_the_lanes_it_was_given(app: Rowlock) -> None:
    @app.job(lane="reports")
    async def report() -> None: ...

    @app.job
    async def other() -> None: ...

    waiting = await other.enqueue()
    async with app.worker(["reports"]):
        await (await report.enqueue()).wait(timeout=10)
        assert (await waiting.job()).state == "queued"


async def test_two_workers_of_one_name_both_work_and_are_warned(app: Rowlock, caplog: pytest.LogCaptureFixture) -> None:
    both = asyncio.Barrier(2)

    @app.job
    async def meet() -> str:
        async with asyncio.timeout(10):
            await both.wait()
        return "met"

    async with app.worker({"default": 1}, name="twin"), app.worker({"default": 1}, name="twin"):
        handles = [await meet.enqueue() for _ in range(2)]
        assert [await handle.wait(timeout=15) for handle in handles] == ["met", "met"]
        assert len([worker for worker in await app.workers.list() if worker.name == "twin"]) == 2
    assert "another live worker is also called twin" in caplog.text


async def test_a_place_freed_under_a_cap_is_heard_of_by_a_worker_that_sleeps(make_app: Callable[..., Rowlock]) -> None:
    go = asyncio.Event()
    ran: list[tuple[str, int]] = []

    def declared(name: str) -> Rowlock:
        app = make_app()

        @app.job("work")
        async def work(number: int) -> None:
            ran.append((name, number))
            if number == 1:
                await go.wait()

        return app

    first, second = declared("first"), declared("second")
    await first.lanes.create(Lane("default", kinds=("*",), slots=2, max_total=1, poll_interval=timedelta(minutes=10)))
    async with first.worker() as a, second.worker() as b:
        one = await first.task("work").enqueue(1)
        await eventually(lambda: _is(bool(ran)))
        busy = a if ran == [("first", 1)] else b
        assert busy is not None
        other = await first.task("work").enqueue(2)
        draining = asyncio.create_task(busy.stop())
        go.set()
        await one.wait(timeout=10)
        await other.wait(timeout=60)
        await draining


async def test_stopping_a_gate_holder_wakes_a_worker_for_the_parked_one(app: Rowlock) -> None:
    started: list[int] = []

    @app.job(gate="one at a time")
    async def work(number: int) -> None:
        started.append(number)
        if number == 1:
            await asyncio.Event().wait()

    await app.lanes.create(Lane("default", kinds=("*",), slots=5, poll_interval=timedelta(minutes=10)))
    async with app.worker():
        first = await work.enqueue(1)
        await eventually(lambda: _is(started == [1]))
        second = await work.enqueue(2)
        await eventually(lambda: _parked(app, second.id))
        await app.jobs.stop(first.id)
        await second.wait(timeout=60)
    assert started == [1, 2]


async def _is(answer: bool) -> bool:
    return answer


async def _parked(app: Rowlock, job_id: int) -> bool:
    return (await app.jobs.get(job_id)).state is State.BLOCKED
