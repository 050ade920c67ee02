"""Plans of the hot statements at 100,000 rows: by index and in few buffers, whatever the settings and statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.databases import STATISTICS, built_once, fill, fresh
from tests.factories import Store, beating, opened
from tests.query_plans import GUARDED, ROWS, explain, undone

from rowlock.flow.claim.claimer import arguments, one_by_one

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    import psycopg

    from rowlock.store.database import Record

PAIRS = 500
CYCLES, PER_CYCLE = 100, 50

# Half of the table is history, half is backlog: one pair has most of it, 500 pairs share the rest.
LOAD = f"""
INSERT INTO rowlock.jobs (kind, state, finished_at, run_after, fence, claimed_by, claimed_at, lane)
SELECT 'main', 'completed', t, t, 2, 1, t, 'default'
FROM (SELECT clock_timestamp() - interval '1 day' + n * interval '1 ms' AS t FROM generate_series(1, {ROWS // 2}) n) d;
INSERT INTO rowlock.jobs (kind, run_after)
SELECT 'main', clock_timestamp() - interval '1 hour' + n * interval '1 ms'
FROM generate_series(1, {ROWS // 2 - 10 * PAIRS}) n;
INSERT INTO rowlock.jobs (kind, run_after)
SELECT 'k' || n % {PAIRS}, clock_timestamp() - interval '1 hour' + n * interval '1 ms'
FROM generate_series(1, {10 * PAIRS}) n;
INSERT INTO rowlock.workers (name, host, pid, version) VALUES ('w', 'h', 1, '0');
"""


@pytest.fixture(scope="module", params=STATISTICS)
def loaded(
    request: pytest.FixtureRequest,
    shared_folder: Path,
    administrator: psycopg.Connection[Any],
    server_url: str,
    template: str,
) -> Iterator[str]:
    """One database for this file, a copy of one that was loaded once; most tests undo what they did."""
    stale = request.param == "stale statistics"
    name = f"claims_{request.param.partition(' ')[0]}"
    built_once(
        shared_folder,
        administrator,
        server_url,
        name,
        lambda url: fill(url, LOAD, "rowlock.jobs", stale=stale),
        template=template,
    )
    with fresh(administrator, server_url, name) as url:
        yield url


async def claim_values(store: Store, pairs: int, low: datetime | None, name: str = "claim") -> dict[str, object]:
    kinds = ["main"] if pairs == 1 else [f"k{n}" for n in range(pairs)]
    start = low or await store.value("SELECT timestamptz '2001-01-01'")
    free, probes = {"default": 10}, {"default": [((kind, 0, 0), start) for kind in kinds]}
    return {**(arguments(1, free, probes) if name == "claim" else one_by_one(1, free, probes))}


async def complete_values(store: Store, rows: list[Record]) -> dict[str, object]:
    rows = sorted(rows, key=lambda row: int(row["id"]))
    return {
        "worker": 1,
        "channel": store.database.channel,
        "ids": [row["id"] for row in rows],
        "fences": [row["fence"] for row in rows],
        "states": ["completed"] * len(rows),
        "results": [None] * len(rows),
        "errors": [None] * len(rows),
    }


# Twice what was measured on a freshly loaded table with PostgreSQL 15, 16 and 18.
CLAIM_BUFFERS = {1: 300, PAIRS: 3500}
COMPLETE_BUFFERS = 520


@GUARDED
@pytest.mark.parametrize("pairs", [1, PAIRS])
async def test_a_claim_of_ten_reads_the_claim_index_only(loaded: str, guarded: bool, pairs: int) -> None:
    async with opened(loaded, guarded=guarded) as store:
        found = await explain(store, "claim", **await claim_values(store, pairs, None))
        assert found.whole_scans == []
        assert "jobs_claim" in found.indexes
        assert "jobs_pkey" in found.indexes
        assert found.buffers <= CLAIM_BUFFERS[pairs]


@GUARDED
@pytest.mark.parametrize("pairs", [1, PAIRS])
async def test_a_claim_of_ten_reads_no_more_pairs_than_fill_it(loaded: str, guarded: bool, pairs: int) -> None:
    async with opened(loaded, guarded=guarded) as store:
        found = await explain(store, "claim_pairs", **await claim_values(store, pairs, None, "claim_pairs"))
        assert found.whole_scans == []
        assert {"jobs_claim", "jobs_pkey"} <= found.indexes
        assert found.buffers <= CLAIM_BUFFERS[1]


@GUARDED
@pytest.mark.parametrize("name", ["complete", "complete_plain"])
async def test_a_completion_of_ten_goes_by_the_primary_key(loaded: str, guarded: bool, name: str) -> None:
    async with opened(loaded, guarded=guarded) as store, undone(store):
        statement = store.database.statements["claim"]
        rows = await store.connection.fetch(statement.dollar, *statement.bind(await claim_values(store, 1, None)))
        found = await explain(store, name, **await complete_values(store, rows))
        assert found.whole_scans == []
        assert "jobs_pkey" in found.indexes
        assert "jobs_running" not in found.indexes
        assert found.buffers <= COMPLETE_BUFFERS


@GUARDED
@pytest.mark.parametrize("name", ["claim", "claim_pairs"])
async def test_the_plans_hold_while_an_old_snapshot_keeps_dead_rows(loaded: str, guarded: bool, name: str) -> None:
    """A REPEATABLE READ transaction with an xid: nothing claimed or completed since can be cleaned up."""
    async with opened(loaded) as pinning, opened(loaded, guarded=guarded) as store:
        async with pinning.connection.transaction(isolation="repeatable_read"):
            await pinning.value("SELECT txid_current()")
            await pinning.value("SELECT count(*) FROM {s}.pairs")
            low = await cycles(store)
            claim = await explain(store, name, **await claim_values(store, 1, low, name))
            async with undone(store):
                rows = await store.fetch(name, **await claim_values(store, 1, low, name))
                complete = await explain(store, "complete", **await complete_values(store, rows))
            blind = await explain(store, name, **await claim_values(store, 1, None, name))
        assert claim.whole_scans == complete.whole_scans == []
        assert claim.buffers <= CLAIM_BUFFERS[1]
        assert complete.buffers <= COMPLETE_BUFFERS
        assert blind.buffers > claim.buffers  # the pin is real: without its cursor a claim walks the dead


async def cycles(store: Store) -> datetime | None:
    """Claim and complete 5,000 jobs; returns the cursor."""
    low: datetime | None = None
    statement = store.database.statements["claim"]
    for _ in range(CYCLES):
        values = await claim_values(store, 1, low) | {"free": [PER_CYCLE]}
        rows = await store.connection.fetch(statement.dollar, *statement.bind(values))
        assert len(rows) == PER_CYCLE
        low = max(row["run_after"] for row in rows)
        await store.fetch("complete", **await complete_values(store, rows))
    return low


@GUARDED
@pytest.mark.parametrize("name", ["sweep", "rescue", "expire", "too_old", "beat", "prune"])
async def test_the_statements_of_upkeep_never_read_the_whole_table(loaded: str, guarded: bool, name: str) -> None:
    async with opened(loaded, guarded=guarded) as store:
        hour = await store.value("SELECT interval '1 hour'")
        values: dict[str, object] = {"state": "up", "error": None, "channel": "c", "watched": hour, "max_losses": 3}
        values |= beating(1) | {"kind": "*", "batch": 5000, "only": None}
        if name == "prune":
            values["state"] = "*"
        found = await explain(store, name, **values)
        assert found.whole_scans == []
