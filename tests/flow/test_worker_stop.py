from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import asyncpg

from rowlock import Rowlock

if TYPE_CHECKING:
    import pytest


async def test_a_step_that_stopping_cancels_is_no_failure(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    waiting = asyncio.Event()

    async def step() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # What asyncpg may make of a cancellation that meets the server's answer.
            raise asyncpg.InternalClientError("got result for unknown protocol state 3") from None

    async with Rowlock(database_url) as app:
        worker = app.make_worker()
        await worker.start()
        worker._steps.spawn(step())
        await waiting.wait()
        await worker.stop()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
