"""The application that is soaked: the torture's own, with jobs that are cancelled, fail or report; and a diary.

Every worker writes down twice a second what only it knows: asyncio's tasks and the blocks of Python's allocator.
TORTURE_LEAK=memory,descriptors,tasks makes handlers leak on purpose: who looks for leaks must be able to find one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from rowlock import Context, Retry
from torture.jobs import app, ended, note, work
from torture.ledger import FOLDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

DIARY: Final = ".vitals"
"""How the files of the diaries end; their names are the process ids."""
EVERY: Final = 0.5
LEAK: Final = "TORTURE_LEAK"
_LEAKS: Final = frozenset(os.environ.get(LEAK, "").split(","))
_hoard: list[object] = []


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def doomed(ctx: Context, tag: str) -> NoReturn:
    """Fails for good."""
    note(ctx, tag, "start")
    raise OSError("every attempt fails")


@app.job
async def dropped(ctx: Context, tag: str, seconds: float) -> str:
    """Somebody cancels it."""
    return await work(ctx, tag, seconds)


@app.job
async def reports(ctx: Context, tag: str) -> str:
    """Says how far it is, in two phases, logs and keeps a checkpoint."""
    note(ctx, tag, "start")
    for name in ("read", "write"):
        async with ctx.phase(name, total=5) as phase:
            for _ in range(5):
                await phase.advance()
                await asyncio.sleep(0.002)
    ctx.log.info("half of %s is done", tag)
    await ctx.checkpoint.save({"tag": tag})
    return ended(ctx, tag)


@app.worker_lifespan
async def diary() -> AsyncIterator[None]:
    """Write until the worker stops."""
    path = Path(os.environ[FOLDER]) / f"{os.getpid()}{DIARY}"
    with path.open("a", buffering=1) as file:

        async def write() -> None:
            while True:
                file.write(f"{time.time()} {len(asyncio.all_tasks())} {sys.getallocatedblocks()}\n")
                await asyncio.sleep(EVERY)

        writing = asyncio.create_task(write())
        try:
            yield
        finally:
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writing


if os.environ.get(LEAK):

    @app.middleware
    async def leaking(_ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
        """Keep what should be let go."""
        if "memory" in _LEAKS:
            _hoard.append(b"x" * 100_000)
        if "descriptors" in _LEAKS:
            _hoard.append(os.open(os.devnull, os.O_RDONLY))
        if "tasks" in _LEAKS:
            _hoard.append(asyncio.create_task(asyncio.Event().wait()))
        return await call()
