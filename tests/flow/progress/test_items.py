"""Items: many named parts of one job, under concurrency, failures, stops and retries."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.waiting import eventually, let_others_run, until_cancelled

import rowlock
from rowlock import ItemContext, ItemCounts, ItemRef, ItemsDone, Retry, Skip, SyncContext, SyncItemContext
from rowlock.errors import ClaimLost, DatabaseUnreachable, InvalidOption, WrongState
from rowlock.flow.progress.base_context import io_of
from rowlock.flow.progress.reporter import Reporter
from rowlock.model.state import State

if TYPE_CHECKING:
    import asyncpg

    from rowlock import Rowlock
    from rowlock.model.job import Job

AT_ONCE = Retry(attempts=3, minimum="0s", jitter="0s")
ONCE = Retry(attempts=1)


def counts(job: Job) -> ItemCounts | None:
    return job.progress.items if job.progress is not None else None


async def counted(sql: asyncpg.Connection[asyncpg.Record], job_id: int) -> ItemCounts:
    """The counts as the rows themselves tell them."""
    rows = await sql.fetch(
        "SELECT i.state, count(*) AS n FROM job_items i JOIN job_progress p USING (job_id, fence)"
        " WHERE i.job_id = $1 GROUP BY 1",
        job_id,
    )
    return ItemCounts(**{row["state"]: row["n"] for row in rows})


async def judge(ctx: ItemContext, thing: str) -> str:
    await let_others_run()
    if thing.startswith("bad"):
        message = f"{ctx.name} is bad"
        raise RuntimeError(message)
    if thing.startswith("old"):
        raise Skip("superseded")
    return thing.upper()


def judge_sync(ctx: SyncItemContext, thing: str) -> str:
    if thing.startswith("bad"):
        message = f"{ctx.name} is bad"
        raise RuntimeError(message)
    if thing.startswith("old"):
        raise Skip("superseded")
    return thing.upper()


def declared(app: Rowlock, how: str) -> Any:  # noqa: ANN401 - a task
    if how == "async":

        @app.job(retry=ONCE)
        async def edit(ctx: rowlock.Context, names: list[str]) -> int:
            async with ctx.phase("editions"):
                done = await ctx.items(names, judge, limit=3)
            assert set(done.results) | set(done.skipped) | set(done.failed) == set(names)
            return len(done.results)
    else:

        @app.job(retry=ONCE)
        def edit(ctx: SyncContext, names: list[str]) -> int:
            with ctx.phase("editions"):
                done = ctx.items(names, judge_sync, limit=3)
            assert set(done.results) | set(done.skipped) | set(done.failed) == set(names)
            return len(done.results)

    return edit


@pytest.mark.parametrize("how", ["async", "blocking"])
async def test_failures_are_collected_and_the_others_go_on(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record], how: str
) -> None:
    edit = declared(app, how)
    names = ["main", "bad-1", "old-1", "v2", "bad-2", "v3"]
    async with app.worker():
        handle = await edit.enqueue(names)
        job = await app.jobs.wait(handle.id, timeout=20)
    assert job.state is State.COMPLETED_WITH_ERRORS
    assert job.result == 3
    assert job.errors is not None
    assert job.errors["items_failed"] == 2
    told = cast("list[str]", job.errors["errors"])
    assert sorted(told) == ["bad-1: RuntimeError: bad-1 is bad", "bad-2: RuntimeError: bad-2 is bad"]
    assert counts(job) == ItemCounts(0, 3, 1, 2, total=6)
    assert (job.progress.phase, job.progress.done, job.progress.total) == ("editions", 6, 6)  # type: ignore[union-attr]  # reported
    items = await app.jobs.items(handle.id)
    assert [item.name for item in items] == sorted(names)
    assert {item.reason for item in items if item.state == "skipped"} == {"superseded"}
    (first, second) = await app.jobs.items(handle.id, states=["failed"])
    assert first.error is not None
    assert "bad-1 is bad" in str(first.error["traceback"])
    assert all(item.started_at and item.ended_at and item.started_at <= item.ended_at for item in items)
    assert await app.jobs.items(handle.id, after=second.key, limit=2) == items[2:4]
    assert await counted(sql, handle.id) == ItemCounts(0, 3, 1, 2)


async def test_counts_are_exact_after_a_thousand_moves_from_everywhere(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    """Coroutines of a parent and two child jobs that have its references, each flushing in between."""
    gate = asyncio.Event()

    @app.job(retry=ONCE)
    async def child(ctx: rowlock.Context, refs: list[ItemRef]) -> None:
        for n, ref in enumerate(refs):
            async with ctx.item(ref):
                if n % 20 == 0:
                    await io_of(ctx).channel.flush()
                if n % 5 == 0:
                    raise Skip("every fifth")

    @app.job(retry=ONCE)
    async def parent(ctx: rowlock.Context) -> None:
        refs = [await ctx.hand_over(f"theirs-{n:03}") for n in range(40)]
        children = [await child.enqueue(refs[:20]), await child.enqueue(refs[20:])]

        async def mine(item: ItemContext, n: int) -> None:
            await let_others_run()
            if n % 50 == 0:
                await io_of(ctx).channel.flush()
            if n % 10 == 0:
                raise ValueError(item.name)

        await ctx.items(range(400), mine, name=lambda n: f"mine-{n}", limit=16)
        for one in children:
            await one.wait(timeout=20)
        gate.set()

    async with app.worker(name="one"), app.worker(name="two"):
        handle = await parent.enqueue()
        job = await app.jobs.wait(handle.id, timeout=30)
    assert gate.is_set()
    # The 40 that were handed over: 8 skipped, 32 completed; of its own 400: 40 failed.
    assert counts(job) == ItemCounts(0, 360 + 32, 8, 40, total=400)
    assert await counted(sql, handle.id) == ItemCounts(0, 392, 8, 40)


async def test_an_item_handed_over_is_left_alone_once_its_attempt_is_over(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    refs: list[ItemRef] = []

    @app.job(retry=ONCE)
    async def parent(ctx: rowlock.Context) -> None:
        refs.append(await ctx.hand_over("theirs"))

    @app.job(retry=ONCE)
    async def child(ctx: rowlock.Context, ref: ItemRef) -> str:
        async with ctx.item(ref):
            pass
        return "done"

    async with app.worker():
        await (await parent.enqueue()).wait(timeout=10)
        assert await (await child.enqueue(refs[0])).wait(timeout=10) == "done"
    assert await sql.fetchval("SELECT state FROM job_items") == "in_progress"


async def test_a_stale_claim_moves_no_item(app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]) -> None:
    stopped, heard = asyncio.Event(), []

    @app.job(retry=ONCE)
    async def work(ctx: rowlock.Context) -> None:
        async with ctx.item("first"):
            await io_of(ctx).channel.flush()
        try:
            await stopped.wait()
            async with ctx.item("second"):
                await ctx.checkpoint.save(1)
        except (ClaimLost, asyncio.CancelledError) as error:
            heard.append(error)
            raise

    async with app.worker():
        handle = await work.enqueue()
        await eventually(lambda: sql.fetchval("SELECT count(*) FROM job_items"))
        await app.jobs.stop(handle.id)
        stopped.set()
        await eventually(lambda: _truth(heard))
    assert [row["name"] for row in await sql.fetch("SELECT name FROM job_items")] == ["first"]


async def _truth(value: object) -> object:
    return value


def resuming(app: Rowlock, how: str, ran: list[str], *, resume: bool) -> Any:  # noqa: ANN401 - a task
    """Of three items the second one fails at first, and the job with it."""

    def one(ctx: ItemContext | SyncItemContext, thing: str) -> None:
        ran.append(thing)
        if thing == "b" and ctx.job.attempt == 1:
            raise ValueError

    async def one_async(ctx: ItemContext, thing: str) -> None:
        one(ctx, thing)

    def judged(done: ItemsDone[None]) -> None:
        if done.failed:
            raise OSError

    if how == "async":

        @app.job(retry=AT_ONCE)
        async def work(ctx: rowlock.Context) -> None:
            judged(await ctx.items(["a", "b", "c"], one_async, resume=resume))
    else:

        @app.job(retry=AT_ONCE)
        def work(ctx: SyncContext) -> None:
            judged(ctx.items(["a", "b", "c"], one, resume=resume))

    return work


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("how", ["async", "blocking"])
async def test_a_retry_resumes_only_when_asked(app: Rowlock, how: str, resume: bool) -> None:
    ran: list[str] = []
    async with app.worker():
        handle = await resuming(app, how, ran, resume=resume).enqueue()
        job = await app.jobs.wait(handle.id, timeout=20)
    assert job.state is State.COMPLETED
    assert sorted(ran) == (["a", "b", "b", "c"] if resume else ["a", "a", "b", "b", "c", "c"])
    assert counts(job) == ItemCounts(0, 3, 0, 0, total=3)
    assert job.progress is not None
    assert job.progress.done == 3


async def test_retrying_only_the_failed_items_is_one_call(app: Rowlock) -> None:
    ran: list[str] = []
    broken = {"b", "d"}

    @app.job(retry=ONCE)
    async def work(ctx: rowlock.Context) -> int:
        async def one(_: ItemContext, thing: str) -> None:
            ran.append(thing)
            if thing in broken:
                raise ValueError(thing)
            if thing == "e":
                raise Skip("not needed")

        return len((await ctx.items("abcde", one)).results)

    @app.job
    async def plain() -> None: ...

    async with app.worker():
        handle = await work.enqueue()
        job = await app.jobs.wait(handle.id, timeout=10)
        assert job.state is State.COMPLETED_WITH_ERRORS
        ran.clear()
        broken.remove("b")
        await app.jobs.retry(handle.id, items="failed")
        job = await app.jobs.wait(handle.id, timeout=10)
        assert (sorted(ran), job.state) == (["b", "d"], State.COMPLETED_WITH_ERRORS)
        assert counts(job) == ItemCounts(0, 3, 1, 1, total=5)
        ran.clear()
        broken.clear()
        await app.jobs.retry(handle.id)
        job = await app.jobs.wait(handle.id, timeout=10)
        assert (sorted(ran), job.state) == (list("abcde"), State.COMPLETED)
        other = await plain.enqueue()
        await other.wait(timeout=10)
        with pytest.raises(WrongState, match="no items"):
            await app.jobs.retry(other.id, items="failed")
        with pytest.raises(InvalidOption, match="failed"):
            await app.jobs.retry(handle.id, items="all")  # type: ignore[arg-type]  # refused


async def test_one_item_at_a_time_by_hand(app: Rowlock) -> None:
    @app.job(retry=ONCE)
    async def work(ctx: rowlock.Context) -> None:
        async with ctx.item("fine"):
            pass
        async with ctx.item("skipped"):
            raise Skip("no need")
        async with ctx.item("broken"):
            raise OSError("away")

    async with app.worker():
        handle = await work.enqueue()
        job = await app.jobs.wait(handle.id, timeout=10)
    assert job.state is State.FAILED
    assert counts(job) == ItemCounts(0, 1, 1, 1)


@pytest.mark.parametrize("name", ["", "x" * 301, "tab\tbed", 7])
async def test_a_name_that_is_none_is_the_handlers_mistake(app: Rowlock, name: Any) -> None:  # noqa: ANN401 - wrong on purpose
    @app.job(retry=ONCE)
    async def work(ctx: rowlock.Context) -> None:
        await ctx.items([1, 2], judge, name=lambda _: name)  # type: ignore[arg-type]  # wrong on purpose

    @app.job(retry=ONCE)
    async def twice(ctx: rowlock.Context) -> None:
        await ctx.items(["a", "a"], judge)

    async with app.worker():
        wrong = await app.jobs.wait((await work.enqueue()).id, timeout=10)
        same = await app.jobs.wait((await twice.enqueue()).id, timeout=10)
    for job, message in ((wrong, "An item's name is"), (same, "Two items are called 'a'")):
        assert job.errors is not None
        assert str(job.errors["message"]).startswith(message)


async def test_never_more_at_once_than_the_limit_and_a_stop_ends_them(app: Rowlock) -> None:
    now, most, ends = [0], [0], []

    @app.job(retry=ONCE)
    async def work(ctx: rowlock.Context) -> None:
        async def one(_: ItemContext, n: int) -> None:
            now[0] += 1
            most[0] = max(most[0], now[0])
            try:
                await (let_others_run() if n < 20 else until_cancelled())
            finally:
                now[0] -= 1

        async def things() -> Any:  # noqa: ANN401 - an async generator
            for n in range(100):
                yield n

        try:
            await ctx.items(things(), one, limit=4)
        except asyncio.CancelledError:
            ends.append(now[0])
            raise

    async with app.worker():
        handle = await work.enqueue()
        await eventually(lambda: _truth(now[0] == 4 and most[0]))
        await app.jobs.cancel(handle.id)
        job = await app.jobs.wait(handle.id, timeout=10)
    assert (most[0], ends, job.state) == (4, [0], State.CANCELLED)
    assert counts(job) == ItemCounts(4, 20, 0, 0)


async def test_threads_stop_between_items(app: Rowlock) -> None:
    begun, go = threading.Semaphore(0), threading.Event()
    ran, contexts = [], list[SyncContext]()

    @app.job(retry=ONCE)
    def work(ctx: SyncContext) -> None:
        contexts.append(ctx)

        def one(_: SyncItemContext, n: int) -> None:
            ran.append(n)
            begun.release()
            go.wait(20)

        ctx.items(range(50), one, limit=2)

    async with app.worker():
        handle = await work.enqueue()
        await asyncio.to_thread(lambda: [begun.acquire(timeout=20) for _ in range(2)])
        await app.jobs.cancel(handle.id)
        await eventually(lambda: _truth(contexts[0].cancelled))
        go.set()
        job = await app.jobs.wait(handle.id, timeout=10)
    assert (job.state, len(ran)) == (State.CANCELLED, 2)


async def test_ten_thousand_items_are_few_statements(app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]) -> None:
    @app.job(retry=ONCE)
    async def work(ctx: rowlock.Context) -> None:
        async def one(_: ItemContext, _n: int) -> None: ...

        await ctx.items(range(10_000), one, name=lambda n: f"item-{n}", limit=50)

    async with app.worker():
        handle = await work.enqueue()
        job = await app.jobs.wait(handle.id, timeout=60)
    assert counts(job) == ItemCounts(0, 10_000, 0, 0, total=10_000)
    # Every write of counters and of items adds one: so this is the number of statements.
    assert await sql.fetchval("SELECT n FROM job_progress") <= 30


async def test_the_last_items_are_written_though_the_database_was_away_for_a_moment(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = iter([True, True, False])
    flush = Reporter.flush

    async def sometimes(reporter: Reporter) -> None:
        if next(away, False):
            raise DatabaseUnreachable("away")
        await flush(reporter)

    @app.job(retry=ONCE)
    async def work(ctx: rowlock.Context) -> None:
        async def one(_item: ItemContext, _n: int) -> None:
            pass

        await ctx.items(range(5), one)
        monkeypatch.setattr(Reporter, "flush", sometimes)

    async with app.worker():
        job = await app.jobs.wait((await work.enqueue()).id, timeout=20)
    assert job.state is State.COMPLETED
    told = counts(job)
    assert told is not None
    assert told.completed == (await counted(sql, job.id)).completed == 5
