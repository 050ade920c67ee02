"""The desk's reads at 100,000 rows: by index and in few buffers, whatever the settings and statistics."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import fresh
from tests.factories import Store, opened
from tests.store.test_plans import GUARDED, explain

from rowlock.desk.guard import TRUSTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

ROWS = 100_000
# History first: a scan in the table's own order has to pass it. Then the backlog, a busy gate, a few of the rest.
LOAD = f"""
INSERT INTO rowlock.jobs (kind, state, finished_at, tenant, submitted_by)
SELECT 'main', 'completed', clock_timestamp() - interval '1 day', CASE WHEN n % 2 = 0 THEN 'rare' END, 'rare'
FROM generate_series(1, 200) n;
INSERT INTO rowlock.jobs (kind, state, finished_at, run_after, fence, claimed_by, claimed_at, lane)
SELECT 'main', CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'completed' END, t, t, 2, 1, t, 'default'
FROM (SELECT n, clock_timestamp() - interval '1 day' + n * interval '1 ms' AS t
      FROM generate_series(1, {ROWS // 2}) n) d;
INSERT INTO rowlock.jobs (kind, run_after)
SELECT CASE WHEN n % 10 = 0 THEN 'k' || n % 500 ELSE 'main' END,
       clock_timestamp() - interval '1 hour' + n * interval '1 ms'
FROM generate_series(1, {ROWS // 2}) n;
INSERT INTO rowlock.gates (key, max_running, held) VALUES ('gate', 10, 10);
INSERT INTO rowlock.jobs (kind, state, gate_key, gate_place)
SELECT 'gated', 'blocked', 'gate', -1 FROM generate_series(1, 5000);
INSERT INTO rowlock.jobs (kind, state, gate_key, gate_place, fence, claimed_by, claimed_at, lane)
SELECT 'gated', 'running', 'gate', 1, 1, 1, clock_timestamp(), 'default' FROM generate_series(1, 10);
INSERT INTO rowlock.jobs (kind, state, approval) SELECT 'asked', 'pending', 1 FROM generate_series(1, 20);
INSERT INTO rowlock.job_refs (name, value, job_id) SELECT 'tag', 'rare', id FROM rowlock.jobs WHERE id % 2000 = 0;
INSERT INTO rowlock.job_refs (name, value, job_id) SELECT 'tag', 'often', id FROM rowlock.jobs;
INSERT INTO rowlock.pairs (kind, priority) SELECT DISTINCT kind, priority FROM rowlock.jobs;
INSERT INTO rowlock.workers (name, host, pid, version, kinds) VALUES ('w', 'h', 1, '0', '{{main}}');
INSERT INTO rowlock.lanes (name, kinds) VALUES ('default', '{{*}}');
"""
TABLES = "rowlock.jobs, rowlock.job_refs, rowlock.pairs"
CAP = 1000


@pytest.fixture(scope="module", params=["fresh statistics", "stale statistics"])
def loaded(
    request: pytest.FixtureRequest, administrator: psycopg.Connection[Any], server_url: str, template: str
) -> Iterator[str]:
    """One database for this file. Stale: the planner believes it is empty."""
    with fresh(administrator, server_url, template) as url:
        asyncio.run(load(url, stale=request.param == "stale statistics"))
        yield url


async def load(url: str, *, stale: bool) -> None:
    async with opened(url) as store:
        if stale:
            await store.connection.execute(f"VACUUM ANALYZE {TABLES}")
        await store.connection.execute(LOAD)
        if not stale:
            await store.connection.execute(f"VACUUM ANALYZE {TABLES}")


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
        **TRUSTED.sight,
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
# With an hour as the window, in which nothing ended, and with a week, in which more did than is counted.
STATISTICS = {
    "stats_running": (100, 100),
    "stats_slow": (100, 100),
    "stats_references": (100, 100),
    "stats_backlog": (12_000, 12_000),
    "stats_lanes": (12_000, 12_000),
    "stats_states": (3500, 3500),
    "stats_ended": (20, 300),
    "stats_failures": (20, 300),
    "stats_tenants": (30, 300),
    "stats_throughput": (20, 1000),
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
