from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.upkeep.duty_running import Desk, duty_runner
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def desk(database_url: str) -> AsyncIterator[Desk]:
    async with duty_runner(database_url) as made:
        # The shortest heartbeat timeout there is: a server that started a minute ago judges nobody by a longer one.
        await made.store.lane("default", kinds=["*"], stale="1 s")
        up = "SELECT pg_postmaster_start_time() < clock_timestamp() - interval '2 s'"
        await eventually(lambda: made.store.value(up))
        yield made
