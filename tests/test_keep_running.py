"""A background loop that fails is logged and started again."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.waiting import in_time, until_cancelled

from rowlock.keep_running import keep_running

logger = logging.getLogger("rowlock.test")


async def test_a_loop_that_fails_is_logged_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    runs = list[int]()

    async def loop() -> None:
        runs.append(len(runs))
        if len(runs) < 3:
            message = "a bug"
            raise ValueError(message)

    await in_time(keep_running("finish", loop, logger))
    assert runs == [0, 1, 2]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "'finish' failed and starts again in 0.1 s" in caplog.messages[0]
    assert "a bug" in caplog.text


async def test_a_cancel_ends_it() -> None:
    task = asyncio.create_task(keep_running("finish", until_cancelled, logger))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await in_time(task)
