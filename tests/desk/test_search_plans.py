"""Searches at 100,000 rows: led by an index, in few buffers, and no further than a search may look."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.factories import Store, opened
from tests.query_plans import Explained

from rowlock.desk.guard import TRUSTED, Guard
from rowlock.desk.search import JobSearch
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.model import search
from rowlock.model.access import Permission, Principal
from rowlock.store import search as composing

# The walk that leads, and about twice the buffers measured with PostgreSQL 15, 16 and 18.
SEARCHES = {
    "": ("id", 4500),
    "kind:none": ("id", 3000),
    "tenant:none": ("tenant", 10),
    "tenant:rare kind:none": ("tenant", 400),
    "tenant:none,rare": ("id", 3000),
    "by:none priority:>5": ("id", 3000),
    "error:Nope*": ("id", 4500),
    "args.user.id:42": ("id", 4500),
    "phase:none": ("id", 40_000),
    "tag:rare": ("ref", 600),
    "tag:often kind:none": ("ref", 30_000),
    "state:failed": ("state", 6000),
    "state:failed kind:none": ("state", 6000),
    "state:cancelled,expired": ("state", 30),
    "state:pending": ("list", 200),
    "state:running,pending": ("list", 300),
    "finished:<1m": ("list", 30),
    "id:5,6": ("list", 30),
    "created:<1s kind:none": ("id", 3000),
}


# Whose jobs lie far apart, and are 100 of all.
OWN = {
    ("rare", ""): ("tenant", 400),
    ("rare", "kind:none"): ("tenant", 400),
    ("rare", "state:failed"): ("state", 6000),
    (None, ""): ("submitter", 400),
    (None, "kind:none created:<1w"): ("submitter", 400),
}


@pytest.mark.parametrize("text", SEARCHES)
async def test_a_search_reads_little(loaded: str, text: str) -> None:
    await reads_little(loaded, text, TRUSTED, *SEARCHES[text])


@pytest.mark.parametrize(("tenant", "text"), OWN)
async def test_a_search_of_few_among_many_jobs_of_others_reads_little(
    loaded: str, tenant: str | None, text: str
) -> None:
    guard = Guard(Principal("rare", tenant, frozenset({Permission.READ})))
    await reads_little(loaded, text, guard, *OWN[tenant, text])


async def reads_little(url: str, text: str, guard: Guard, walk: str, most: int) -> None:
    async with opened(url) as store:
        job_search = JobSearch(lambda: store.database, guard, VisibleJobs(lambda: store.database, guard))
        plan = await job_search.plan(search.parse(text))
        found = await explained(store, plan)
        await store.database.close()
    assert plan.walk.name == walk
    assert [node for node in found.nodes() if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "jobs"] == []
    assert found.buffers <= most


async def explained(store: Store, plan: Any) -> Explained:  # noqa: ANN401 - the searcher's own
    """Of the dearest statement of a search: the first page, which also counts."""
    statement = composing.composed(store.database.statements, "search_ids", plan.walk, plan.where, newest=True)
    values = {
        **plan.where.values,
        **plan.walk.values,
        "scan": plan.scan,
        "low": plan.low,
        "high": plan.high,
        "n": 10_001,
    }
    text = await store.connection.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.dollar}", *statement.bind(values)
    )
    return Explained(json.loads(text)[0])
