"""Never run: what the checkers say of steps, chains, workflows and groups. `E:` names the error of mypy and pyright."""

from __future__ import annotations

from typing import assert_type

from rowlock import (
    RESULT,
    Cancel,
    Chain,
    Context,
    Enqueued,
    Group,
    Node,
    Partial,
    Rowlock,
    Snooze,
    Started,
    Step,
    SyncContext,
    Workflow,
    chain,
    group,
)

app = Rowlock("postgresql://nowhere/x")


@app.job
async def extract(source: int, full: bool = False) -> list[int]:
    return [source, int(full)]


@app.job
async def clean(ctx: Context, rows: list[int], label: str = "x") -> dict[str, int]:
    return {label: len(rows) + ctx.job.id}


@app.job
def load(table: dict[str, int]) -> str:
    return str(table)


@app.job
async def notify() -> None: ...


@app.job
async def both(left: list[int], right: list[int]) -> float:
    return float(len(left) + len(right))


@app.job
async def extract_most(ctx: Context, source: int) -> list[int] | Partial | Snooze:
    return Partial([source, ctx.job.id], errors=["the last line"])


@app.job(executor="thread")
def load_most(ctx: SyncContext, table: dict[str, int]) -> str | Partial | Cancel:
    return Cancel("no table") if not table else f"{ctx.job.id}: {table}"


async def steps() -> None:
    assert_type(extract.step(1), Step[list[int]])
    assert_type(load.options(priority=3).step({}), Step[str])
    extract.step("1")  # E: arg-type | reportArgumentType
    extract.step(1, label="x")  # E: call-arg | reportCallIssue
    clean.step(label="x")  # E: call-arg | reportCallIssue
    clean.step(RESULT, label="x")


async def chains() -> None:
    line: Chain[[int, bool], dict[str, int]] = chain(extract, clean)
    assert_type(line.enqueue_sync(1, True), Started[dict[str, int]])
    started = await chain(extract, clean, load).enqueue(7, full=True)
    assert_type(started, Started[str])
    assert_type(await started.wait(), str)
    assert_type(await chain(extract.step(1), clean).enqueue(), Started[dict[str, int]])
    assert_type(await chain(extract, notify, notify).options(unique_key="x").enqueue(7), Started[None])
    assert_type(await chain(extract, clean.step(RESULT, label="y"), load).enqueue(7), Started[str])
    await chain(extract, clean).enqueue("7")  # E: arg-type | reportArgumentType
    await chain(extract.step(1), clean).enqueue(7)  # E: call-arg | reportCallIssue
    most = chain(extract_most, clean, load_most)
    assert_type(await most.enqueue(source=7), Started[str])
    assert_type(await chain(extract_most, clean.step(RESULT, label="y")).enqueue(7), Started[dict[str, int]])
    assert_type(await chain(extract_most.step(1), notify).enqueue(), Started[None])
    chain(extract_most, load)  # E: misc | reportCallIssue, reportArgumentType
    chain(extract, load)  # E: misc | reportCallIssue, reportArgumentType
    chain(extract, clean, both)  # E: arg-type | reportCallIssue, reportArgumentType


async def workflows() -> None:
    flow = Workflow("w")
    first = flow.add("first", extract.step(1))
    assert_type(first, Node[list[int]])
    assert_type(first.output, list[int])
    second = flow.add(clean.step(rows=first.output), after=[first], when="strict", undo=load)
    assert_type(second, Node[dict[str, int]])
    assert_type(flow.add(notify), Node[None])
    flow.add(load.step(first.output))  # E: arg-type | reportArgumentType
    flow.add(extract)  # E: arg-type | reportArgumentType
    flow.add(notify, when="later")  # E: call-overload | reportArgumentType
    started = await flow.enqueue()
    assert_type(await started.output(second), dict[str, int])


async def groups() -> None:
    made = group([extract.step(n) for n in range(3)], on_success=notify)
    assert_type(made, Group[list[int]])
    assert_type(await (await made.enqueue()).wait(), list[list[int]])


async def following() -> None:
    job = await extract.enqueue(1)
    assert_type(await job.then(clean), Enqueued[dict[str, int]])
    assert_type(await job.then(notify, when="finish"), Enqueued[None])
    assert_type(await job.then(load.step({"a": 1})), Enqueued[str])
    await job.then(load)  # E: arg-type | reportArgumentType
