"""Stages: event loops in threads on which handlers run for tests that have no loop, or that block theirs."""

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


class Stages:
    """One loop, and one more for every blocking call that a handler makes on the one before."""

    def __init__(self) -> None:
        self._stages: list[Bridge] = []
        self._blocked: set[Bridge] = set()

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run it on a loop that nobody blocks, and wait."""
        here = [stage for stage in self._stages if stage.is_here]
        self._blocked.update(here)
        try:
            free = next((stage for stage in self._stages if stage not in self._blocked), None)
            if free is None:
                free = Bridge()
                self._stages.append(free)
            return free.run(coroutine)
        finally:
            self._blocked.difference_update(here)

    def close(self) -> None:
        """Stop the loops."""
        for stage in self._stages:
            stage.close()
        self._stages.clear()


def run_in(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[object, object, None]]) -> None:
    """Have a loop that is not this thread's running one do something, whether it runs or rests; best effort."""
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
