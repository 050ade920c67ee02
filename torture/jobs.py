"""The application under torture: handlers write down when they start and end, and answer with a token.

The environment configures it, as it would any application; `rowlock worker --app torture.jobs:app` runs it. Code of an
earlier release runs it as well: what that does not have is left out.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import secrets
import signal
import threading
import time
from pathlib import Path
from typing import Any, Final, NoReturn

from typing_extensions import override

import rowlock
from rowlock import Context, Gate, Retry, Rowlock, SyncContext
from torture.ledger import Ledger, Line

try:
    from rowlock import ItemContext, chain
except ImportError:
    chain = None  # type: ignore[assignment]  # of an earlier release

PLACES: Final = 2
"""Of every gate."""
ITEMS: Final = 5
LATER: Final = 1.0
"""Seconds that `later` jobs wait."""
VERSION: Final = os.environ.get("TORTURE_VERSION", "1")
_STEPS: Final = Path(rowlock.__file__).parent / "store" / "migrations"
CODE: Final = str(max(int(step.name.partition("_")[0]) for step in _STEPS.glob("*.up.sql")))
"""Which code this is, by the newest step of its tables; modules have other names in other releases."""
_WORKER: Final = int(os.environ.setdefault("TORTURE_WORKER", str(os.getpid())))
"""The process that imported this first: in a child process of a worker that is the worker."""
_AGAIN: Final = Retry(attempts=20, minimum="0s", jitter="0s")

app = Rowlock()
ledger = Ledger()


def note(ctx: Context | SyncContext, tag: str, what: str, token: str = "") -> None:
    """A line of this run."""
    job, fence = ctx.claim
    ledger.note(Line(what, job, fence, tag, time.monotonic(), os.getpid(), token, f"{id(ctx):x}", CODE))


async def work(ctx: Context, tag: str, seconds: float) -> str:
    """Start, wait, end."""
    note(ctx, tag, "start")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note(ctx, tag, "told")
        raise
    return ended(ctx, tag)


def ended(ctx: Context | SyncContext, tag: str) -> str:
    """The last line of a run, and its result: the fence, so that an accepted result tells whose it is."""
    token = f"{ctx.claim.fence}:{secrets.token_hex(6)}"
    note(ctx, tag, "end", token)
    return token


@app.job(retry=_AGAIN)
async def plain(ctx: Context, tag: str, seconds: float = 0.02) -> str:
    """The usual job."""
    return await work(ctx, tag, seconds)


@app.job(retry=_AGAIN)
async def later(ctx: Context, tag: str) -> str:
    """Enqueued with run_in."""
    return await work(ctx, tag, 0.01)


@app.job(retry=_AGAIN, gate=lambda tag, key: Gate(f"gate:{key}", limit=PLACES))  # noqa: ARG005 - named like the arguments
async def gated(ctx: Context, tag: str, key: str) -> str:
    """At most two of a key at once."""
    del key
    return await work(ctx, tag, 0.05)


@app.job(retry=_AGAIN)
async def unique(ctx: Context, tag: str) -> str:
    """Enqueued under a key of which one job lives."""
    return await work(ctx, tag, 0.1)


@app.job(retry=_AGAIN)
async def once(ctx: Context, tag: str) -> str:
    """Enqueued under idempotency keys, several times each."""
    return await work(ctx, tag, 0.01)


@app.job(retry=_AGAIN)
async def joined(ctx: Context, tag: str) -> str:
    """Enqueued inside a transaction of the producer, which commits or rolls back."""
    return await work(ctx, tag, 0.01)


@app.job(retry=_AGAIN)
async def flaky(ctx: Context, tag: str) -> str:
    """Its first counted attempt fails."""
    note(ctx, tag, "start")
    if ctx.job.attempt == 1:
        raise OSError("the first attempt fails")
    return ended(ctx, tag)


@app.job(retry=_AGAIN)
async def step(ctx: Context, tag: str, before: str = "") -> str:
    """A step of a chain; `before` is the token of the one before it."""
    del before
    return await work(ctx, tag, 0.01)


@app.job(retry=_AGAIN)
def thread(ctx: SyncContext, tag: str) -> str:
    """A blocking handler."""
    note(ctx, tag, "start")
    threading.Event().wait(0.03)  # not time.sleep(), which libfaketime breaks
    return ended(ctx, tag)


if chain is not None:

    @app.job(retry=_AGAIN)
    async def items(ctx: Context, tag: str) -> str:
        """Reports items, of which one is done with every run."""
        note(ctx, tag, "start")

        async def one(item: ItemContext, _number: int) -> None:
            note(ctx, f"{tag}/{item.name}", "item")
            await asyncio.sleep(0.01)

        await ctx.items(range(ITEMS), one, limit=2)
        return ended(ctx, tag)

    @app.schedule(every="1s", name="ticks", missed="all", args={"tag": "tick"})
    @app.job(retry=_AGAIN)
    async def tick(ctx: Context, tag: str) -> str:
        """Fired every second."""
        return await work(ctx, tag, 0.0)

    pipeline = chain(step, step.step(tag="second"), step.step(tag="third"))


class Unpicklable(Exception):
    """Its arguments cannot leave the process, and the exception cannot be made again elsewhere."""

    def __init__(self, one: str, two: Any) -> None:  # noqa: ANN401 - anything that cannot be pickled
        super().__init__(one)
        self.two = two


class Unprintable(Exception):
    """Nothing can be said about it."""

    @override
    def __str__(self) -> str:
        message = "no text"
        raise RuntimeError(message)

    __repr__ = __str__


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def exits(ctx: Context, tag: str) -> NoReturn:
    """Take the process along, without a word."""
    note(ctx, tag, "start")
    os._exit(9)


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def segfaults(ctx: Context, tag: str) -> None:
    """Read where nothing is."""
    note(ctx, tag, "start")
    ctypes.string_at(0)


@app.job(executor="process", memory="300MB", retry=Retry(attempts=2, minimum="0s", jitter="0s"))
def hogs(ctx: SyncContext, tag: str) -> int:
    """Take all the memory there is."""
    note(ctx, tag, "start")
    hoard = []
    while True:
        hoard.append(b"x" * 10_000_000)
        if len(hoard) > 1000:  # noqa: PLR2004 - 10 GB: the limit does not work, and the machine is to survive
            return len(hoard)


@app.job(timeout="3s", retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def spins(ctx: Context, tag: str) -> None:
    """Compute for ever without an await."""
    note(ctx, tag, "start")
    until = time.monotonic() + 300
    while time.monotonic() < until:
        sum(range(10_000))


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def bulky(ctx: Context, tag: str) -> str:
    """Return 50 MB."""
    note(ctx, tag, "start")
    return "x" * 50_000_000


@app.job(executor="process", retry=Retry(attempts=2, minimum="0s", jitter="0s"))
def unpicklable(ctx: SyncContext, tag: str) -> None:
    """Fail with an exception that cannot leave its process."""
    note(ctx, tag, "start")
    raise Unpicklable("one", lambda: None)


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def unprintable(ctx: Context, tag: str) -> None:
    """Fail with an exception that has no text."""
    note(ctx, tag, "start")
    raise Unprintable


class Panic(BaseException):
    """What a native extension raises when its own code panics."""


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def panics(ctx: Context, tag: str) -> NoReturn:
    """Fail with an exception outside Exception."""
    note(ctx, tag, "start")
    raise Panic(tag)


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def interrupts(ctx: Context, tag: str) -> None:
    """Fail with Ctrl-C's exception, in a task of its own."""
    note(ctx, tag, "start")

    async def interrupt() -> NoReturn:
        raise KeyboardInterrupt

    await asyncio.create_task(interrupt())


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def leaves(ctx: Context, tag: str) -> NoReturn:
    """Ask the interpreter to exit."""
    note(ctx, tag, "start")
    raise SystemExit(tag)


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def closes(ctx: Context, tag: str) -> NoReturn:
    """Fail with the exception of a generator that is closed."""
    note(ctx, tag, "start")
    raise GeneratorExit(tag)


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def groups(ctx: Context, tag: str) -> NoReturn:
    """Fail with a group of exceptions outside Exception."""
    note(ctx, tag, "start")
    raise BaseExceptionGroup(tag, [Panic(tag), GeneratorExit(tag)])


@app.job(executor="process", retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def panics_apart(ctx: Context, tag: str) -> NoReturn:
    """Fail with an exception outside Exception in a child process."""
    note(ctx, tag, "start")
    raise Panic(tag)


@app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
async def drags_along(ctx: Context, tag: str) -> NoReturn:
    """Kill the worker, and the child that runs it, at once, as the kernel does when a container has no memory left."""
    note(ctx, tag, "start")
    os.kill(_WORKER, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("killed")


POISON: Final = (
    *("exits", "segfaults", "hogs", "spins", "bulky", "unpicklable", "unprintable", "panics", "interrupts"),
    *("leaves", "closes", "groups", "panics_apart"),
)
