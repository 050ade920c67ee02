"""Counts of ended jobs and attempts: each end once, from every path, before and after they are folded."""

from __future__ import annotations

import asyncio
import bisect
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.factories import opened, several
from tests.waiting import eventually

from rowlock import Retry, Rowlock, Snooze, Workflow
from rowlock.contrib.prometheus import NO_LANE, NO_TENANT, RowlockCollector
from rowlock.model.job_counts import BOUNDS, OTHER
from rowlock.upkeep.counts import FOLDED_AT_ONCE, MOST_SERIES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.factories import Store
    from tests.upkeep.duty_running import Desk

    from rowlock.model.job import Claim

Ends = dict[tuple[str, str, str, str], int]
"""(kind, lane, tenant, state) to jobs."""
TABLES = ("stats_totals", "count_totals", "counts_by_minute", "counts_by_ten_minutes", "counts_by_hour")


async def ends(store: Store, table: str) -> Ends:
    """The ended jobs that a table or view of counts has."""
    rows = await store.connection.fetch(
        f"SELECT kind, lane, tenant, state, sum(n)::integer AS n FROM rowlock.{table} "
        "WHERE measure <> 'wait' AND state <> '' GROUP BY 1, 2, 3, 4"
    )
    return {(row["kind"], row["lane"], row["tenant"], row["state"]): row["n"] for row in rows}


async def ends_of_jobs(store: Store) -> Ends:
    """The same, from every row of jobs."""
    rows = await store.connection.fetch(
        "SELECT kind, coalesce(lane, '') AS lane, coalesce(tenant, '') AS tenant, state, count(*) AS n "
        "FROM rowlock.jobs WHERE finished_at IS NOT NULL GROUP BY 1, 2, 3, 4"
    )
    return {(row["kind"], row["lane"], row["tenant"], row["state"]): row["n"] for row in rows}


async def attempts(store: Store) -> Counter[str]:
    """The ended attempts that are counted, by outcome."""
    rows = await store.connection.fetch(
        "SELECT outcome, sum(n)::integer AS n FROM rowlock.stats_totals WHERE measure = 'run' GROUP BY 1"
    )
    return Counter({row["outcome"]: row["n"] for row in rows})


async def attempts_of_jobs(store: Store) -> Counter[str]:
    """The same, from every row of job_attempts, and of jobs for attempts that need none."""
    rows = await store.connection.fetch(
        "SELECT a.outcome, count(*) AS n FROM rowlock.job_attempts a GROUP BY 1 UNION ALL "
        "SELECT j.state, count(*) FROM rowlock.jobs j WHERE j.finished_at IS NOT NULL AND j.claimed_at IS NOT NULL "
        "AND j.claimed_by IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM rowlock.job_attempts a WHERE a.job_id = j.id AND a.fence = j.fence - 1) "
        "GROUP BY 1"
    )
    found: Counter[str] = Counter()
    for row in rows:
        found[row["outcome"]] += row["n"]
    return found


async def fold(store: Store) -> None:
    while (await store.one("fold_counts", only=None, batch=FOLDED_AT_ONCE, series=MOST_SERIES))["folded"]:
        pass


async def test_every_way_to_end_is_counted_once(desk: Desk) -> None:
    store = desk.store
    worker = await store.worker()

    async def claimed(tenant: str | None = None) -> tuple[int, list[Claim]]:
        job = await store.enqueue(tenant=tenant)
        return job, await store.claim(worker, job)

    for state in ("completed", "completed_with_errors", "failed", "cancelled"):
        _, claims = await claimed(tenant="acme")
        await store.complete(*claims, state=state)
        assert not await store.complete(*claims, state=state)  # written again: refused
    again, claims = await claimed()
    await store.give_back(*claims)
    (second,) = await store.claim(worker, again)
    await store.give_back(second, outcome="snoozed", refund=1)
    (third,) = await store.claim(worker, again)
    await store.cancel_running(again)
    await store.give_back(third)
    stopped, late = await claimed()
    await store.stop(stopped)
    assert not await store.complete(*late)
    _, suspended = await claimed()
    await store.suspend(suspended[0], "go")
    await store.cancel_waiting(await store.enqueue())
    await store.reject(await store.enqueue(approval=True))
    await store.execute("INSERT INTO {s}.jobs (kind, expires_at) VALUES ('k', now() - interval '1 s')")
    await store.expire()
    _, old = await claimed()
    await store.execute("UPDATE {s}.jobs SET too_old_at = now() - interval '1 s' WHERE id = $1", old[0].job_id)
    await store.too_old()
    await store.kind("precious", "fail")
    dead = await store.worker("dead")
    lost = [await store.enqueue(), await store.enqueue("precious")]
    await store.claim(dead, *lost)
    await store.silence(dead)
    assert sorted(await store.rescue()) == lost
    assert await ends(store, "stats_totals") == await ends_of_jobs(store)
    assert await attempts(store) == {
        "completed": 1,
        "completed_with_errors": 1,
        "failed": 3,
        "cancelled": 1,
        "snoozed": 1,
        "stopped": 2,
        "waiting": 1,
        "lost": 2,
    }
    await fold(store)
    for table in TABLES:
        assert await ends(store, table) == await ends_of_jobs(store), table


async def test_orders_of_people_and_jobs_run_by_id_are_counted_once(database_url: str) -> None:
    async with Rowlock(database_url) as app, opened(database_url) as store:

        @app.job("ordered", retry=Retry(attempts=1))
        async def ordered(n: int) -> None:
            if n < 0:
                raise OSError

        flow = Workflow("three")
        first = flow.add("first", ordered.step(n=1))
        flow.add("second", ordered.step(n=2), after=[first])
        flow.add("third", ordered.step(n=3))
        started = await flow.enqueue()
        await app.workflows.cancel(started.id)
        await app.run_job((await ordered.enqueue(n=1)).id)
        failed = await ordered.enqueue(n=-1)
        await app.run_job(failed.id)
        await app.jobs.retry(failed.id)
        await app.run_job(failed.id)
        many = [job.id for job in [await ordered.options(run_in="1h").enqueue(n=n) for n in range(6)]]
        await app.jobs.cancel_many(many[:3])
        order = await app.operations.preview("cancel", ids=many)
        assert order.filter_hash is not None
        running = await app.operations.start("cancel", ids=many, filter_hash=order.filter_hash, expected_max=6)

        async def over() -> bool:
            return (await app.operations.get(running.id or 0)).state != "running"

        await eventually(over)
        table = await ends_of_jobs(store)
        assert sum(table.values()) == 3 + 1 + 1 + 6
        table["ordered", "default", "", "failed"] += 1  # the first end of the job that was retried
        assert await ends(store, "stats_totals") == table
        assert await attempts(store) == {"completed": 1, "failed": 2}
        await app.jobs.delete(failed.id)
        await fold(store)
        assert await ends(store, "stats_totals") == table


@pytest.mark.parametrize("view", ["stats_ended", "stats_failures", "stats_tenants", "stats_throughput"])
@pytest.mark.parametrize("window", [timedelta(minutes=5), timedelta(minutes=150), timedelta(days=1)])
async def test_no_window_is_read_from_the_minutes_of_a_whole_day(desk: Desk, view: str, window: timedelta) -> None:
    store = desk.store
    for table, step in (("counts_by_minute", "1 min"), ("counts_by_ten_minutes", "10 min"), ("counts_by_hour", "1 h")):
        await store.execute(
            f"INSERT INTO {{s}}.{table} SELECT m, 'kind.' || k, '', '', 'completed', 'completed', 'run', b, 1, 1"
            f" FROM generate_series(date_trunc('hour', now()) - interval '25 hours', now(), interval '{step}') AS m,"
            " generate_series(1, 20) AS k, generate_series(1, 2) AS b"
        )
        await store.execute(f"ANALYZE {{s}}.{table}")
    whole = await store.value("SELECT pg_total_relation_size('{s}.counts_by_minute') / 8192")
    async with store.connection.transaction():
        await store.fetch("stats_window", window=window)
        explained = await store.connection.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM rowlock.{view}"
        )
    plan = json.loads(explained)[0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < whole / 3


async def test_a_window_has_each_end_once_wherever_it_begins(desk: Desk) -> None:
    """Minutes, ten minutes and hours meet without a gap, folded and not."""
    store = desk.store
    ends_at = "date_trunc('hour', now()) - interval '3 hours'"
    await store.execute(
        "INSERT INTO {s}.count_increments (at, outcome, state, kind, lane, tenant, n, run_seconds, wait_seconds) "
        f"SELECT {ends_at} + m * interval '1 minute', '', 'completed', 'k', '', '', 1, 0, 0 "
        "FROM generate_series(0, 150) AS m"
    )
    for _ in ("not folded", "folded"):
        for minute in (0, 1, 9, 10, 11, 47, 60, 61, 119, 150, 151):
            async with store.connection.transaction():
                await store.execute(
                    "SELECT set_config('rowlock.within', "
                    f"(clock_timestamp() - ({ends_at}) - make_interval(mins => $1::integer))::text, true)",
                    minute,
                )
                counted = await store.value("SELECT coalesce(sum(n), 0)::integer FROM {s}.stats_window_ends")
            assert counted == 151 - minute, minute
        await fold(store)
    for table in ("counts_by_ten_minutes", "counts_by_hour", "counts_by_minute"):
        assert sum((await ends(store, table)).values()) == 151


async def test_a_claim_that_its_gate_puts_back_is_no_attempt(desk: Desk) -> None:
    store = desk.store
    worker = await store.worker()
    await store.gate("narrow")
    jobs = [await store.enqueue(gate_key="narrow") for _ in range(3)]
    (claim,) = await store.claim(worker, *jobs)
    assert not await attempts(store)
    await store.complete(claim)
    assert await attempts(store) == {"completed": 1}


async def test_a_retry_by_a_person_counts_the_second_end_too(desk: Desk) -> None:
    store = desk.store
    worker, job = await store.worker(), await store.enqueue()
    for _ in range(2):
        await store.complete(*await store.claim(worker, job), state="failed")
        await store.retry(job)
    assert await ends(store, "stats_totals") == {("k", "default", "", "failed"): 2}
    assert await store.value("SELECT sum(n)::integer FROM {s}.stats_totals WHERE outcome = 'reopened'") == 2
    assert await attempts(store) == {"failed": 2}


async def test_an_update_of_a_finished_job_is_no_end(desk: Desk) -> None:
    store = desk.store
    await store.complete(*await store.claim(await store.worker(), await store.enqueue()))
    await store.execute("UPDATE {s}.jobs SET meta = '{}'")
    await store.execute("UPDATE {s}.jobs SET finished_at = now()")
    assert await ends(store, "stats_totals") == {("k", "default", "", "completed"): 1}


async def test_a_transaction_that_is_rolled_back_counts_nothing(desk: Desk) -> None:
    store = desk.store
    (claim,) = await store.claim(await store.worker(), await store.enqueue())
    transaction = store.connection.transaction()
    await transaction.start()
    await store.complete(claim)
    assert await ends(store, "stats_totals")
    await transaction.rollback()
    assert not await ends(store, "stats_totals")


async def test_an_end_that_commits_after_a_fold_is_counted_by_the_next(database_url: str) -> None:
    async with several(database_url, 3) as (slow, folder, other):
        worker = await slow.worker()
        first, second = await slow.claim(worker, await slow.enqueue(), await slow.enqueue())
        transaction = slow.connection.transaction()
        await transaction.start()
        await slow.complete(first)
        await other.complete(second)
        await fold(folder)
        assert sum((await ends(folder, "stats_totals")).values()) == 1
        await transaction.commit()
        assert sum((await ends(folder, "stats_totals")).values()) == 2
        await fold(folder)
        assert sum((await ends(folder, "count_totals")).values()) == 2


async def test_two_folds_at_once_count_once(database_url: str) -> None:
    async with several(database_url, 2) as (one, two):
        await one.complete(*await one.claim(await one.worker(), await one.enqueue()))
        transaction = one.connection.transaction()
        await transaction.start()
        assert (await one.one("fold_counts", only=None, batch=10, series=10))["folded"] == 1
        assert (await two.one("fold_counts", only=None, batch=10, series=10))["folded"] == 0
        await transaction.rollback()  # as if its process had died
        assert (await two.one("fold_counts", only=None, batch=10, series=10))["folded"] == 1
        assert sum((await ends(two, "stats_totals")).values()) == 1


async def test_a_bucket_ends_with_its_bound(desk: Desk) -> None:
    spans = [0.0, *(bound * share for bound in BOUNDS for share in (0.999, 1, 1.001)), 1e6]
    for span in spans:
        assert await desk.store.value("SELECT {s}.count_bucket($1)", span) == bisect.bisect_left(BOUNDS, span)


async def test_durations_are_counted_in_their_buckets(desk: Desk) -> None:
    store = desk.store
    for wait, run in ((40, 2), (40, 7), (400, 0)):
        (claim,) = await store.claim(await store.worker(), await store.enqueue())
        await store.execute(
            "UPDATE {s}.jobs SET claimed_at = now() - make_interval(secs => $2), "
            "run_after = now() - make_interval(secs => $2 + $3) WHERE id = $1",
            claim.job_id,
            float(run),
            float(wait),
        )
        await store.complete(claim)
    async with Rowlock(store.database.url) as app:
        for _ in range(2):
            (kind,) = (await app.stats.totals()).kinds
            assert kind.counts.wait.counts[BOUNDS.index(60)] == 2
            assert kind.counts.wait.counts[BOUNDS.index(900)] == 1
            assert kind.counts.run.counts[BOUNDS.index(2.5)] == kind.counts.run.counts[BOUNDS.index(10)] == 1
            assert (kind.counts.run.total, kind.counts.wait.total) == (3, 3)
            assert kind.counts.wait.seconds == pytest.approx(480)
            assert kind.counts.run.seconds == pytest.approx(9, abs=1)
            await fold(store)


async def test_tenants_and_kinds_beyond_the_most_series_are_counted_as_others(desk: Desk) -> None:
    store = desk.store
    worker = await store.worker()
    named = [("k", f"t{n}") for n in range(12)] + [(f"k{n}", "t") for n in range(6)]
    for kind, tenant in named:
        await store.complete(*await store.claim(worker, await store.enqueue(kind, tenant=tenant)))
        await store.one("fold_counts", only=None, batch=100, series=12)
    found = await ends(store, "count_totals")
    assert sum(found.values()) == len(named)
    assert {tenant for kind, _, tenant, _ in found if kind == "k"} == {*(f"t{n}" for n in range(9)), OTHER}
    assert found["k", "default", OTHER, "completed"] == 3
    assert {kind for kind, *_ in found} == {"k", "k0", "k1", OTHER}
    assert found[OTHER, OTHER, OTHER, "completed"] == 4
    assert await store.value("SELECT count(*) FROM {s}.count_series") == 13


async def test_counters_do_not_go_down_when_minutes_and_hours_are_pruned(desk: Desk) -> None:
    store = desk.store
    await store.complete(*await store.claim(await store.worker(), await store.enqueue()))
    await desk.run("counts")
    for table in ("counts_by_minute", "counts_by_ten_minutes"):
        await store.execute(f"UPDATE {{s}}.{table} SET since = since - interval '26 hours'")
    await store.execute("UPDATE {s}.counts_by_hour SET since = since - interval '32 days'")
    await desk.run("counts")
    assert not await ends(store, "stats_counts")
    assert sum((await ends(store, "stats_totals")).values()) == 1
    await store.execute("UPDATE {s}.count_totals SET counted_at = now() - interval '32 days'")
    await store.execute(
        "INSERT INTO {s}.counts_by_hour SELECT now() - interval '32 days', 'k', '', '', '', '', '', 0, 0, 0"
    )
    await desk.run("counts")
    assert not await ends(store, "stats_totals")  # forgotten after a month without a count
    assert not await store.value("SELECT count(*) FROM {s}.count_series")


async def published(app: Rowlock) -> Ends:
    """Ended jobs by kind, lane and state as a scrape tells them; the tenant is left out."""
    text = (await RowlockCollector(app, every=1).text()).decode()
    return {
        (sample.labels["kind"], sample.labels["lane"].replace(NO_LANE, ""), "", sample.labels["state"]): int(
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "rowlock_jobs_ended_total"
    }


async def assert_true(app: Rowlock, store: Store) -> None:
    """Every published number is that of the whole table."""
    table = await ends_of_jobs(store)
    assert await ends(store, "stats_totals") == table
    by_kind, by_tenant, by_state, scraped = (
        Counter[tuple[str, str]](),
        Counter[str](),
        Counter[str](),
        Counter[object](),
    )
    for (kind, lane, tenant, state), n in table.items():
        by_kind[kind, state] += n
        by_tenant[tenant or NO_TENANT] += n
        by_state[state] += n
        scraped[kind, lane, "", state] += n
    overview = await app.stats.overview(window="2h")
    assert {state: count.value for state, count in overview.ended.items() if count.value} == by_state
    assert all(count.exact for count in overview.ended.values())
    for failures in await app.stats.failures("2h"):
        assert failures.failed.value == by_kind[failures.kind, "failed"]
        assert failures.ended.value == sum(n for (kind, _), n in by_kind.items() if kind == failures.kind)
        assert failures.rate == failures.failed.value / failures.ended.value
    assert {one.tenant or NO_TENANT: one.ended.value for one in await app.stats.tenants("2h")} == by_tenant
    assert (await app.stats.throughput("2h")).ended.value == sum(table.values())
    assert await published(app) == scraped
    assert await attempts(store) == await attempts_of_jobs(store)
    (series,) = (await app.stats.series("2h")).series
    assert sum(sum(point.counts.ended.values()) for point in series.points) == sum(table.values())


async def mixed_run(app: Rowlock, jobs: int) -> None:
    """Successes first, then retries, then failures in a burst at the end; snoozes, tenants, waiting jobs cancelled."""
    snoozed: set[int] = set()

    @app.job("mixed.ok", lane="quick")
    async def fine(n: int) -> None: ...

    @app.job("mixed.flaky", retry=Retry(attempts=3, minimum="10ms", multiplier=1))
    async def flaky(n: int) -> None:
        raise OSError(f"number {n}")

    @app.job("mixed.nap")
    async def nap(n: int) -> Snooze | None:
        if n in snoozed:
            return None
        snoozed.add(n)
        return Snooze("10ms")

    for tenant in (None, "acme", "zeta"):
        await fine.options(tenant=tenant).enqueue_many([{"n": n} for n in range((jobs - 4 * (jobs // 100)) // 3)])
        await flaky.options(tenant=tenant).enqueue_many([{"n": n} for n in range(jobs // 100)])
    await nap.enqueue_many([{"n": n} for n in range(jobs // 100)])
    for late in [await fine.options(run_in="1h").enqueue(n=n) for n in range(3)]:
        await app.jobs.cancel(late.id)
    async with opened(app.settings.database_url or "") as store, app.worker(lanes=["quick", "default"]):
        await eventually(
            lambda: store.value("SELECT NOT EXISTS (SELECT 1 FROM {s}.jobs WHERE finished_at IS NULL)"), within=500
        )


async def test_what_is_published_is_what_the_table_says(database_url: str) -> None:
    async with Rowlock(database_url) as app, opened(database_url) as store:
        await mixed_run(app, 400)
        await assert_true(app, store)
        await fold(store)
        await assert_true(app, store)


JOBS: Final = int(os.environ.get("ROWLOCK_COUNTED_JOBS", "5000"))
"""make test-numbers runs the test with 50,000."""
KILLED = """
import asyncio, os, sys
from rowlock import Rowlock

app = Rowlock(sys.argv[1])

@app.job("mixed.slow")
async def slow(n: int) -> None:
    print("begun", flush=True)
    await asyncio.sleep(3600)

async def main():
    async with app, app.worker(lanes=["quick"], name="victim"):
        await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_thousands_of_jobs_and_a_killed_worker_are_counted_exactly(database_url: str, tmp_path: Path) -> None:
    program = tmp_path / "victim.py"
    program.write_text(textwrap.dedent(KILLED), encoding="utf-8")
    async with Rowlock(database_url) as app, opened(database_url) as store:

        @app.job("mixed.slow", lane="quick", on_worker_lost="fail")
        async def slow(n: int) -> None: ...

        await store.lane("quick", kinds=["mixed.slow", "mixed.ok"], stale="1 s", slots=50)
        await slow.enqueue_many([{"n": n} for n in range(10)])
        with subprocess.Popen([sys.executable, program, database_url], stdout=subprocess.PIPE) as victim:  # noqa: ASYNC220 - to be killed
            assert victim.stdout is not None
            await asyncio.to_thread(victim.stdout.readline)
            await eventually(lambda: store.value("SELECT count(*) = 10 FROM {s}.jobs WHERE state = 'running'"))
            victim.send_signal(signal.SIGKILL)
        await mixed_run(app, JOBS)
        assert (await attempts(store))["lost"] == 10
        assert await store.value("SELECT count(*) FROM {s}.jobs WHERE finished_at IS NOT NULL") >= JOBS
        await assert_true(app, store)
        await fold(store)
        await assert_true(app, store)
