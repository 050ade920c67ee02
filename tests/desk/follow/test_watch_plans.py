"""What the watch and the doctor read at 100,000 rows: by index and in few buffers, whatever the settings."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import fresh
from tests.desk.test_plans import load
from tests.factories import opened
from tests.store.test_plans import GUARDED, explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

HOUR = timedelta(hours=1)
# About twice what was measured.
BUFFERS = {
    "sightings": 80,
    "sightings_running": 250,
    "doctor_oldest": 2500,
    "doctor_pending": 60,
    "doctor_quarantined": 1200,
    "doctor_stalls": 250,
}


@pytest.fixture(scope="module", params=["fresh statistics", "stale statistics"])
def loaded(
    request: pytest.FixtureRequest, administrator: psycopg.Connection[Any], server_url: str, template: str
) -> Iterator[str]:
    with fresh(administrator, server_url, template) as url:
        asyncio.run(load(url, stale=request.param == "stale statistics"))
        yield url


@GUARDED
@pytest.mark.parametrize("name", BUFFERS)
async def test_a_look_reads_little(loaded: str, guarded: bool, name: str) -> None:
    async with opened(loaded, guarded=guarded) as store:
        few = [await store.value("SELECT max(id) FROM rowlock.jobs") - n for n in range(10)]
        found = await explain(store, name, ids=few, seen=few, n=500, cap=1000, permission="jobs:approve", long=HOUR)
        assert found.whole_scans == []
        assert found.buffers <= BUFFERS[name]
