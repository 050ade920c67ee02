"""The views of the schema: one definition of each number, for every reader alike."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.desk.workload import history, some_of_each

from rowlock.model.count import Count
from rowlock.model.lane import Lane, kinds_by_lane

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

VIEWS = [
    "stats_blocked",
    "stats_parked",
    "stats_running",
    "stats_slow",
    "stats_references",
    "stats_backlog",
    "stats_lanes",
    "stats_states",
    "stats_ends",
    "stats_ended",
    "stats_failures",
    "stats_tenants",
    "stats_throughput",
    "stats_counts",
    "stats_totals",
    "stats_window",
    "stats_windows",
    "stats_window_counts",
    "stats_window_ends",
]


async def rows(desk: Desk, view: str) -> list[dict[str, Any]]:
    """The view as any SQL client reads it, on a connection of its own with nothing set."""
    connection = await asyncpg.connect(desk.store.database.url)
    try:
        return [dict(row) for row in await connection.fetch(f"SELECT * FROM rowlock.{view}")]
    finally:
        await connection.close()


@pytest.fixture
async def busy(desk: Desk) -> Desk:
    """Something for every view to tell: phases, references, tenants, hooks, a silent worker."""
    worker = await some_of_each(desk)
    await desk.store.silence(await desk.worker("silent", slots={"default": 99}))
    await desk.worker("second", lanes=["others"], slots={"others": 5})
    await desk.store.enqueue("other/on_failure")
    (claim,) = await desk.store.claim(worker, await desk.store.enqueue(refs='{"project": 7}', tags=("x",), tenant="a"))
    await desk.store.report(claim)
    await desk.store.execute("UPDATE {s}.jobs SET claimed_at = claimed_at - interval '1 hour' WHERE id = $1", claim[0])
    await history(desk, 10)
    return desk


async def test_python_tells_what_the_views_say(busy: Desk) -> None:
    """Clocks go on between two reads: spans are compared by their presence."""
    app = busy.app
    panel = await app.stats.panel()
    overview = panel.overview
    assert {row["state"]: Count(row["jobs"], exact=not row["capped"]) for row in await rows(busy, "stats_states")} == (
        overview.states
    )
    assert {row["state"]: Count(row["ended"], exact=not row["capped"]) for row in await rows(busy, "stats_ended")} == (
        overview.ended
    )
    assert [
        (row["lane"], row["running"], row["slots"], row["workers"], row["due"], row["oldest_wait"] is None)
        for row in sorted(await rows(busy, "stats_lanes"), key=lambda row: row["lane"])
    ] == [
        (one.lane.name, one.running, one.slots, one.workers, one.due.value, one.oldest_wait is None)
        for one in overview.lanes
    ]
    assert {
        (row["kind"], row["lane"], row["due"], row["scheduled"], row["oldest_id"])
        for row in await rows(busy, "stats_backlog")
    } == {(one.kind, one.lane, one.due.value, one.scheduled.value, one.oldest_id) for one in panel.backlog}
    assert {(row["id"], row["worker"], row["phase"], row["since"]) for row in await rows(busy, "stats_running")} == {
        (one.id, one.worker, one.progress and one.progress.phase, one.since) for one in panel.running
    }
    assert {(row["kind"], row["ended"], row["failed"], row["rate"]) for row in await rows(busy, "stats_failures")} == {
        (one.kind, one.ended.value, one.failed.value, one.rate) for one in panel.failures
    }
    assert {(row["tenant"], row["ended"], row["per_second"] > 0) for row in await rows(busy, "stats_tenants")} == {
        (one.tenant, one.ended.value, one.per_second > 0) for one in panel.tenants
    }
    (slow,), (throughput,) = await rows(busy, "stats_slow"), await rows(busy, "stats_throughput")
    assert [slow["id"]] == [one.id for one in await app.stats.slow()]
    same = await app.stats.throughput()
    assert throughput["ended"] == same.ended.value
    assert throughput["per_second"] == pytest.approx(throughput["ended"] / throughput["counted_for"].total_seconds())
    work = {(row["name"], row["value"], row["phase"], row["running"]) for row in await rows(busy, "stats_references")}
    assert work == {(one.name, one.value, one.phase, one.running) for one in await app.stats.references()}
    assert work == {("project", "7", "p", 1), ("tag", "x", "p", 1)}
    assert (len(await rows(busy, "stats_ends")), panel.throughput.ended) == (13, Count(13))


async def test_the_parts_of_the_panel_are_what_each_call_says(busy: Desk) -> None:
    stats = busy.app.stats
    panel = await stats.panel(window="2h", jobs=2, tenants=1)
    assert len(panel.running) == 2
    assert len(panel.tenants) == 1
    assert panel.throughput.ended == (await stats.throughput("2h")).ended
    assert panel.failures == await stats.failures("2h")
    assert [one.kind for one in panel.backlog] == [one.kind for one in await stats.backlog()]
    assert panel.overview.ended == (await stats.overview(window="2h")).ended
    assert json.dumps(asdict(panel), default=str)


async def test_the_window_is_a_setting_of_the_session(busy: Desk) -> None:
    store = busy.store
    await store.execute("UPDATE {s}.count_increments SET at = at - interval '10 min' WHERE state = 'failed'")
    failed = "SELECT sum(failed) FROM {s}.stats_failures"
    assert await store.value(failed) == 1
    await store.execute("SET rowlock.within = '5 min'")
    assert await store.value(failed) == 0
    await store.execute("RESET rowlock.within")
    assert await store.value(failed) == 1
    await store.execute("SET rowlock.slow_after = '2 h'")
    assert await store.value("SELECT count(*) FROM {s}.stats_slow") == 0


async def test_a_window_asked_for_in_python_is_not_left_behind(busy: Desk) -> None:
    await busy.app.stats.failures("1ms")
    await busy.app.stats.slow("1ms")
    async with busy.app.database().connection() as connection:
        assert await connection.fetchval("SELECT current_setting('rowlock.within', true)") in {None, ""}
        assert await connection.fetchval("SELECT count(*) FROM rowlock.stats_slow") == 1


async def test_a_reader_needs_no_right_to_the_tables(busy: Desk) -> None:
    role = f"reader_{uuid.uuid4().hex}"
    store = busy.store
    await store.execute(f"CREATE ROLE {role}")
    try:
        await store.execute(f"GRANT USAGE ON SCHEMA rowlock TO {role}")
        for view in VIEWS:
            await store.execute(f"GRANT SELECT ON rowlock.{view} TO {role}")
        await store.execute(f"SET ROLE {role}")
        for view in VIEWS:
            assert await store.value(f"SELECT count(*) FROM rowlock.{view}") > 0, view
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await store.value("SELECT count(*) FROM rowlock.jobs")
    finally:
        await store.execute("RESET ROLE")
        await store.execute(f"DROP OWNED BY {role}")
        await store.execute(f"DROP ROLE {role}")


async def test_no_view_shows_arguments_or_results(desk: Desk) -> None:
    columns = await desk.store.value(
        "SELECT array_agg(DISTINCT column_name::text) FROM information_schema.columns "
        "WHERE table_schema = 'rowlock' AND table_name LIKE 'stats%'"
    )
    assert not {"args", "result", "meta", "checkpoint"} & set(columns)
    assert sorted(VIEWS) == await desk.store.value(
        "SELECT array_agg(viewname::text ORDER BY viewname COLLATE \"C\") FROM pg_views WHERE schemaname = 'rowlock'"
    )


KIND = st.sampled_from(["a", "b", "a/on_failure", "b/on_success", "a/on_failure/on_success", "c/other", "*"])
LANES = st.lists(st.lists(KIND, max_size=4), max_size=4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lanes=LANES)
def test_a_kind_belongs_to_the_lane_whose_workers_take_it(lanes: list[list[str]], database_url: str) -> None:
    """The view and the workers decide alike."""
    known = ["a", "b", "a/on_failure", "b/on_success", "a/on_failure/on_success", "c/other", "d"]
    served = kinds_by_lane([Lane(f"l{n}", tuple(kinds)) for n, kinds in enumerate(lanes)], known)
    expected = {kind: name for name, kinds in served.items() for kind in kinds}

    async def found() -> dict[str, str]:
        connection = await asyncpg.connect(database_url)
        try:
            await connection.execute("TRUNCATE rowlock.jobs, rowlock.lanes")
            await connection.executemany("INSERT INTO rowlock.jobs (kind) VALUES ($1)", [(kind,) for kind in known])
            await connection.executemany(
                "INSERT INTO rowlock.lanes (name, kinds) VALUES ($1, $2)",
                [(f"l{n}", kinds) for n, kinds in enumerate(lanes)],
            )
            return {row["kind"]: row["lane"] for row in await connection.fetch("SELECT * FROM rowlock.stats_backlog")}
        finally:
            await connection.close()

    depth = asyncio.run(found())
    assert set(depth) == set(known)
    assert {kind: lane for kind, lane in depth.items() if lane is not None} == expected


@pytest.mark.parametrize("told", [None, "drain"])
@pytest.mark.parametrize("state", ["up", "draining", "gone"])
@pytest.mark.parametrize("silent", [False, True])
async def test_slots_are_those_of_workers_that_work(desk: Desk, told: str | None, state: str, silent: bool) -> None:
    await desk.lane(slots=7)
    worker = await desk.worker(slots={"default": 3})
    await desk.store.execute("UPDATE {s}.workers SET told = $2, state = $3 WHERE id = $1", worker, told, state)
    if silent:
        await desk.store.silence(worker, 20)
    (lane,) = (await desk.app.stats.overview()).lanes
    views = [one for one in await desk.app.workers.list() if one.works]
    assert (lane.slots, lane.workers) == (sum(view.slots_in(lane.lane) for view in views), len(views))
    assert lane.workers == (told is None and state == "up" and not silent)


async def test_spans_of_the_views_are_the_databases(desk: Desk) -> None:
    await desk.lane()
    await desk.store.enqueue()
    await desk.store.execute("UPDATE {s}.jobs SET run_after = run_after - interval '90 s'")
    (backlog,), (lane,) = await desk.app.stats.backlog(), (await desk.app.stats.overview()).lanes
    assert backlog.oldest_wait is not None
    assert lane.oldest_wait is not None
    assert timedelta(seconds=90) <= backlog.oldest_wait <= lane.oldest_wait < timedelta(seconds=150)
