"""Jobs that write down when they start and end, over a connection of their own, for a test to judge."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from datetime import timedelta

import asyncpg
from tests.waiting import block_for, busy_for

import rowlock
from rowlock import Retry, Rowlock
from rowlock.settings import Settings, lanes_from_text

LEDGER = """
CREATE TABLE IF NOT EXISTS public.ledger (
  n bigserial PRIMARY KEY, job bigint NOT NULL, fence integer NOT NULL, pid integer NOT NULL, what text NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp())
"""
LANES = "default:kinds=*,slots=10,stale=2s"


class Ledger:
    """One connection per process, opened anew when the server was away."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._turn = asyncio.Lock()

    async def note(self, ctx: rowlock.Context, what: str) -> None:
        async with self._turn:
            while True:
                try:
                    if self._connection is None or self._connection.is_closed():
                        self._connection = await asyncpg.connect(
                            self._url, timeout=5, server_settings={"application_name": "ledger"}
                        )
                    await self._connection.execute(
                        "INSERT INTO public.ledger (job, fence, pid, what) VALUES ($1, $2, $3, $4)",
                        ctx.claim.job_id,
                        ctx.claim.fence,
                        os.getpid(),
                        what,
                    )
                except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    await busy_for(0.1)
                else:
                    return


def make(url: str, *, shutdown_after: float = 10, settings: Settings | None = None) -> Rowlock:
    """The application under torture."""
    losses = int(os.environ.get("TORTURE_LOSSES", "3"))
    given = settings or Settings(
        shutdown_after=timedelta(seconds=shutdown_after), lanes=lanes_from_text(LANES), max_losses=losses
    )
    app = Rowlock(url, settings=given)
    ledger = Ledger(url)
    hoarded: list[bytes] = []

    @app.job(retry=Retry(attempts=5, minimum="0s", jitter="0s"))
    async def work(ctx: rowlock.Context, seconds: float = 0.0) -> str:
        await ledger.note(ctx, "start")
        try:
            await busy_for(seconds)
        except asyncio.CancelledError:
            await ledger.note(ctx, "told")
            raise
        await ledger.note(ctx, "end")
        return f"{os.getpid()}"

    @app.job
    async def poison(ctx: rowlock.Context) -> None:
        await ledger.note(ctx, "start")
        os._exit(9)

    @app.job
    async def spin(ctx: rowlock.Context, seconds: float = 120.0) -> None:
        """Hold the loop, but not the interpreter."""
        await ledger.note(ctx, "start")
        time.sleep(seconds)  # noqa: ASYNC251 - the fault under test, in the handler itself: a report names the function

    @app.job
    async def seize(ctx: rowlock.Context) -> None:
        """Hold the interpreter itself: no other thread runs any more."""
        await ledger.note(ctx, "start")
        ctypes.PyDLL(None).usleep(120_000_000)

    @app.job
    def deaf(seconds: float = 60.0) -> None:
        """A blocking handler that nothing can stop."""
        block_for(seconds)

    @app.job
    async def hoard(ctx: rowlock.Context, megabytes: int) -> None:
        hoarded.append(b"x" * (megabytes * 1_000_000))
        await ledger.note(ctx, "end")

    @app.job(gate=rowlock.Gate("narrow", limit=2))
    async def gated(ctx: rowlock.Context, seconds: float = 0.0) -> None:
        await ledger.note(ctx, "start")
        await busy_for(seconds)
        await ledger.note(ctx, "end")

    _declare_pages(app, ledger)
    return app


def _declare_pages(app: Rowlock, ledger: Ledger) -> None:
    """A loop and items that go on where a killed worker left them."""

    @app.job(retry=Retry(attempts=5, minimum="0s", jitter="0s"))
    async def pages(ctx: rowlock.Context) -> list[str]:
        did = []
        async for page in ctx.resume("page", range(40)):
            await ledger.note(ctx, f"page {page}")
            await busy_for(0.1)

        async def one(item: rowlock.ItemContext, _n: int) -> None:
            await ledger.note(ctx, f"item {item.name}")
            did.append(item.name)

        await ctx.items(range(3), one, resume=True)
        return did
