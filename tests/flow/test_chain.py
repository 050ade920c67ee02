"""Steps that follow each other in one process, and what they hand on."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually

from rowlock import Context, Retry, SyncContext
from rowlock.flow.chain import Chain
from rowlock.flow.outputs import filled, named

if TYPE_CHECKING:
    import asyncpg

    from rowlock import Rowlock

    Sql = asyncpg.Connection[asyncpg.Record]


def line_of(*kinds: str, args: dict[str, dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any column
    """A plan of steps one behind the other, named after their kinds and places."""
    names = [f"{kind}{n}" for n, kind in enumerate(kinds)]
    steps = [
        {"name": name, "kind": kind, "args": (args or {}).get(name, {}), **more}
        for name, kind in zip(names, kinds, strict=True)
    ]
    edges = [{"upstream": up, "downstream": down} for up, down in zip(names, names[1:], strict=False)]
    return {"steps": steps, "edges": edges}


async def start(app: Rowlock, plan: dict[str, Any]) -> tuple[int, dict[str, int]]:
    about = {"name": "f", "tenant": None, "submitted_by": None, "unique_key": None, "meta": None}
    rows = await app.database().fetch("workflow_start", **about, plan=json.dumps(plan))
    await app.database().fetch("notify", channel=app.database().channel, payload='{"wake":[]}')
    return rows[0]["workflow_id"], {row["name"]: row["job_id"] for row in rows}


async def ended(sql: Sql, workflow: int, state: str = "completed") -> None:
    await eventually(lambda: sql.fetchval("SELECT finished_at IS NOT NULL FROM workflows WHERE id = $1", workflow))
    assert await sql.fetchval("SELECT state FROM workflows WHERE id = $1", workflow) == state


def declare(app: Rowlock) -> list[str]:
    """Steps of every executor that hand numbers on; returns what ran, in order."""
    ran: list[str] = []

    @app.job
    async def one(n: int = 0) -> int:
        ran.append("one")
        return n + 1

    @app.job
    def two(ctx: SyncContext, n: int = 0) -> int:
        ran.append("two")
        return n + 1

    @app.job
    async def total(ns: list[int | None], deep: dict[str, Any]) -> str:
        ran.append("total")
        return f"{ns} {deep}"

    return ran


async def test_a_chain_goes_on_in_the_process_that_finished_its_last_step(
    app: Rowlock, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = declare(app)
    left: list[object] = []
    monkeypatch.setattr(Chain, "_leave", lambda _self, steps: left.extend(steps))
    async with app.worker():
        output = {
            f"{kind}{n}": {"n": {"$output": before}}
            for before, kind, n in (("one0", "two", 1), ("two1", "one", 2), ("one2", "two", 3))
        }
        workflow, jobs = await start(app, line_of("one", "two", "one", "two", args=output))
        await ended(sql, workflow)
    assert ran == ["one", "two", "one", "two"]
    assert left == []
    assert await sql.fetchval("SELECT result FROM jobs WHERE id = $1", jobs["two3"]) == "4"
    assert await sql.fetchval("SELECT count(DISTINCT claimed_by) FROM jobs") == 1
    assert await sql.fetchval("SELECT max(attempt) FROM jobs") == 1


async def test_results_arrive_in_lists_and_deep_down_and_missing_ones_are_null(app: Rowlock, sql: Sql) -> None:
    declare(app)

    @app.job(retry=Retry(attempts=1))
    async def bad() -> None:
        raise ValueError

    args = {"ns": [{"$output": "a"}, {"$output": "bad"}], "deep": {"x": [{"y": {"$output": "a"}}], "$output": 3}}
    plan = {
        "steps": [
            {"name": "a", "kind": "one", "args": {"n": 6}},
            {"name": "bad", "kind": "bad"},
            {"name": "t", "kind": "total", "args": args},
        ],
        "edges": [{"upstream": up, "downstream": "t", "needs": "finish"} for up in ("a", "bad")],
    }
    async with app.worker():
        workflow, jobs = await start(app, plan)
        await ended(sql, workflow, "completed_with_errors")
    text = json.loads(await sql.fetchval("SELECT result FROM jobs WHERE id = $1", jobs["t"]))
    assert text == "[7, None] {'x': [{'y': 7}], '$output': 3}"
    # Stored arguments stay as they were written.
    assert "$output" in await sql.fetchval("SELECT args FROM jobs WHERE id = $1", jobs["t"])


def test_a_result_that_looks_like_an_output_is_left_alone() -> None:
    args = {"a": {"$output": "x"}, "b": [{"$output": "x", "more": 1}]}
    assert named(args) == ["x"]
    assert filled(args, {"x": {"$output": "y"}}) == {"a": {"$output": "y"}, "b": [{"$output": "x", "more": 1}]}


@pytest.mark.parametrize(
    "obstacle", ["no slot", "strict lane", "drained lane", "full cap", "higher priority", "full gate"]
)
async def test_a_released_step_respects_what_holds_for_any_job(app: Rowlock, sql: Sql, obstacle: str) -> None:
    order: list[str] = []
    free, entered = asyncio.Event(), asyncio.Event()

    @app.job(lane="first")
    async def head() -> None:
        order.append("head")
        if obstacle == "higher priority":
            await sql.execute("INSERT INTO jobs (kind, priority, args) VALUES ('tail', 50, '{\"who\": \"urgent\"}')")
        elif obstacle == "drained lane":
            await app.lanes.drain("second")
            await eventually(lambda: _async(not worker.lanes["second"].enabled))

    @app.job(lane="second")
    async def tail(who: str = "tail") -> None:
        order.append(who)
        if who == "holder":
            entered.set()
            await free.wait()

    lane = {
        "no slot": {"slots": 1},
        "strict lane": {"order": "strict"},
        "full cap": {"max_total": 1},
        "higher priority": {"slots": 1},
    }
    app.lanes.define("first", kinds=["head"])
    app.lanes.define("second", kinds=["tail"], **lane.get(obstacle, {}))
    if obstacle == "higher priority":
        # The pair is known: somebody enqueued such jobs before.
        await app.database().fetch("register_pairs", kinds=["tail"], priorities=[50], shares=[0])
    plan = line_of("head", "tail")
    if obstacle == "full gate":
        await app.database().fetch("register_gates", keys=["g"], limits=[1], fifos=[False])
        plan["steps"][1]["gate_key"] = "g"
    async with app.worker() as worker:
        if obstacle in ("no slot", "full cap", "full gate"):
            holder = app.task("tail")
            if obstacle == "full gate":
                await holder.options(gate="g").enqueue(who="holder")
            else:
                await holder.enqueue(who="holder")
            await entered.wait()
        workflow, jobs = await start(app, plan)
        if obstacle in ("no slot", "full cap", "full gate", "drained lane"):
            await eventually(lambda: sql.fetchval("SELECT state = 'completed' FROM jobs WHERE id = $1", jobs["head0"]))
            await asyncio.sleep(0.05)
            assert "tail" not in order
            free.set()
            if obstacle == "drained lane":
                await app.lanes.resume("second")
        await ended(sql, workflow)
        await eventually(lambda: _async("urgent" in order or obstacle != "higher priority"))
    if obstacle == "higher priority":
        assert order == ["head", "urgent", "tail"]


async def _async(value: object) -> object:
    return value


async def test_a_worker_that_stops_gives_back_what_it_had_just_claimed(app: Rowlock, sql: Sql) -> None:
    declare(app)
    stopping = asyncio.Event()

    @app.job
    async def last(ctx: Context) -> None:
        stopping.set()
        await asyncio.sleep(0)

    worker = app.make_worker()
    await worker.start()
    await start(app, line_of("last", "one"))
    await stopping.wait()
    await worker.stop()
    assert await sql.fetchval("SELECT count(*) FROM jobs WHERE state = 'running'") == 0
