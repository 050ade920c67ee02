"""HandlerLoops: event loops in threads, on which handlers run for tests that have no loop or that block theirs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, TypeVar

from rowlock.bridge import Bridge

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")
_PATIENCE: Final = 10.0
"""Seconds for another thread's loop to clean up."""


class HandlerLoops:
    """One loop, and one more for every blocking call that a handler makes on the one before."""

    def __init__(self) -> None:
        self._loops: list[Bridge] = []
        self._blocked: set[Bridge] = set()

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run it on a loop that is not blocked, and wait."""
        here = [loop for loop in self._loops if loop.is_here]
        self._blocked.update(here)
        try:
            free = next((loop for loop in self._loops if loop not in self._blocked), None)
            if free is None:
                free = Bridge()
                self._loops.append(free)
            return free.run(coroutine)
        finally:
            self._blocked.difference_update(here)

    def close(self) -> None:
        """Stop the loops."""
        for loop in self._loops:
            loop.close()
        self._loops.clear()


def run_in(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run a coroutine on a loop, whether that runs or not; best effort."""
    if loop.is_closed():
        return
    coroutine = work()
    try:
        if not loop.is_running():
            loop.run_until_complete(coroutine)
        elif loop is _running():
            loop.create_task(coroutine)  # this thread cannot wait for itself
        else:
            asyncio.run_coroutine_threadsafe(coroutine, loop).result(_PATIENCE)
    except RuntimeError:
        # It closed at this moment, or another loop runs in this thread.
        coroutine.close()


def _running() -> asyncio.AbstractEventLoop | None:
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None
