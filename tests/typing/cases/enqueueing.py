"""Never run: what the checkers say of enqueue() and its siblings. `E:` names the error of mypy and that of pyright."""

from __future__ import annotations

from typing import Any, assert_type

from rowlock import Context, Enqueued, Rowlock, SyncContext, SyncTask, Task
from rowlock.tasks import BoundTask

app = Rowlock("postgresql://nowhere/x")


@app.job
async def bare(org_id: int, full: bool = False) -> str:
    return f"{org_id} {full}"


@app.job("named", lane="reports")
async def with_context(ctx: Context, org_id: int, *, label: str | None = None) -> list[int]:
    return [ctx.job.id, org_id, len(label or "")]


@app.job(priority=3)
async def nothing() -> None: ...


@app.job
def blocking(org_id: int) -> float:
    return float(org_id)


@app.job("process", executor="process", memory="1GiB")
def blocking_with_context(ctx: SyncContext, org_id: int, rows: list[str]) -> dict[str, int]:
    return dict.fromkeys(rows, ctx.job.id + org_id)


@app.job
async def whatever(payload: Any) -> int:
    return int(payload)


@app.job("loose")
async def loose(org_id: int, payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "org_id": org_id}


@app.job("loose.blocking")
def loose_blocking(org_id: int, payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "org_id": org_id}


async def right() -> None:
    assert_type(await bare.enqueue(7), Enqueued[str])
    assert_type(await bare.enqueue(7, full=True), Enqueued[str])
    assert_type(await bare.enqueue(org_id=7), Enqueued[str])
    assert_type(bare.enqueue_sync(7, True), Enqueued[str])
    assert_type(await with_context.enqueue(7, label="x"), Enqueued[list[int]])
    assert_type(with_context.enqueue_sync(org_id=7), Enqueued[list[int]])
    assert_type(await nothing.enqueue(), Enqueued[None])
    assert_type(await blocking.enqueue(7), Enqueued[float])
    assert_type(blocking_with_context.enqueue_sync(7, ["a"]), Enqueued[dict[str, int]])
    assert_type(await bare.enqueue_many([{"org_id": 1}]), list[Enqueued[str]])
    assert_type(bare.enqueue_many_sync({"org_id": n} for n in range(3)), list[Enqueued[str]])
    assert_type(await bare.enqueue_many(bare.args(n, full=True) for n in range(3)), list[Enqueued[str]])


async def wrong() -> None:
    await bare.enqueue("7")  # E: arg-type | reportArgumentType
    await bare.enqueue()  # E: call-arg | reportCallIssue
    await bare.enqueue(org=7)  # E: call-arg | reportCallIssue
    await bare.enqueue(7, full="yes")  # E: arg-type | reportArgumentType
    await bare.enqueue(7, True, 8)  # E: call-arg | reportCallIssue
    await bare.enqueue(7, priority=5)  # E: call-arg | reportCallIssue
    await nothing.enqueue(1)  # E: call-arg | reportCallIssue
    await with_context.enqueue(7, "x")  # E: call-arg | reportCallIssue
    await with_context.enqueue(7, label=8)  # E: arg-type | reportArgumentType
    bare.enqueue_sync(None)  # E: arg-type | reportArgumentType
    blocking.enqueue_sync("7")  # E: arg-type | reportArgumentType
    blocking_with_context.enqueue_sync(7, [1])  # E: list-item | reportArgumentType
    blocking_with_context.enqueue_sync(7)  # E: call-arg | reportCallIssue
    await bare.enqueue_many([7])  # E: list-item | reportArgumentType
    await bare.enqueue_many({"org_id": 7})  # E: dict-item | reportArgumentType
    bare.enqueue_many_sync([bare.args("7")])  # E: arg-type | reportArgumentType
    bare.args(org=7)  # E: call-arg | reportCallIssue


async def the_context_is_not_an_argument(ctx: Context, blocking_ctx: SyncContext) -> None:
    await with_context.enqueue(ctx, 7)  # E: arg-type, call-arg | reportCallIssue
    await with_context.enqueue(ctx=ctx, org_id=7)  # E: call-arg | reportCallIssue
    blocking_with_context.enqueue_sync(blocking_ctx, 7, ["a"])  # E: arg-type, call-arg | reportCallIssue


async def a_forgotten_await() -> None:
    bare.enqueue(7)  # E: unused-coroutine | reportUnusedCoroutine
    bare.enqueue(7).wait()  # E: attr-defined | reportAttributeAccessIssue


async def any_in_a_signature() -> None:
    """mypy finds every overload that Any fits and gives up (it says nothing); pyright does not."""
    await whatever.enqueue(7)
    await loose.enqueue(7, {})
    await loose.enqueue("7", {})  # E: - | reportArgumentType
    loose_blocking.enqueue_sync("7", {})  # E: arg-type | reportArgumentType
    assert_type(loose_blocking.enqueue_sync(7, {}), Enqueued[dict[str, Any]])


def declared(task: Task[[int, bool], str], other: SyncTask[[int], float], bound: BoundTask[[int, bool], str]) -> None:
    assert_type(task.options(), BoundTask[[int, bool], str])
    assert_type(other.enqueue_sync(7), Enqueued[float])
    bound.enqueue_sync(7, full=True)  # E: call-arg | reportCallIssue
    other.enqueue_sync("7")  # E: arg-type | reportArgumentType
