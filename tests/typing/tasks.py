"""Never run: what a type checker says of tasks. Every ignore below is an error that mypy must find, or it complains."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator  # noqa: TC003 - as users write it
from datetime import datetime, timedelta
from typing import assert_type

from rowlock import Context, Depends, Enqueued, Enqueuing, Failure, Gate, Job, Retry, Rowlock, Task
from rowlock.tasks import Bound
from rowlock.telemetry import Event, JobFinished

app = Rowlock("postgresql://nowhere/x")


@app.job
async def bare(org_id: int, full: bool = False) -> str:
    return f"{org_id} {full}"


@app.job("named", lane="reports", retry=Retry(attempts=2), timeout="10m", gate=Gate("x"), retention={"failed": "1d"})
async def with_context(ctx: Context, org_id: int, *, label: str | None = None) -> list[int]:
    return [ctx.job.id, org_id, len(label or "")]


@app.job(priority=3)
async def nothing() -> None: ...


async def right(ctx: Context) -> None:
    assert_type(bare.kind, str)
    job = await bare.enqueue(7)
    assert_type(job, Enqueued[str])
    assert_type(await job.wait(timeout=3), str)
    assert_type(job.wait_sync(timeout=3), str)
    assert_type(job.id, int)
    assert_type(await with_context.enqueue(7, label="x"), Enqueued[list[int]])
    assert_type(with_context.enqueue_sync(org_id=7), Enqueued[list[int]])
    assert_type(await nothing.enqueue(), Enqueued[None])
    assert_type(await bare.enqueue_many([{"org_id": 1}]), list[Enqueued[str]])
    await bare.options(priority=5, run_in="1h", unique_key=lambda org_id: f"org-{org_id}").enqueue(7, full=True)
    await bare.options(run_at=datetime.now().astimezone(), expires_in=timedelta(1), on_conflict="keep").enqueue(7)
    # The function is still a function.
    assert_type(await bare(7), str)
    assert_type(await with_context(ctx, 7), list[int])


async def wrong() -> None:
    await bare.enqueue("7")  # type: ignore[arg-type]
    await bare.enqueue()  # type: ignore[call-arg]
    await bare.enqueue(org=7)  # type: ignore[call-arg]
    await bare.enqueue(7, full="yes")  # type: ignore[arg-type]
    await bare.enqueue(7, True, 8)  # type: ignore[call-arg]
    bare.enqueue_sync(None)  # type: ignore[arg-type]
    await nothing.enqueue(1)  # type: ignore[call-arg]
    await with_context.enqueue(7, "x")  # type: ignore[call-arg]
    await with_context.options(priority=1).enqueue(org_id="x")  # type: ignore[arg-type]
    bare.options(priority="high")  # type: ignore[arg-type]
    bare.options(on_conflict="ignore")  # type: ignore[arg-type]
    bare.options(org_id=7)  # type: ignore[call-arg]
    bare.options(run_at="tomorrow")  # type: ignore[arg-type]
    bare.options(priority=1)(7)  # type: ignore[operator]
    await bare.enqueue_many([7])  # type: ignore[list-item]


def declared(task: Task[[int, bool], str], bound: Bound[[int, bool], str]) -> None:
    assert_type(task.options(), Bound[[int, bool], str])
    bound.enqueue_sync(7, full=True)  # type: ignore[call-arg]


@app.job("blocking")
def blocking(org_id: int) -> None: ...


@app.job(colour="red")  # type: ignore[call-overload,untyped-decorator]
async def unknown_option() -> None: ...


# --- dependencies, hooks, middleware, events -------------------------------------------------------------------------


class Service: ...


def plain() -> Service: ...  # type: ignore[empty-body]
async def coroutine() -> Service: ...  # type: ignore[empty-body]
def generator() -> Iterator[Service]: ...  # type: ignore[empty-body]
async def async_generator() -> AsyncIterator[Service]:
    yield Service()


assert_type(Depends(plain), Service)
assert_type(Depends(coroutine), Service)
assert_type(Depends(generator), Service)
assert_type(Depends(async_generator, scope="worker"), Service)
assert_type(Depends(Service, use_cache=False), Service)


@app.job
async def injected(ctx: Context, n: int, service: Service = Depends(plain), *, made: Service = Depends()) -> str:
    return f"{ctx.job.id} {n} {service} {made}"


@app.job
async def misfit(n: int, name: str = Depends(plain)) -> None: ...  # type: ignore[assignment]


async def leaves_out_what_is_injected() -> None:
    assert_type(await injected.enqueue(7), Enqueued[str])
    await injected.enqueue("7")  # type: ignore[arg-type]
    await injected.enqueue()  # type: ignore[call-arg]
    Depends(plain, scope="process")  # type: ignore[call-overload]


@injected.on_exhausted
async def exhausted(job: Job, error: Failure) -> None: ...


@injected.on_success(retry=Retry(attempts=2))
def succeeded(job: Job) -> int: ...  # type: ignore[empty-body]


@injected.on_success(lane="x")  # type: ignore[call-overload,untyped-decorator]
def refused(job: Job) -> None: ...


def hooks_stay_what_they_are(job: Job) -> None:
    assert_type(succeeded(job), int)


@app.middleware
async def around(ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
    return ctx, await call()


@app.middleware  # type: ignore[type-var]
async def around_nothing(ctx: Context) -> object: ...


@app.enqueue_middleware
def stamp(enqueuing: Enqueuing) -> None: ...


@app.listen(JobFinished)
def finished(event: JobFinished) -> None:
    assert_type(event.state, str)


@app.listen(JobFinished)  # type: ignore[arg-type]
def other(event: int) -> None: ...


def every(event: Event) -> None: ...


app.on_event(every)
