"""keep_running: a background loop that fails is logged and started again, so that its process never runs without it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

_PAUSES: Final = (0.1, 0.5, 1.0, 5.0, 10.0)
"""Seconds before the loop is started again."""
_LONG: Final = 60.0
"""Seconds of running after which the next failure counts as the first."""


async def keep_running(name: str, loop: Callable[[], Awaitable[None]], logger: logging.Logger) -> None:
    """Run `loop` until it returns or is cancelled; after an error it is started again. name: for the log line."""
    clock, failures = asyncio.get_running_loop().time, 0
    while True:
        began = clock()
        try:
            await loop()
        except Exception:
            failures = 0 if clock() - began > _LONG else failures
            pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
            failures += 1
            logger.exception("the background loop '%s' failed and starts again in %s s", name, pause)
            await asyncio.sleep(pause)
        else:
            return
