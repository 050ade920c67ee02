from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator  # noqa: TC003 - providers' annotations are read at run time
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from tests.waiting import let_others_run, until_cancelled

from rowlock import ConfigurationError, Context, Depends, InvalidArguments, Job, Rowlock, State, SyncContext

if TYPE_CHECKING:
    from collections.abc import Generator

NOWHERE = "postgresql://nowhere/x"
SINCE = date(2026, 1, 2)


class Service:
    def __init__(self, name: str = "real") -> None:
        self.name = name


def make_service() -> Service:
    return Service()


async def test_a_marked_parameter_is_filled_by_the_worker_and_not_stored(app: Rowlock) -> None:
    @app.job
    async def greet(who: str, service: Annotated[Service, Depends(make_service)], times: int = 2) -> str:
        return f"{service.name} {who} {times}"

    job = await greet.options(unique_key=lambda who, times: f"{who}{times}").enqueue_many([{"who": "a"}])
    assert (await job[0].job()).args == {"who": "a"}
    async with app.worker():
        assert await job[0].wait(timeout=20) == "real a 2"


async def test_the_default_form_and_the_bare_class_work_too(app: Rowlock) -> None:
    @app.job
    async def first(n: int, service: Service = Depends(make_service)) -> str:
        return f"{service.name} {n}"

    @app.job
    def second(service: Annotated[Service, Depends()]) -> str:
        return service.name

    async with app.worker():
        assert await (await first.enqueue(3)).wait(timeout=20) == "real 3"
        assert await (await second.enqueue_many([{}]))[0].wait(timeout=20) == "real"


@pytest.mark.parametrize("blocking", [False, True])
async def test_every_form_of_provider_is_called_once_and_its_tail_runs_after_the_handler(
    app: Rowlock, blocking: bool
) -> None:
    said: list[str] = []

    def plain() -> str:
        said.append("plain")
        return "p"

    async def coroutine(p: Annotated[str, Depends(plain)]) -> str:
        await let_others_run()
        said.append("coroutine")
        return p + "c"

    def generator(c: Annotated[str, Depends(coroutine)]) -> Iterator[str]:
        said.append("generator")
        yield c + "g"
        said.append("generator's tail")

    async def agenerator(c: Annotated[str, Depends(coroutine)], g: str = Depends(generator)) -> AsyncIterator[str]:
        async with asyncio.timeout(30):  # can only be left by the task that entered it
            said.append("async generator")
            yield c + g + "a"
        said.append("async generator's tail")

    def body(a: str, g: str) -> str:
        said.append("handler")
        return f"{a} {g}"

    if blocking:

        @app.job("work")
        def work(a: Annotated[str, Depends(agenerator)], g: Annotated[str, Depends(generator)]) -> str:
            return body(a, g)
    else:

        @app.job("work")
        async def awork(a: Annotated[str, Depends(agenerator)], g: Annotated[str, Depends(generator)]) -> str:
            return body(a, g)

    async with app.worker():
        job = await app.task("work").enqueue()
        assert await job.wait(timeout=20) == "pcpcga pcg"
    assert said == [
        *("plain", "coroutine", "generator", "async generator"),
        "handler",
        *("async generator's tail", "generator's tail"),
    ]


async def test_without_the_cache_a_provider_is_called_for_each_parameter(app: Rowlock) -> None:
    @app.job
    async def same(a: Annotated[Service, Depends(make_service)], b: Annotated[Service, Depends(make_service)]) -> bool:
        return a is b

    @app.job
    async def other(
        a: Annotated[Service, Depends(make_service, use_cache=False)],
        b: Annotated[Service, Depends(make_service, use_cache=False)],
    ) -> bool:
        return a is b

    async with app.worker():
        assert await (await app.task("same").enqueue()).wait(timeout=20) is True
        assert await (await app.task("other").enqueue()).wait(timeout=20) is False


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_failure_is_thrown_into_the_generators_and_cannot_be_swallowed_there(
    app: Rowlock, blocking: bool
) -> None:
    seen: list[str] = []

    def swallowing() -> Iterator[int]:
        try:
            yield 1
        except ValueError as error:
            seen.append(f"swallowing {error}")

    async def translating() -> AsyncIterator[int]:
        try:
            yield 2
        except KeyError as error:
            seen.append(f"translating {error}")
            raise ValueError("translated") from error

    if blocking:

        @app.job("fail")
        def fail(a: Annotated[int, Depends(swallowing)], b: Annotated[int, Depends(translating)]) -> None:
            raise KeyError(a + b)
    else:

        @app.job("fail")
        async def afail(a: Annotated[int, Depends(swallowing)], b: Annotated[int, Depends(translating)]) -> None:
            raise KeyError(a + b)

    async with app.worker():
        job = await app.task("fail").options(max_attempts=1).enqueue()
        ended = await app.jobs.wait(job.id, timeout=20)
    assert seen == ["translating 3", "swallowing translated"]
    assert ended.state is State.FAILED
    assert ended.errors is not None
    assert (ended.errors["type"], ended.errors["message"]) == ("ValueError", "translated")


async def test_a_failing_provider_or_tail_fails_the_attempt(app: Rowlock) -> None:
    left: list[str] = []

    def outer() -> Iterator[None]:
        try:
            yield
        finally:
            left.append("outer")

    def broken(_: Annotated[None, Depends(outer)]) -> None:
        raise OSError("no database")

    def tail() -> Iterator[None]:
        yield
        raise OSError("commit failed")

    @app.job
    async def first(b: Annotated[None, Depends(broken)]) -> None: ...

    @app.job
    def second(b: Annotated[None, Depends(tail)]) -> str:
        return f"done {b}"

    async with app.worker():
        jobs = [await app.task(kind).options(max_attempts=1).enqueue() for kind in ("first", "second")]
        ended = [await app.jobs.wait(job.id, timeout=20) for job in jobs]
    assert [(job.errors or {})["message"] for job in ended] == ["no database", "commit failed"]
    assert left == ["outer"]


async def test_blocking_providers_of_a_blocking_handler_run_in_its_own_thread(app: Rowlock) -> None:
    loop_thread = threading.get_ident()

    def where() -> Iterator[list[int]]:
        seen = [threading.get_ident()]
        yield seen
        seen.append(threading.get_ident())
        told.append(seen)

    async def on_loop() -> int:
        return threading.get_ident()

    told: list[list[int]] = []

    @app.job
    def work(seen: Annotated[list[int], Depends(where)], loop: Annotated[int, Depends(on_loop)]) -> bool:
        seen.append(threading.get_ident())
        return loop == loop_thread

    async with app.worker():
        assert await (await app.task("work").enqueue()).wait(timeout=20) is True
    (seen,) = told
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert seen[0] != loop_thread


async def test_providers_may_ask_for_the_context_and_the_job(app: Rowlock) -> None:
    async def about(ctx: Context, job: Job) -> str:
        return f"{ctx.job.kind} {job.args['n']}"

    def sync_about(ctx: SyncContext, job: Job) -> str:
        return f"{ctx.job.kind} {job.args['n']}"

    @app.job
    async def first(n: int, told: str = Depends(about)) -> str:
        return f"{told} {n}"

    @app.job
    def second(n: int, told: str = Depends(sync_about), also: str = Depends(about)) -> str:
        return f"{told}, {also} {n}"

    async with app.worker():
        assert await (await first.enqueue(1)).wait(timeout=20) == "first 1 1"
        assert await (await second.enqueue(2)).wait(timeout=20) == "second 2, second 2 2"


async def test_dataclasses_callables_and_methods_are_providers(app: Rowlock) -> None:
    @dataclass
    class Settings:
        service: Annotated[Service, Depends(make_service)]
        size: int = 3

    class Factory:
        def __call__(self, settings: Annotated[Settings, Depends()]) -> int:
            return settings.size

        async def method(self, size: Annotated[int, Depends(dict)]) -> int:
            return len(str(size))

    factory = Factory()

    @app.job
    async def work(
        settings: Annotated[Settings, Depends()],
        size: Annotated[int, Depends(factory)],
        length: Annotated[int, Depends(factory.method)],
    ) -> str:
        return f"{settings.service.name} {size} {length}"

    async with app.worker():
        assert await (await app.task("work").enqueue()).wait(timeout=20) == "real 3 2"


async def test_an_injected_argument_is_refused_at_enqueue() -> None:
    app = Rowlock(NOWHERE)

    @app.job
    async def work(n: int, service: Service = Depends(make_service), m: int = 1) -> None: ...

    with pytest.raises(InvalidArguments) as caught:
        await work.enqueue(1, service=Service())
    assert str(caught.value) == ("work: argument 'service' is injected by the worker that runs the job. Leave it out.")
    with pytest.raises(InvalidArguments, match=r"work\(n: int, m: int = 1\) takes at most 1 positional arguments"):
        await work.enqueue(1, Service())


async def test_called_by_hand_a_task_takes_them_as_ordinary_arguments() -> None:
    app = Rowlock(NOWHERE)

    @app.job
    async def work(n: int, service: Service = Depends(make_service)) -> str:
        return f"{service.name} {n}"

    @app.job
    def blocking(n: int, service: Annotated[Service, Depends(make_service)]) -> str:
        return f"{service.name} {n}"

    assert await work(1, Service("fake")) == "fake 1"
    assert blocking(2, service=Service("fake")) == "fake 2"
    with pytest.raises(AttributeError, match="who calls the function directly passes that argument"):
        await work(1)


@pytest.mark.parametrize("blocking", [False, True])
async def test_override_replaces_a_provider_wherever_it_is_used(app: Rowlock, blocking: bool) -> None:
    def nested(service: Annotated[Service, Depends(make_service)]) -> str:
        return service.name

    def wrapped(service: Annotated[Service, Depends(make_service)]) -> Service:
        return Service(f"fake instead of {service.name}")

    if blocking:

        @app.job("work")
        def work(name: Annotated[str, Depends(nested)]) -> str:
            return name
    else:

        @app.job("work")
        async def awork(name: Annotated[str, Depends(nested)]) -> str:
            return name

    async with app.worker():
        with app.override(make_service, lambda: Service("fake")):
            assert await (await app.task("work").enqueue()).wait(timeout=20) == "fake"
            with app.override(make_service, wrapped):
                assert await (await app.task("work").enqueue()).wait(timeout=20) == "fake instead of real"
            assert await (await app.task("work").enqueue()).wait(timeout=20) == "fake"
        assert await (await app.task("work").enqueue()).wait(timeout=20) == "real"


async def test_a_timeout_counts_the_providers_and_their_tails_still_run(app: Rowlock) -> None:
    left = asyncio.Event()

    async def slow() -> AsyncIterator[None]:
        try:
            await until_cancelled()
            yield
        finally:
            left.set()

    @app.job(timeout="100ms")
    async def work(_: Annotated[None, Depends(slow)]) -> None: ...

    async with app.worker():
        job = await app.task("work").options(max_attempts=1).enqueue()
        ended = await app.jobs.wait(job.id, timeout=20)
    assert left.is_set()
    assert (ended.errors or {})["type"] == "TimeoutError"


# --- what is refused at declaration ----------------------------------------------------------------------------------


def refused(app: Rowlock, function: Any) -> str:  # noqa: ANN401 - any function
    with pytest.raises(ConfigurationError) as caught:
        app.job("work")(function)
    return str(caught.value)


def test_providers_that_need_each_other_are_named() -> None:
    def first(x: int) -> int: ...  # type: ignore[empty-body]
    def second(x: Annotated[int, Depends(first)]) -> int: ...  # type: ignore[empty-body]

    first.__annotations__["x"] = Annotated[int, Depends(second)]

    async def work(n: Annotated[int, Depends(first)]) -> None: ...

    assert refused(Rowlock(NOWHERE), work) == (
        "work: these providers need each other, so none can be first: first → second → first."
    )


def test_a_parameter_nobody_fills_is_named() -> None:
    def bare(thing) -> int: ...  # type: ignore[no-untyped-def,empty-body]  # noqa: ANN001 - the fault under test
    def plain(thing: int) -> int: ...  # type: ignore[empty-body]

    async def first(n: Annotated[int, Depends(bare)]) -> None: ...
    async def second(n: Annotated[int, Depends(plain)]) -> None: ...

    assert refused(Rowlock(NOWHERE), first) == (
        "work: provider bare: nothing says what to pass as thing, which has no annotation. "
        "Write thing: Annotated[…, Depends(provider)], or ask for one of Context, Job."
    )
    assert "what to pass as thing, which is <class 'int'>." in refused(Rowlock(NOWHERE), second)


def test_marks_that_mean_nothing_are_refused() -> None:
    async def uncalled(n: Annotated[int, Depends]) -> None: ...
    async def twice(n: Annotated[int, Depends(make_service)] = Depends(make_service)) -> None: ...  # type: ignore[assignment]
    async def position(n: Annotated[int, Depends(make_service)], /) -> None: ...
    async def no_class(n: Annotated[int | None, Depends()]) -> None: ...

    app = Rowlock(NOWHERE)
    assert refused(app, uncalled) == "work: parameter n is marked with Depends itself. Call it: Depends(…)."
    assert refused(app, twice) == "work: parameter n has more than one Depends(). Keep one of them."
    assert refused(app, position) == "work: parameter n is filled by name. Move it behind the `/`."
    assert "names no provider, and its annotation int | None is no class" in refused(app, no_class)
    with pytest.raises(ConfigurationError, match=r'scope is "job" or "worker"; got \'process\''):
        Depends(make_service, scope="process")  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="expected a function or a class"):
        Depends(3)  # type: ignore[call-overload]


def test_an_unstorable_parameter_says_that_it_can_be_provided() -> None:
    async def work(service: Service) -> None: ...

    assert "or have the worker provide it: Annotated[" in refused(Rowlock(NOWHERE), work)


def test_what_would_block_the_loop_or_outlive_the_job_is_refused() -> None:
    def sync(ctx: SyncContext) -> int: ...  # type: ignore[empty-body]
    def of_job(ctx: Context) -> int: ...  # type: ignore[empty-body]
    def of_worker(n: Annotated[int, Depends(make_service)]) -> int: ...  # type: ignore[empty-body]

    async def first(n: Annotated[int, Depends(sync)]) -> None: ...
    async def second(n: Annotated[int, Depends(of_job, scope="worker")]) -> None: ...
    async def third(n: Annotated[int, Depends(of_worker, scope="worker")]) -> None: ...

    app = Rowlock(NOWHERE)
    assert "ctx asks for SyncContext, which would block the event loop" in refused(app, first)
    assert "ctx asks for Context, but it lives as long as the worker" in refused(app, second)
    assert refused(app, third) == (
        "work: of_worker lives as long as the worker and cannot depend on make_service, which is made for each job. "
        'Write Depends(…, scope="worker") there too.'
    )


async def test_what_a_provider_returns_may_be_known_to_type_checkers_alone(app: Rowlock) -> None:
    def lent(name: Annotated[str, Depends(lambda: "lent")]) -> Generator[Service]:
        yield Service(name)

    @app.job
    async def borrow(service: Annotated[Service, Depends(lent)]) -> str:
        return service.name

    async with app.worker():
        assert await (await borrow.enqueue_many([{}]))[0].wait(timeout=20) == "lent"


async def test_the_job_of_a_context_has_the_defaults_of_its_handler(app: Rowlock) -> None:
    def about(job: Job) -> dict[str, object]:
        return dict(job.args)

    @app.job
    async def build(
        ctx: Context, n: int, full: bool = False, since: date = SINCE, by: dict[str, object] = Depends(about)
    ) -> tuple[dict[str, object], dict[str, object]]:
        assert (n, full, since) == (7, True, SINCE)
        return dict(ctx.job.args), by

    async with app.worker():
        job = await build.enqueue(n=7, full=True)
        seen, given = await job.wait(timeout=20)
    assert seen == given == {"n": 7, "full": True, "since": "2026-01-02"}
    assert (await app.jobs.get(job.id)).args == {"n": 7, "full": True}
