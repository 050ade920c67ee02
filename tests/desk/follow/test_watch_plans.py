"""What the watch and the doctor read at 100,000 rows: by index and in few buffers, whatever the settings."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.factories import opened
from tests.query_plans import GUARDED, explain

HOUR = timedelta(hours=1)
# About twice what was measured.
BUFFERS = {
    "watched_jobs": 80,
    "watched_running_jobs": 250,
    "doctor_oldest": 2500,
    "doctor_pending": 60,
    "doctor_quarantined": 1200,
    "doctor_stalls": 250,
}


@GUARDED
@pytest.mark.parametrize("name", BUFFERS)
async def test_a_look_reads_little(loaded: str, guarded: bool, name: str) -> None:
    async with opened(loaded, guarded=guarded) as store:
        few = [await store.value("SELECT max(id) FROM rowlock.jobs") - n for n in range(10)]
        found = await explain(store, name, ids=few, seen=few, n=500, cap=1000, permission="jobs:approve", long=HOUR)
        assert found.whole_scans == []
        assert found.buffers <= BUFFERS[name]
