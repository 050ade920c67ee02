"""What the dashboard's pages ask for, at 100,000 jobs: none reads the whole table, whatever settings and statistics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.factories import Store, opened
from tests.query_plans import GUARDED, ROWS, explain

from rowlock.desk.guard import TRUSTED

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW = datetime.now(UTC)

# Twice and more what was measured with PostgreSQL 18: a handful of pages each, never a share of the jobs.
BUFFERS: Mapping[str, int] = {
    "lane_pace": 60,
    "job_relatives": 60,
    "previous_job": 600,
    "stats_series": 200,
    "kind_now": 100,
    "suggest_kinds": 30,
    "suggest_lanes": 30,
    "suggest_workers": 30,
    "suggest_tenants": 30,
    "suggest_errors": 60,
    "suggest_fingerprints": 60,
    "suggest_ref_values": 400,
    "suggest_ref_names": 400,
    "suggest_own_labels": 1200,
    "failure_groups": 200,
    "failure_hours": 60,
    "saved_views": 30,
    "system_server": 200,
    "system_retention": 30,
    "system_duties": 30,
    "system_steps": 60,
    "deploys": 200,
    "system_changes": 400,
}


def values_of(store: Store, name: str, job: int) -> dict[str, object]:
    """A value for every parameter of the statement; one that is not known here fails by its name."""
    known = TRUSTED.visibility | {
        "by": "kind",
        "counted": "minute",
        "counted_since": NOW - timedelta(hours=1),
        "failures": True,
        "fingerprint": None,
        "fingerprints": ["0" * 16],
        "id": None if name == "saved_views" else job,
        "kind": "main",
        "lane": "default",
        "like": "m%",
        "muted": None,
        "n": 50,
        "name": "tag",
        "newest": 500,
        "sees_all": True,
        "since": NOW - timedelta(hours=1),
        "sort": "count",
        "step": 60.0,
        "steps": 200,
        "subject": "rare",
        "tenant": None,
        "typed": "m",
        "until": NOW,
        "walk": ROWS // 40,
        "whole": False,
    }
    return {each: known[each] for each in store.database.statements[name].parameters}


@GUARDED
@pytest.mark.parametrize("name", BUFFERS)
async def test_no_page_reads_the_whole_table(loaded: str, guarded: bool, name: str) -> None:
    async with opened(loaded, guarded=guarded) as store:
        job = await store.value("SELECT max(id) FROM {s}.jobs WHERE state = 'queued' AND kind = 'main'")
        found = await explain(store, name, **values_of(store, name, job))
        scanned = [line for line in found.whole_scans if line.startswith("Seq Scan")]
        assert scanned == []
        assert found.buffers <= BUFFERS[name]


@GUARDED
async def test_hooks_of_a_job_are_found_by_an_index_of_hooks_alone(loaded: str, guarded: bool) -> None:
    async with opened(loaded, guarded=guarded) as store, store.connection.transaction():
        job = await store.value("SELECT max(id) FROM {s}.jobs WHERE kind = 'main'")
        await store.execute(
            "INSERT INTO {s}.jobs (kind, args) SELECT 'main/on_failure', jsonb_build_object('job', n) "
            "FROM generate_series($1::bigint - 5000, $1::bigint) n",
            job,
        )
        found = await explain(store, "job_relatives", **values_of(store, "job_relatives", job))
        assert "jobs_hook_of" in found.indexes
        assert found.buffers <= BUFFERS["job_relatives"]
