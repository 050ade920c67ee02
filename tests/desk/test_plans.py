"""The desk's reads at 100,000 rows: by index and in few buffers, whatever the settings and statistics."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.factories import Store, opened
from tests.query_plans import GUARDED, explain

from rowlock.desk.guard import TRUSTED

CAP = 1000


async def values_of(store: Store) -> dict[str, object]:
    """Values for every statement of the desk; the job is the last of the backlog."""
    row = await store.connection.fetchrow(
        "SELECT *, clock_timestamp() AS now FROM rowlock.jobs WHERE state = 'queued' AND kind = 'main' "
        "ORDER BY id DESC LIMIT 1"
    )
    assert row is not None
    return {
        "id": row["id"],
        "priority": row["priority"],
        "run_after": row["run_after"],
        "now": row["now"],
        "kinds": ["main", *(f"k{n}" for n in range(0, 500, 10))],
        "cap": CAP,
        "n": 50,
        "key": "gate",
        "lane": "default",
        "name": "tag",
        "value": "rare",
        "names": ["tag", "tag"],
        "values": ["rare", "often"],
        "before": 2**62,
        "states": ["pending", "blocked", "queued", "running", "failed"],
        "kind": None,
        "of_tenant": None,
        "scan": 2**62,
        **TRUSTED.visibility,
        "tenant": "rare",
        "subject": "rare",
    }


# About twice what was measured with PostgreSQL 16 and 18; what counts to the cap reads that many index entries.
BUFFERS = {
    "explain_job": 40,
    "gate_holders": 80,
    "gate_ahead": 20,
    "jobs_ahead": 2500,
    "lane_holders": 100,
    "slot_use": 10,
    "few_jobs": 6000,
    "workers": 15,
}
# With an hour as the window, in which nothing ended, and with a week, in which more failed than is searched.
STATISTICS = {
    "stats_running": (100, 100),
    "stats_slow": (100, 100),
    "stats_references": (100, 100),
    "stats_backlog": (12_000, 12_000),
    "stats_lanes": (12_000, 12_000),
    "stats_states": (3500, 3500),
    "stats_ended": (150, 150),
    "stats_failures": (150, 5500),
    "stats_tenants": (150, 150),
    "stats_throughput": (150, 150),
    "totals_by_kind": (150, 150),
    "totals_by_tenant": (150, 150),
    "running_by_kind": (100, 100),
}


@GUARDED
@pytest.mark.parametrize("name", BUFFERS)
async def test_the_desk_never_reads_the_whole_table(loaded: str, guarded: bool, name: str) -> None:
    async with opened(loaded, guarded=guarded) as store:
        found = await explain(store, name, **await values_of(store))
        assert found.whole_scans == []
        assert found.buffers <= BUFFERS[name]


@GUARDED
@pytest.mark.parametrize("name", STATISTICS)
async def test_statistics_read_no_more_than_their_caps(loaded: str, guarded: bool, name: str) -> None:
    """They count many rows on purpose; what is bounded is how many, and that no index is walked beyond the window."""
    for window, most in zip((timedelta(hours=1), timedelta(days=7)), STATISTICS[name], strict=True):
        async with opened(loaded, guarded=guarded) as store, store.connection.transaction():
            await store.fetch("stats_window", window=window)
            found = await explain(store, name, **await values_of(store) | {"name": None, "value": None, "phase": None})
            assert not [line for line in found.whole_scans if line.startswith("Seq Scan")]
            assert found.buffers <= most


async def test_explaining_the_last_of_a_long_backlog_reads_little(loaded: str) -> None:
    """All of explain's statements together."""
    async with opened(loaded) as store:
        values = await values_of(store)
        total = 0
        for name in ("explain_job", "lanes", "workers", "jobs_ahead", "slot_use", "lane_holders", "gate_holders"):
            total += (await explain(store, name, **values)).buffers
        assert total <= 3000
