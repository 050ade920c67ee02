"""Waiting in tests: for a condition, for a measurement that is good enough, or by name for a stated reason."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds that nothing takes, however busy the machine: who waits so long waits for something that never comes."""


async def eventually(check: Callable[[], Awaitable[T]], *, within: float = PATIENCE) -> T:
    """Return the first truthy answer of `check`; fail after `within` seconds with the last answer."""
    until = time.monotonic() + within
    while True:
        answer = await check()
        if answer:
            return answer
        if time.monotonic() > until:
            message = f"still {answer!r} after {within} s"
            raise AssertionError(message)
        await asyncio.sleep(0.01)


async def until(condition: Callable[[], object]) -> None:
    """eventually() for a condition that need not be awaited."""

    async def check() -> bool:
        return bool(condition())

    await eventually(check)


async def in_time(work: Awaitable[T]) -> T:
    """What `work` returns; fail when it takes longer than anything does."""
    return await asyncio.wait_for(work, PATIENCE)


async def promptly(measure: Callable[[], Awaitable[float]], *, under: float, tries: int = 10) -> None:
    """Measure seconds until one result is below `under`: a busy machine delays some, a slow mechanism delays all."""
    seen: list[float] = []
    while not seen or seen[-1] >= under:
        assert len(seen) < tries, f"each took {under} s or longer: {seen}"
        seen.append(await measure())


async def let_others_run() -> None:
    """Give every other task of the loop one turn."""
    await asyncio.sleep(0)


async def until_cancelled() -> None:
    """As a handler: the work that only a cancel ends."""
    await asyncio.Event().wait()


async def busy_for(seconds: float) -> None:
    """As a handler, a request or a client: the time that its own work takes."""
    await asyncio.sleep(seconds)


async def nothing_happens_for(seconds: float) -> None:
    """Let time pass in which something must not happen, or in which what happens is counted."""
    await asyncio.sleep(seconds)


def block_for(seconds: float) -> None:
    """As a handler: the time in which it holds its thread, and the event loop if it runs there."""
    time.sleep(seconds)
