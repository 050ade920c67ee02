"""A handler on the event loop that computes between two calls of its context does not hold up the others."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import pytest
from tests.waiting import block_for, in_time, let_others_run

import rowlock
from rowlock import Retry, State
from rowlock.flow.progress import loop_share
from rowlock.flow.progress.loop_share import HELD_TOO_LONG, LoopShare

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rowlock import ItemContext, Rowlock

COMPUTES: Final = 0.05
"""Seconds of computing between two calls."""


async def with_progress(ctx: rowlock.Context) -> None:
    for n in range(1000):
        block_for(COMPUTES)
        await ctx.progress(n)


async def with_advance(ctx: rowlock.Context) -> None:
    async with ctx.phase("compute") as phase:
        for _ in range(1000):
            block_for(COMPUTES)
            await phase.advance()


async def with_phases(ctx: rowlock.Context) -> None:
    for n in range(1000):
        async with ctx.phase(f"phase {n}"):
            block_for(COMPUTES)


async def with_item_blocks(ctx: rowlock.Context) -> None:
    for n in range(1000):
        async with ctx.item(str(n)):
            block_for(COMPUTES)


async def with_items(ctx: rowlock.Context) -> None:
    async def one(_item: ItemContext, _n: int) -> None:
        block_for(COMPUTES)

    await ctx.items(range(1000), one, limit=1)


async def with_resume(ctx: rowlock.Context) -> None:
    async for _ in ctx.resume("loop", range(1000)):
        block_for(COMPUTES)


async def with_checkpoints(ctx: rowlock.Context) -> None:
    for n in range(1000):
        block_for(COMPUTES)
        await ctx.checkpoint.save(n)


WAYS: Final = (
    with_progress,
    with_advance,
    with_phases,
    with_item_blocks,
    with_items,
    with_resume,
    with_checkpoints,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_others_run_beside_a_handler_that_computes_and_it_hears_a_cancel(
    app: Rowlock, way: Callable[[rowlock.Context], Coroutine[object, object, None]]
) -> None:
    begun = asyncio.Event()

    @app.job(retry=Retry(attempts=1))
    async def computes(ctx: rowlock.Context) -> None:
        begun.set()
        await way(ctx)

    async with app.worker():
        handle = await computes.enqueue()
        await in_time(begun.wait())
        # Every line here is run by the loop that the handler holds: without a turn of its own it would wait for 50 s.
        await in_time(app.jobs.cancel(handle.id))
        job = await app.jobs.wait(handle.id, timeout=40)
    assert job.state is State.CANCELLED


async def test_nothing_is_yielded_by_a_handler_that_holds_the_loop_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_share, "HELD_TOO_LONG", 60.0)  # on a busy machine two calls may be 10 ms apart
    share, turns = LoopShare(), 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await let_others_run()

    counting = asyncio.create_task(count())
    for _ in range(100):
        share._since = None
        await share.give_way()
        await share.give_way()
    assert turns == 0
    monkeypatch.setattr(loop_share, "HELD_TOO_LONG", HELD_TOO_LONG)
    block_for(HELD_TOO_LONG)
    await share.give_way()
    assert turns > 0
    counting.cancel()


async def test_what_the_handler_awaited_itself_counts_as_letting_others_run() -> None:
    share = LoopShare()
    for _ in range(3):
        await share.give_way()
        await let_others_run()
        assert share._since is None


async def test_others_get_as_many_turns_as_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request needs many turns of the loop: with one in 50 ms it would take a second."""
    monkeypatch.setattr(loop_share, "_LONGEST_SHARE", 3600.0)
    share, turns = LoopShare(), 0

    async def request() -> None:
        nonlocal turns
        for _ in range(20):
            block_for(0.001)
            turns += 1
            await let_others_run()

    answering = asyncio.create_task(request())
    share._since = time.monotonic() - 3600
    await share.give_way()
    assert turns == 20
    await answering
