"""Waiting for a condition instead of sleeping for a guess."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


async def eventually(check: Callable[[], Awaitable[T]], *, within: float = 20.0) -> T:
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
