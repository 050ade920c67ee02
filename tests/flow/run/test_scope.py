from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator  # noqa: TC003 - providers' annotations are read at run time
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from tests.waiting import eventually, in_time, until_cancelled

from rowlock import ConfigurationError, Context, Depends, Rowlock, StartFailed, SyncContext

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_lifespans_surround_all_jobs_and_what_they_yield_is_the_state(app: Rowlock) -> None:
    said: list[str] = []

    @app.worker_lifespan
    async def outer() -> AsyncIterator[dict[str, Any]]:
        async with asyncio.timeout(60):  # can only be left by the task that entered it
            said.append("outer in")
            yield {"pool": "p"}
            said.append("outer out")

    @app.worker_lifespan
    def inner() -> Iterator[dict[str, Any]]:
        said.append("inner in")
        yield {"model": "m"}
        said.append("inner out")

    @app.job
    async def first(ctx: Context) -> str:
        said.append("first")
        return f"{ctx.state['pool']}{ctx.state['model']}"

    @app.job
    def second(ctx: SyncContext) -> str:
        return f"{ctx.state['pool']}{ctx.state['model']}"

    async with app.worker():
        assert said == ["outer in", "inner in"]
        assert await (await first.enqueue()).wait(timeout=20) == "pm"
        assert await (await second.enqueue()).wait(timeout=20) == "pm"
    assert said == ["outer in", "inner in", "first", "inner out", "outer out"]


async def test_without_a_lifespan_the_state_is_empty(app: Rowlock) -> None:
    @app.job
    async def work(ctx: Context) -> int:
        return len(ctx.state)

    async with app.worker():
        assert await (await work.enqueue()).wait(timeout=20) == 0


async def test_a_failing_lifespan_keeps_the_worker_from_starting(
    app: Rowlock, caplog: pytest.LogCaptureFixture
) -> None:
    left: list[str] = []

    @app.worker_lifespan
    def fine() -> Iterator[None]:
        yield
        left.append("fine")

    @app.worker_lifespan
    async def broken() -> AsyncIterator[None]:
        raise OSError("no model at /models/x")
        yield

    @app.job
    async def work() -> None: ...

    job = await work.enqueue()
    with pytest.raises(
        StartFailed, match="The worker did not start: broken failed with OSError: no model at /models/x"
    ):
        async with app.worker():
            pass
    assert left == ["fine"]
    assert (await job.job()).state == "queued"
    assert await app.workers.list() == []
    assert "broken failed, so this worker does not start" in caplog.text


async def test_lifespans_that_yield_the_wrong_thing_are_refused(make_app: Callable[..., Rowlock]) -> None:
    first, second = make_app(), make_app()

    @first.worker_lifespan
    def number() -> Iterator[int]:
        yield 3

    for _ in range(2):
        second.worker_lifespan(type("Pool", (), {"__call__": lambda _: {"a": 1}, "__module__": "x"})())
    with pytest.raises(StartFailed, match="number failed with ConfigurationError: A lifespan yields a mapping"):
        async with first.worker_scope():
            pass
    with pytest.raises(StartFailed, match=r"yields once, or returns a context manager; it returned \{'a': 1\}"):
        async with second.worker_scope():
            pass
    with pytest.raises(ConfigurationError, match="returns: a lifespan yields once"):

        @first.worker_lifespan
        async def returns() -> None: ...


async def test_two_lifespans_with_one_key_are_refused(app: Rowlock) -> None:
    @app.worker_lifespan
    def first() -> Iterator[dict[str, Any]]:
        yield {"pool": 1}

    @app.worker_lifespan
    def second() -> Iterator[dict[str, Any]]:
        yield {"pool": 2}

    with pytest.raises(StartFailed, match="second yields 'pool', which another lifespan yields already"):
        async with app.worker_scope():
            pass


async def test_a_worker_stopped_while_its_lifespan_starts_leaves_what_was_entered(app: Rowlock) -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    @app.worker_lifespan
    async def slow() -> AsyncIterator[None]:
        try:
            entered.set()
            await until_cancelled()
            yield
        finally:
            left.set()

    worker = app.make_worker()
    starting = asyncio.create_task(worker.start())
    await in_time(entered.wait())
    await worker.stop()
    assert left.is_set()
    await asyncio.gather(starting, return_exceptions=True)


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_dependency_of_the_worker_is_made_once_and_lives_until_it_stops(app: Rowlock, blocking: bool) -> None:
    said: list[str] = []

    async def pool() -> AsyncIterator[list[int]]:
        async with asyncio.timeout(60):
            said.append("made")
            yield [7]
            said.append("left")

    def client(p: Annotated[list[int], Depends(pool, scope="worker")]) -> list[int]:
        return [*p, 8]

    if blocking:

        @app.job("work")
        def work(
            p: Annotated[list[int], Depends(pool, scope="worker")],
            c: Annotated[list[int], Depends(client, scope="worker")],
        ) -> list[int]:
            p.append(1)
            return [*p, *c]
    else:

        @app.job("work")
        async def awork(
            p: Annotated[list[int], Depends(pool, scope="worker")],
            c: Annotated[list[int], Depends(client, scope="worker")],
        ) -> list[int]:
            p.append(1)
            return [*p, *c]

    async with app.worker():
        assert said == ["made"]
        assert await (await app.task("work").enqueue()).wait(timeout=20) == [7, 1, 7, 8]
        assert await (await app.task("work").enqueue()).wait(timeout=20) == [7, 1, 1, 7, 8]
        with app.override(pool, lambda: [0]):
            assert await (await app.task("work").enqueue()).wait(timeout=20) == [0, 1, 7, 8]
        assert said == ["made"]
    assert said == ["made", "left"]


async def test_workers_of_one_loop_share_a_scope_and_the_last_one_closes_it(app: Rowlock) -> None:
    said: list[str] = []

    @app.worker_lifespan
    def lifespan() -> Iterator[None]:
        said.append("in")
        yield
        said.append("out")

    async with app.worker():
        async with app.worker() as second:
            assert second is not None
        assert said == ["in"]
    assert said == ["in", "out"]


async def test_only_kinds_the_worker_serves_are_prepared_and_others_at_first_need(app: Rowlock) -> None:
    made: list[str] = []

    def model() -> str:
        made.append("model")
        return "big"

    @app.job(lane="gpu")
    async def infer(model: Annotated[str, Depends(model, scope="worker")]) -> str:
        return model

    async with app.worker(["default"]), app.worker_scope(["nothing"]):
        assert made == []
        async with app.worker(["gpu"]):
            assert made == ["model"]
            assert await (await app.task("infer").enqueue()).wait(timeout=20) == "big"
    async with app.worker(["default"]):
        assert made == ["model"]
    job = await app.task("infer").enqueue()
    assert (await app.run_job(job.id)).result == "big"
    assert made == ["model", "model"]


async def test_a_failing_dependency_of_the_worker_keeps_it_from_starting(app: Rowlock) -> None:
    def model() -> str:
        raise OSError("no such file")

    @app.job
    async def infer(model: Annotated[str, Depends(model, scope="worker")]) -> str:
        return model

    with pytest.raises(StartFailed, match="model failed with OSError: no such file"):
        async with app.worker():
            pass


async def test_the_end_of_a_lifespan_that_fails_is_logged_and_the_worker_stops(
    app: Rowlock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.worker_lifespan
    def lifespan() -> Iterator[None]:
        yield
        raise OSError("socket is gone")

    async with app.worker() as worker:
        assert worker is not None
    assert worker.stopped.is_set()
    assert "the end of a lifespan or dependency failed" in caplog.text
    await eventually(lambda: nobody(app))


async def nobody(app: Rowlock) -> bool:
    return await app.workers.list() == []
