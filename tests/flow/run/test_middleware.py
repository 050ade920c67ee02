from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from rowlock import ConfigurationError, Context, Enqueuing, InvalidOption, Rowlock, State, UniqueConflict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator


@pytest.mark.parametrize("blocking", [False, True])
async def test_middleware_surrounds_every_job_the_first_outermost(app: Rowlock, blocking: bool) -> None:
    said: list[str] = []

    def around(name: str) -> Callable[[Context, Callable[[], Awaitable[object]]], Awaitable[object]]:
        async def middleware(ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
            said.append(f"{name} before {ctx.job.kind}")
            try:
                value = await call()
            except Exception as error:
                said.append(f"{name} saw {error!r}")
                raise
            said.append(f"{name} after {value}")
            return value

        return middleware

    app.middleware(around("outer"))
    if blocking:

        @app.job("work")
        def work(n: int) -> int:
            return 2 * n // n
    else:

        @app.job("work")
        async def awork(n: int) -> int:
            return 2 * n // n

    app.middleware(around("inner"))
    async with app.worker():
        assert await (await app.task("work").enqueue(n=1)).wait(timeout=20) == 2
        job = await app.task("work").options(max_attempts=1).enqueue(n=0)
        assert (await app.jobs.wait(job.id, timeout=20)).state is State.FAILED
    assert said[:4] == ["outer before work", "inner before work", "inner after 2", "outer after 2"]
    assert [line.partition("(")[0] for line in said[4:]] == [
        *("outer before work", "inner before work"),
        *("inner saw ZeroDivisionError", "outer saw ZeroDivisionError"),
    ]


async def test_what_middleware_returns_or_raises_is_the_outcome(app: Rowlock) -> None:
    @app.middleware
    async def strict(ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
        if ctx.job.meta.get("skip"):
            return "skipped"
        if ctx.job.meta.get("refuse"):
            raise PermissionError("not now")
        return f"<{await call()}>"

    @app.job
    async def work() -> str:
        return "done"

    async with app.worker():
        assert await (await work.enqueue()).wait(timeout=20) == "<done>"
        assert await (await work.options(meta={"skip": True}).enqueue()).wait(timeout=20) == "skipped"
        refused = await work.options(meta={"refuse": True}, max_attempts=1).enqueue()
        ended = await app.jobs.wait(refused.id, timeout=20)
        assert (ended.errors or {})["message"] == "not now"


def test_middleware_of_the_wrong_kind_is_refused() -> None:
    app = Rowlock("postgresql://nowhere/x")
    with pytest.raises(ConfigurationError, match=r"async def plain\(ctx, call\): return await call\(\)"):

        @app.middleware  # type: ignore[type-var]
        def plain(ctx: Context, call: object) -> None: ...

    with pytest.raises(ConfigurationError, match="stamp: enqueue middleware is a plain function or a generator"):

        @app.enqueue_middleware  # type: ignore[type-var]
        async def stamp(enqueuing: Enqueuing) -> None: ...


def test_a_kind_with_nothing_around_it_pays_nothing() -> None:
    app = Rowlock("postgresql://nowhere/x")

    @app.job
    async def work() -> None: ...

    assert app.handlers["work"].wrapper is None


# --- around enqueue --------------------------------------------------------------------------------------------------


async def test_enqueue_middleware_sees_every_way_to_enqueue_once_per_call(app: Rowlock, database_url: str) -> None:
    seen: list[tuple[str, list[dict[str, Any]], tuple[int, ...], tuple[int, ...]]] = []

    @app.enqueue_middleware
    def watch(enqueuing: Enqueuing) -> Iterator[None]:
        calls = [dict(call) for call in enqueuing.calls]
        before = enqueuing.ids
        enqueuing.add_meta(trace="abc")
        yield
        seen.append((enqueuing.kind, calls, before, enqueuing.ids))

    @app.enqueue_middleware
    def stamp(enqueuing: Enqueuing) -> None:
        enqueuing.add_tags("stamped")
        enqueuing.set(priority=7)

    @app.job
    async def work(a: int, b: int = 2) -> None: ...

    first = await work.options(meta={"mine": 1}, tags=["x"]).enqueue(1)
    second = await in_thread(lambda: work.enqueue_sync(2, b=3))
    many = await work.enqueue_many([{"a": 3}, {"a": 4}])
    more = await in_thread(lambda: work.enqueue_many_sync([{"a": 5}]))
    with psycopg.connect(database_url) as connection:
        joined = await in_thread(lambda: work.options(connection=connection).enqueue_sync(6))
        connection.commit()
    assert seen == [
        ("work", [{"a": 1, "b": 2}], (), (first.id,)),
        ("work", [{"a": 2, "b": 3}], (), (second.id,)),
        ("work", [{"a": 3}, {"a": 4}], (), tuple(job.id for job in many)),
        ("work", [{"a": 5}], (), (more[0].id,)),
        ("work", [{"a": 6, "b": 2}], (), (joined.id,)),
    ]
    jobs = await app.jobs.many([first.id, *(job.id for job in many), joined.id])
    assert {job.priority for job in jobs} == {7}
    assert jobs[0].meta == {"mine": 1, "trace": "abc"}
    assert (jobs[0].tags, jobs[1].meta, jobs[1].tags) == (("x", "stamped"), {"trace": "abc"}, ("stamped",))


async def test_enqueue_middleware_may_refuse_but_not_hide_a_failure(app: Rowlock) -> None:
    @app.enqueue_middleware
    def hide(_: Enqueuing) -> Iterator[None]:
        with contextlib.suppress(UniqueConflict):
            yield

    @app.enqueue_middleware
    def refuse(enqueuing: Enqueuing) -> None:
        if enqueuing.options.priority == 100:
            raise PermissionError("too important")
        if enqueuing.options.priority == 99:
            enqueuing.set(urgency=3)

    @app.job
    async def work() -> None: ...

    await work.options(unique_key="k").enqueue()
    with pytest.raises(UniqueConflict):
        await work.options(unique_key="k").enqueue()
    with pytest.raises(PermissionError, match="too important"):
        await work.options(priority=100).enqueue()
    with pytest.raises(InvalidOption, match=r"set\(\) has no option 'urgency'. It has .*priority"):
        await work.options(priority=99).enqueue()
    assert len(await app.jobs.list()) == 1


async def in_thread(call: Callable[[], Any]) -> Any:  # noqa: ANN401 - the call's own
    return await asyncio.to_thread(call)


def test_a_module_imported_again_replaces_its_own() -> None:
    app = Rowlock("postgresql://nowhere/x")
    source = "async def around(ctx, call):\n    return await call()\ndef stamp(new): ...\ndef life():\n    yield\n"
    for _ in range(2):
        module: dict[str, Any] = {}
        exec(compile(source, "module.py", "exec"), module)  # noqa: S102 - a module that is imported twice
        app.middleware(module["around"])
        app.enqueue_middleware(module["stamp"])
        app.worker_lifespan(module["life"])
    assert app._extensions.middleware == [module["around"]]
    assert app._extensions.enqueue_middleware == [module["stamp"]]
    assert app._extensions.scopes.lifespans == [module["life"]]
