"""Jobs that misbehave in every way, for every executor. Their module is imported by child processes, too."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import subprocess
import threading
import time
from pathlib import Path

from tests.waiting import block_for, busy_for, let_others_run, until_cancelled
from typing_extensions import override

from rowlock import (
    Context,
    ItemContext,
    Job,
    Retry,
    Rowlock,
    Skip,
    SyncContext,
    SyncItemContext,
    SyncTask,
    Task,
    WrongState,
)

app = Rowlock(os.environ.get("ROWLOCK_DATABASE_URL", "postgresql://set.by.the.test/x"))
released = threading.Event()
"""Ends what nothing else can end."""
ONCE = Retry(attempts=1)


@app.job
async def neighbour(n: int) -> int:
    await let_others_run()
    return n


@app.job("loop.waits", retry=ONCE)
async def loop_waits(ctx: Context) -> None:
    await ctx.progress(1, message=str(os.getpid()))
    await until_cancelled()


@app.job("loop.waits.limited", retry=ONCE, timeout="300ms")
async def loop_waits_limited(ctx: Context) -> None:
    await ctx.progress(1, message=str(os.getpid()))
    await until_cancelled()


async def _deaf(ctx: Context) -> None:
    await ctx.progress(1, message=str(os.getpid()))
    while not released.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await busy_for(0.02)


@app.job("loop.deaf", retry=ONCE)
async def loop_deaf(ctx: Context) -> None:
    await _deaf(ctx)


@app.job("loop.deaf.limited", retry=ONCE, timeout="300ms")
async def loop_deaf_limited(ctx: Context) -> None:
    await _deaf(ctx)


def _waits(ctx: SyncContext) -> None:
    ctx.progress(1, message=str(os.getpid()))
    while True:
        block_for(0.01)
        ctx.check()


def _deaf_sync(ctx: SyncContext) -> None:
    ctx.progress(1, message=str(os.getpid()))
    while not released.is_set():
        with contextlib.suppress(BaseException):
            block_for(0.02)


def _spins(ctx: SyncContext) -> None:
    ctx.progress(1, message=str(os.getpid()))
    while not released.is_set():
        pass


def _sleeps(ctx: SyncContext) -> None:
    """Blocks in one long system call, as a driver without a timeout does."""
    ctx.progress(1, message=str(os.getpid()))
    block_for(60)


@app.job("thread.waits", retry=ONCE)
def thread_waits(ctx: SyncContext) -> None:
    _waits(ctx)


@app.job("thread.waits.limited", retry=ONCE, timeout="300ms")
def thread_waits_limited(ctx: SyncContext) -> None:
    _waits(ctx)


@app.job("thread.deaf", retry=ONCE)
def thread_deaf(ctx: SyncContext) -> None:
    _deaf_sync(ctx)


@app.job("thread.deaf.limited", retry=ONCE, timeout="300ms")
def thread_deaf_limited(ctx: SyncContext) -> None:
    _deaf_sync(ctx)


@app.job("thread.spins", retry=ONCE)
def thread_spins(ctx: SyncContext) -> None:
    _spins(ctx)


@app.job("thread.spins.limited", retry=ONCE, timeout="300ms")
def thread_spins_limited(ctx: SyncContext) -> None:
    _spins(ctx)


@app.job("process.waits", executor="process", retry=ONCE)
def process_waits(ctx: SyncContext) -> None:
    _sleeps(ctx)


@app.job("process.waits.limited", executor="process", retry=ONCE, timeout="300ms")
def process_waits_limited(ctx: SyncContext) -> None:
    _sleeps(ctx)


@app.job("process.holds", executor="process", retry=ONCE)
def process_holds(ctx: SyncContext) -> None:
    """Holds the interpreter's lock in C code: no thread of this process runs any more."""
    ctx.progress(1, message=str(os.getpid()))
    block_for(0.5)  # the report leaves the process
    ctypes.PyDLL(None).sleep(60)


@app.job("process.deaf", executor="process", retry=ONCE)
def process_deaf(ctx: SyncContext) -> None:
    _deaf_sync(ctx)


@app.job("process.deaf.limited", executor="process", retry=ONCE, timeout="300ms")
def process_deaf_limited(ctx: SyncContext) -> None:
    _deaf_sync(ctx)


@app.job("process.spins", executor="process", retry=ONCE)
def process_spins(ctx: SyncContext) -> None:
    _spins(ctx)


@app.job("process.spins.limited", executor="process", retry=ONCE, timeout="300ms")
def process_spins_limited(ctx: SyncContext) -> None:
    _spins(ctx)


@app.job("process.async", executor="process", retry=ONCE)
async def process_async(ctx: Context) -> None:
    await ctx.progress(1, message=str(os.getpid()))
    await until_cancelled()


@app.job("process.async.limited", executor="process", retry=ONCE, timeout="300ms")
async def process_async_limited(ctx: Context) -> None:
    await ctx.progress(1, message=str(os.getpid()))
    await until_cancelled()


@app.job("dies.exit", executor="process")
def exits() -> None:
    os._exit(7)


@app.job("dies.segfault", executor="process")
def segfaults() -> None:
    ctypes.string_at(0)


@app.job("dies.fail", executor="process", on_worker_lost="fail")
def exits_and_fails() -> None:
    os._exit(7)


@app.job("dies.hold", executor="process", on_worker_lost="hold")
def exits_and_is_held() -> None:
    os._exit(7)


@app.job("hog.fast", executor="process", memory="300MB", retry=ONCE)
def hogs_fast() -> int:
    return len(bytearray(4_000_000_000))


@app.job("hog.slow", executor="process", memory="200MB", retry=ONCE)
def hogs_slowly(ctx: SyncContext) -> None:
    kept = []
    while True:
        ctx.check()
        kept.append(bytearray(b"x") * 5_000_000)
        block_for(0.002)


@app.job("talks", executor="process")
def talks(ctx: SyncContext, steps: int) -> dict[str, object]:
    before = ctx.checkpoint.load()
    with ctx.phase("talk", total=steps) as phase:
        for step in range(steps):
            phase.advance(message=f"step {step}")
    ctx.checkpoint.save({"steps": steps})
    ctx.log.warning("said in the child")
    return {"before": before, "pid": os.getpid(), "attempt": ctx.job.attempt}


def _halve(item: SyncItemContext, n: int) -> int:
    logging.getLogger("some.library").warning("item %s", item.name)
    if n % 10 == 3:
        raise ValueError(n)
    if n % 10 == 7:
        raise Skip("seven")
    return n // 2


@app.job("itemises", executor="process", retry=Retry(attempts=2, minimum="10ms", jitter="0s"))
def itemises(ctx: SyncContext) -> dict[str, object]:
    with ctx.phase("prepare"):
        ctx.log.info("attempt %d", ctx.job.attempt)
    for n in ctx.resume("steps", range(5)):
        if n == 3 and ctx.job.attempt == 1:
            ctx.items(range(20), _halve, limit=4)
            raise OSError
    with ctx.phase("again"):
        ctx.items(range(20), _halve, limit=4)
    with ctx.phase("prepare"):
        done = ctx.items(range(20, 40), _halve, name=str, limit=4)
    return {"failed": sorted(done.failed), "kept": sorted(done.kept)}


@app.job("enqueues", executor="process")
def enqueues(n: int) -> int:
    return neighbour.enqueue_sync(n).id


@app.job("fails", executor="process", retry=Retry(attempts=2, minimum="10ms", jitter="0s"))
def fails(what: str) -> None:
    raise LookupError(f"no {what}")


@app.job("unprintable", executor="process", retry=ONCE)
def unprintable() -> None:
    class Odd(Exception):
        @override
        def __str__(self) -> str:
            raise RuntimeError

        @override
        def __reduce__(self) -> str:
            raise RuntimeError

    raise Odd


@app.job("starts.another", executor="process", retry=ONCE)
def starts_another(ctx: SyncContext, pid_file: str) -> None:
    started = subprocess.Popen(["/bin/sleep", "300"])
    Path(pid_file).write_text(str(started.pid))
    ctx.progress(1, message=str(os.getpid()))
    block_for(60)


@app.job("process.lock", executor="process", retry=ONCE)
def process_lock(ctx: SyncContext, seconds: float) -> str:
    with ctx.lock("edition", 7):
        ctx.progress(1, message=str(os.getpid()))
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            block_for(0.01)
            ctx.check()
    return "done"


@app.job("process.lock.async", executor="process", retry=ONCE)
async def process_lock_async(ctx: Context, seconds: float) -> str:
    async with ctx.lock("edition", 7):
        await busy_for(seconds)
    return "done"


ProcessLock = Task[[float], str] | SyncTask[[float], str]


@app.job("process.asks", executor="process", retry=ONCE)
def process_asks(ctx: SyncContext, n: int) -> list[object]:
    return [n, ctx.wait_for("go", timeout="1h")]


def _no_database() -> bool:
    return app._database is None


@app.job("process.grows", executor="process", retry=ONCE)
def process_grows(ctx: SyncContext) -> list[str]:
    added = ctx.spawn([neighbour.step(n) for n in range(2)])
    added.append(ctx.workflow.add(neighbour.step(7), name="named", after=added))
    try:
        ctx.workflow.add(neighbour.step(8), before=["nobody"])
    except WrongState as error:
        return [step.name for step in added] + [str(error), f"no database: {_no_database()}"]
    return []


@app.job("process.grows.async", executor="process", retry=ONCE)
async def process_grows_async(ctx: Context) -> list[str]:
    added = await ctx.spawn([neighbour.step(n) for n in range(2)])
    added.append(await ctx.workflow.add(neighbour.step(7), name="named", after=added))
    try:
        await ctx.workflow.add(neighbour.step(8), before=["nobody"])
    except WrongState as error:
        return [step.name for step in added] + [str(error), f"no database: {_no_database()}"]
    return []


class Panic(BaseException):
    """What a native extension raises when its own code panics: outside Exception, like pyo3's PanicException."""


def _raise_foreign(what: str) -> None:
    match what:
        case "panic":
            raise Panic("called `Option::unwrap()` on a `None` value")
        case "generator exit":
            raise GeneratorExit("left a generator")
        case "group":
            raise BaseExceptionGroup("two at once", [Panic("first"), ValueError("second")])
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt("by the handler")
        case "cancelled":
            raise asyncio.CancelledError("by the handler")
        case _:
            raise ValueError(what)


TWICE = Retry(attempts=2, minimum="10ms", jitter="0s")


@app.job("loop.foreign", retry=TWICE)
async def loop_foreign(what: str) -> None:
    await let_others_run()
    _raise_foreign(what)


@app.job("loop.foreign.at_once", retry=TWICE)
async def loop_foreign_at_once(what: str) -> None:
    _raise_foreign(what)


@app.job("loop.foreign.limited", retry=TWICE, timeout="1h")
async def loop_foreign_limited(what: str) -> None:
    await let_others_run()
    _raise_foreign(what)


@app.job("loop.foreign.items", retry=TWICE)
async def loop_foreign_items(ctx: Context, what: str) -> None:
    async def one(_item: ItemContext, _thing: int) -> None:
        await let_others_run()
        _raise_foreign(what)

    await ctx.items(range(3), one, limit=2)


@app.job("thread.foreign", retry=TWICE)
def thread_foreign(what: str) -> None:
    _raise_foreign(what)


@app.job("process.foreign", executor="process", retry=TWICE)
def process_foreign(what: str) -> None:
    _raise_foreign(what)


@app.job("process.foreign.async", executor="process", retry=TWICE)
async def process_foreign_async(what: str) -> None:
    await let_others_run()
    _raise_foreign(what)


def _named(job: Job) -> list[object]:
    return [job.workflow_id, job.workflow, job.step]


@app.job("loop.named")
async def loop_named(ctx: Context) -> list[object]:
    return _named(ctx.job)


@app.job("thread.named")
def thread_named(ctx: SyncContext) -> list[object]:
    return _named(ctx.job)


@app.job("process.named", executor="process")
def process_named(ctx: SyncContext) -> list[object]:
    return _named(ctx.job)


@app.job("process.named.async", executor="process")
async def process_named_async(ctx: Context) -> list[object]:
    return _named(ctx.job)


def _own_name(job: Job) -> str:
    return f"after {job.step}"


@app.job("loop.follows")
async def loop_follows(ctx: Context) -> None:
    await ctx.workflow.add(neighbour.step(1), name=_own_name(ctx.job), after=["first"], before=["last"])


@app.job("thread.follows")
def thread_follows(ctx: SyncContext) -> None:
    ctx.workflow.add(neighbour.step(1), name=_own_name(ctx.job), after=["first"], before=["last"])


@app.job("process.follows", executor="process")
def process_follows(ctx: SyncContext) -> None:
    ctx.workflow.add(neighbour.step(1), name=_own_name(ctx.job), after=["first"], before=["last"])


@app.job("process.follows.async", executor="process")
async def process_follows_async(ctx: Context) -> None:
    await ctx.workflow.add(neighbour.step(1), name=_own_name(ctx.job), after=["first"], before=["last"])
