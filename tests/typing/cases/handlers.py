"""Never run: what the checkers say of handlers, their contexts and results."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, assert_type

from pydantic import BaseModel

from rowlock import Context, Enqueued, Job, Partial, Rowlock, Snooze, SyncContext

app = Rowlock("postgresql://nowhere/x")


class Report(BaseModel):
    title: str


@app.job
async def build(ctx: Context, org_id: int) -> Report:
    await ctx.progress(1, 2)
    ctx.progress(1, 2)  # E: unused-coroutine | reportUnusedCoroutine
    print(ctx.colour)  # E: attr-defined | reportAttributeAccessIssue
    return Report(title=f"{org_id}")


@app.job("blocking")
def blocking(ctx: SyncContext, org_id: int) -> Report:
    ctx.progress(1, 2)
    print(ctx.colour)  # E: attr-defined | reportAttributeAccessIssue
    return Report(title=f"{org_id}")


@app.job
async def patient(ctx: Context) -> str | Snooze:
    return Snooze("1m") if ctx.job.attempt == 1 else "done"


@app.job
async def mostly() -> Partial:
    return Partial(1, [])


@app.job
async def anything(org_id: int) -> Any:
    return org_id


class Jobs:
    @app.job("static")
    @staticmethod
    async def static(org_id: int) -> int:
        return org_id


async def results(job: Enqueued[Report]) -> None:
    assert_type(await job.wait(timeout=3), Report)
    assert_type(await (await build.enqueue(7)).wait(), Report)
    assert_type(await (await blocking.enqueue(7)).wait(), Report)
    assert_type((await blocking.enqueue(7)).wait_sync(), Report)
    assert_type(await (await patient.enqueue()).wait(), str | Snooze)
    assert_type(await (await mostly.enqueue()).wait(), Partial)
    assert_type(await (await anything.enqueue(7)).wait(), Any)
    assert_type(await Jobs.static.enqueue(7), Enqueued[int])
    assert_type(job.id, int)
    assert_type(job.public_id, str)
    assert_type(await job.job(), Job)
    covariant: Enqueued[BaseModel] = job
    assert_type(covariant.what, str)
    print((await job.wait()).colour)  # E: attr-defined | reportAttributeAccessIssue
    await job.wait("3s")  # E: arg-type | reportArgumentType
    number: int = await job.wait()  # E: assignment | reportAssignmentType
    await anything.enqueue("7")  # E: - | reportArgumentType
    print(number)


async def still_functions(ctx: Context, blocking_ctx: SyncContext) -> None:
    assert_type(build(ctx, 7), Awaitable[Report])
    assert_type(await build(ctx, 7), Report)
    assert_type(blocking(blocking_ctx, 7), Report)
    assert_type(build.kind, str)
