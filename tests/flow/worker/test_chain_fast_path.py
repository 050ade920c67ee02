"""Steps that follow each other in one process, and what they hand on."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually, let_others_run, nothing_happens_for

from rowlock import Retry, SyncContext
from rowlock.flow.claim.claimer import Claimer
from rowlock.flow.run.outputs import filled, referenced_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from rowlock import Rowlock
    from rowlock.flow.worker.worker import Worker
    from rowlock.model.released_jobs import ReleasedJob
    from rowlock.store.database import Record

    Sql = asyncpg.Connection[asyncpg.Record]


def line_of(*kinds: str, args: dict[str, dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any column
    """A plan of steps one behind the other, named after their kinds and places."""
    names = [f"{kind}{n}" for n, kind in enumerate(kinds)]
    steps = [
        {"name": name, "kind": kind, "args": (args or {}).get(name, {}), **more}
        for name, kind in zip(names, kinds, strict=True)
    ]
    edges = [{"upstream": up, "downstream": down} for up, down in itertools.pairwise(names)]
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
        ctx.check()
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
    asked: list[int] = []
    claim = Claimer.claim_released

    async def claim_released(self: Claimer, steps: Sequence[ReleasedJob], lane: str) -> list[Record]:
        asked.extend(step.id for step in steps)
        return await claim(self, steps, lane)

    monkeypatch.setattr(Claimer, "claim_released", claim_released)
    async with app.worker():
        output = {
            f"{kind}{n}": {"n": {"$output": before}}
            for before, kind, n in (("one0", "two", 1), ("two1", "one", 2), ("one2", "two", 3))
        }
        workflow, jobs = await start(app, line_of("one", "two", "one", "two", args=output))
        await ended(sql, workflow)
    assert ran == ["one", "two", "one", "two"]
    assert asked == [jobs["two1"], jobs["one2"], jobs["two3"]]
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
            {"name": "bad", "kind": "bad", "max_attempts": 1},
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
    assert referenced_steps(args) == ["x"]
    assert filled(args, {"x": {"$output": "y"}}) == {"a": {"$output": "y"}, "b": [{"$output": "x", "more": 1}]}


HELD = ("no slot", "full cap", "full gate")
LANES: dict[str, dict[str, Any]] = {
    "no slot": {"slots": 1},
    "strict lane": {"order": "strict"},
    "full cap": {"max_total": 1},
    "higher priority": {"slots": 1},
    "spent rate": {"rate": "1/1h"},
}


def declare_two(app: Rowlock, obstacle: str, free: asyncio.Event, workers: list[Worker]) -> list[str]:
    """A step in a lane of its own and the one behind it; returns what ran, in order. workers: those that run them."""
    order: list[str] = []

    @app.job
    async def head() -> None:
        order.append("head")
        if obstacle == "higher priority":
            # Nobody is woken for it: only the claim itself can see that it comes first.
            connection = await app.database().connect("test")
            await connection.execute(
                "INSERT INTO rowlock.jobs (kind, priority, args) VALUES ('tail', 50, '{\"who\": \"urgent\"}')"
            )
            await connection.close()
        elif obstacle == "drained lane":
            await app.lanes.drain("second")
            await eventually(lambda: _async(not any(worker.lanes["second"].enabled for worker in workers)))

    @app.job
    async def tail(who: str = "tail") -> None:
        order.append(who)
        if who == "holder":
            await free.wait()

    app.lanes.define("first", kinds=["head"])
    app.lanes.define("second", kinds=["tail"], **LANES.get(obstacle, {}))
    return order


@pytest.mark.parametrize("obstacle", [*HELD, "strict lane", "drained lane", "higher priority"])
async def test_a_released_step_respects_what_holds_for_any_job(app: Rowlock, sql: Sql, obstacle: str) -> None:
    free, database = asyncio.Event(), app.database()
    workers: list[Worker] = []
    order = declare_two(app, obstacle, free, workers)
    await database.fetch("register_pairs", kinds=["tail"], priorities=[50], shares=[0])
    await database.fetch("register_gates", keys=["g"], limits=[1], fifos=[False])
    plan = line_of("head", "tail")
    gate = "g" if obstacle == "full gate" else None
    plan["steps"][1]["gate_key"] = gate
    async with app.worker() as worker:
        assert worker is not None
        workers.append(worker)
        if obstacle in HELD:
            await app.task("tail").options(gate=gate).enqueue(who="holder")
            await eventually(lambda: _async("holder" in order))
        workflow, jobs = await start(app, plan)
        if obstacle in (*HELD, "drained lane"):
            await eventually(lambda: sql.fetchval("SELECT state = 'completed' FROM jobs WHERE id = $1", jobs["head0"]))
            await nothing_happens_for(0.05)
            assert "tail" not in order
            free.set()
        if obstacle == "drained lane":
            await app.lanes.resume("second")
        await ended(sql, workflow)
    if obstacle == "higher priority":
        assert order == ["head", "urgent", "tail"]


async def test_a_released_step_counts_for_the_rate_of_its_lane(
    app: Rowlock, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, answers = asyncio.Event(), list[int]()
    free.set()
    order = declare_two(app, "spent rate", free, [])
    claim = Claimer.claim_released

    async def claim_released(self: Claimer, steps: Sequence[ReleasedJob], lane: str) -> list[Record]:
        rows = await claim(self, steps, lane)
        answers.append(len(rows))
        return rows

    monkeypatch.setattr(Claimer, "claim_released", claim_released)
    async with app.worker():
        await (await app.task("tail").enqueue(who="holder")).wait(timeout=20)
        workflow, _ = await start(app, line_of("head", "tail"))
        await eventually(lambda: _async(answers))
        assert (answers, order) == ([0], ["holder", "head"])
        await app.lanes.set("second", rate="off")
        await ended(sql, workflow)
    assert order[-1] == "tail"


async def _async(value: object) -> object:
    return value


async def test_a_worker_that_stops_gives_back_what_it_had_just_claimed(app: Rowlock, sql: Sql) -> None:
    declare(app)
    stopping = asyncio.Event()

    @app.job
    async def last() -> None:
        stopping.set()
        await let_others_run()

    worker = app.make_worker()
    await worker.start()
    await start(app, line_of("last", "one"))
    await stopping.wait()
    await worker.stop()
    assert await sql.fetchval("SELECT count(*) FROM jobs WHERE state = 'running'") == 0


async def test_a_retried_step_takes_along_what_is_behind_it(app: Rowlock, sql: Sql) -> None:
    good = asyncio.Event()
    ran = declare(app)

    @app.job(retry=Retry(attempts=1))
    async def shaky() -> None:
        if not good.is_set():
            raise ValueError

    async with app.worker():
        workflow, jobs = await start(app, line_of("one", "shaky", "two", max_attempts=1))
        await ended(sql, workflow, "failed")
        good.set()
        await app.jobs.retry(jobs["shaky1"], by="ada", note="again")
        await ended(sql, workflow)
    assert ran[0] == "one"
    assert ran[-1] == "two"
    assert ran.count("one") == 1
    acts = (await app.jobs.history(jobs["shaky1"])).acts
    assert [(act.verb, act.by, act.note) for act in acts][-1] == ("retry", "ada", "again")
    assert await sql.fetchval("SELECT count(*) FROM audit WHERE action = 'job.retry'") >= 1
