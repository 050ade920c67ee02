"""The module-level application of tests/flow/executors/jobs.py, pointed at this test's database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.flow.executors import jobs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock import Rowlock


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    was = jobs.app.settings
    jobs.app.settings = replace(was, database_url=database_url, stop_patience=timedelta(seconds=0.4))
    jobs.released.clear()
    try:
        yield jobs.app
    finally:
        jobs.released.set()
        await jobs.app.close()
        jobs.app.settings, jobs.app._database = was, None
