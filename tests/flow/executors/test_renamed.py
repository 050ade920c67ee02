from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.flow.executors import renamed
from tests.waiting import eventually

from rowlock import Rowlock
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    was = renamed.app.settings
    renamed.app.settings = replace(was, database_url=database_url)
    try:
        yield renamed.app
    finally:
        await renamed.app.close()
        renamed.app.settings, renamed.app._database = was, None


async def test_a_child_upgrades_what_old_code_stored_and_gives_back_what_newer_code_did(
    app: Rowlock, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Rowlock(database_url) as old, Rowlock(database_url) as newer:

        @old.job("add_up")
        async def add_up(first: int, second: int) -> dict[str, int]:
            return {"sum": first + second}

        @newer.job("sums.add", version=3)
        async def add(total: int) -> dict[str, int]:
            return {"sum": total}

        stored, ahead = await add_up.enqueue(1, 2), await add.enqueue(3)
        with caplog.at_level(logging.WARNING, logger="rowlock"):
            async with app.worker():
                result = await stored.wait(timeout=40)

                async def given_back() -> bool:
                    return (await ahead.job()).errors is not None

                await eventually(given_back, within=40)
    assert result["sum"] == 3
    assert result["pid"] != os.getpid()
    assert "this code reads up to 2" in caplog.text
    async with app:
        job = await app.jobs.get(ahead.id)
    assert (job.state, job.attempt, job.args_version) == (State.QUEUED, 0, 3)
