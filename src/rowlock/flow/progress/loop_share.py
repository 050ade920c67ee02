"""LoopShare: lets other tasks run when a handler that computes has held the event loop for a while."""

from __future__ import annotations

import asyncio
import time
from typing import Final

HELD_TOO_LONG: Final = 0.01
"""Seconds for which a handler may hold the loop between two calls of its context; then the call lets others run."""
_LONGEST_SHARE: Final = 0.05
"""Seconds that others get at once at most; within it as long as the handler had held the loop."""
_IDLE_TURN: Final = 0.0002
"""Seconds that a turn of the loop takes at most when no other task had anything to do."""


class LoopShare:
    """How long one attempt has held its event loop."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: float | None = None
        """time.monotonic() at the first call of the loop's present turn; None: no call in this turn yet."""

    async def give_way(self) -> None:
        """Let others run if the handler has held the loop for too long since its last call.

        It yields until no other task has anything to do, but not for longer than the handler has held the loop.
        """
        now = time.monotonic()
        if self._since is None:
            self._begin(now)
            return
        held = now - self._since
        if held < HELD_TOO_LONG:
            return
        until, turn = now + min(held, _LONGEST_SHARE), _LONGEST_SHARE
        while turn > _IDLE_TURN and now < until:
            await asyncio.sleep(0)
            before, now = now, time.monotonic()
            turn = now - before
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._since = now
        asyncio.get_running_loop().call_soon(self._turned)

    def _turned(self) -> None:
        """The loop has begun another turn, as the handler awaited something."""
        self._since = None
