"""Never run: what the checkers say of dependencies, hooks, middleware and events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import assert_type

from rowlock import Context, Depends, Enqueued, Enqueuing, Failure, Job, Retry, Rowlock
from rowlock.telemetry import Event, JobFinished

app = Rowlock("postgresql://nowhere/x")


class Service: ...


def plain() -> Service:
    return Service()


async def coroutine() -> Service:
    return Service()


def generator() -> Iterator[Service]:
    yield Service()


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
async def misfit(n: int, name: str = Depends(plain)) -> None: ...  # E: assignment | reportArgumentType


async def leaves_out_what_is_injected() -> None:
    assert_type(await injected.enqueue(7), Enqueued[str])
    await injected.enqueue("7")  # E: arg-type | reportArgumentType
    await injected.enqueue()  # E: call-arg | reportCallIssue
    Depends(plain, scope="process")  # E: call-overload | reportArgumentType, reportCallIssue


@injected.on_exhausted
async def exhausted(job: Job, error: Failure) -> None: ...


@injected.on_success(retry=Retry(attempts=2))
def succeeded(job: Job) -> int:
    return job.id


@injected.on_success(lane="x")  # E: call-overload, untyped-decorator | reportCallIssue, reportUntypedFunctionDecorator
def refused(job: Job) -> None: ...


def hooks_stay_what_they_are(job: Job) -> None:
    assert_type(succeeded(job), int)


@app.middleware
async def around(ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
    return ctx, await call()


@app.middleware  # E: type-var | reportArgumentType, reportUntypedFunctionDecorator
async def around_nothing(ctx: Context) -> object: ...


@app.enqueue_middleware
def stamp(enqueuing: Enqueuing) -> None: ...


@app.listen(JobFinished)
def finished(event: JobFinished) -> None:
    assert_type(event.state, str)


@app.listen(JobFinished)  # E: arg-type | reportArgumentType
def other(event: int) -> None: ...


def every(event: Event) -> None: ...


app.on_event(every)
