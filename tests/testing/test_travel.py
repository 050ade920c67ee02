from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from rowlock import InvalidOption, JobNotFound, Retry
from rowlock.testing import near

if TYPE_CHECKING:
    from tests.testing.shop import Shop

    from rowlock.testing import Kit


async def test_a_job_of_tomorrow_runs_tomorrow(kit: Kit, shop: Shop) -> None:
    await shop.report.options(run_in="1 day").enqueue(org_id=1)
    await kit.travel("23h")
    assert not await kit.drain()
    await kit.travel("1h")
    assert (await kit.drain()).states == {"completed": 1}


def test_blocking_tests_travel_too(kit: Kit, shop: Shop) -> None:
    shop.report.options(run_in="1 day").enqueue_sync(org_id=1)
    kit.travel_sync("1 day")
    assert kit.drain_sync()


async def test_travel_to_a_moment(kit: Kit, shop: Shop) -> None:
    await shop.report.options(run_in="2 days").enqueue(org_id=1)
    await kit.travel_to(datetime.now(UTC) + timedelta(days=2, seconds=1))
    assert kit.now == near("2 days")
    assert await kit.drain()
    with pytest.raises(InvalidOption, match="Time only goes forward"):
        await kit.travel_to(datetime.now(UTC))
    with pytest.raises(InvalidOption, match="time zone"):
        await kit.travel_to(datetime(2030, 1, 1))  # noqa: DTZ001 - that is the point


async def test_every_stored_moment_moves_and_nothing_else(kit: Kit, shop: Shop) -> None:
    await shop.report.options(idempotency_key="once", expires_in="9 days").enqueue(org_id=1)
    kit.fail_next(shop.report, OSError("x"))
    await kit.drain()
    raw = await asyncpg.connect(kit.database_url)
    columns = [
        (row["table_name"], row["column_name"])
        for row in await raw.fetch(
            "SELECT table_name, column_name FROM information_schema.columns "
            "JOIN information_schema.tables USING (table_schema, table_name) WHERE table_type = 'BASE TABLE' "
            "AND table_schema = 'rowlock' AND data_type = 'timestamp with time zone'"
        )
    ]
    assert len(columns) > 20
    untouched = {("workers", "seen_at"), ("duties", "last_run_at"), ("pairs", "last_seen"), ("retention", "pruned_to")}
    # Increments are moved into the tables of counts and groups by the first duty.
    passing = {"kinds", "count_increments", "failure_increments"}
    checked = [(t, c) for t, c in columns if (t, c) not in untouched and t not in passing]

    async def moments() -> dict[tuple[str, str], datetime | None]:
        return {(t, c): await raw.fetchval(f"SELECT max({c}) FROM rowlock.{t}") for t, c in checked}

    try:
        before = await moments()
        rows = await raw.fetch("SELECT id, kind, state, fence, seq, attempt FROM rowlock.jobs")
        await kit.travel("8 days")
        after = await moments()
        assert await raw.fetch("SELECT id, kind, state, fence, seq, attempt FROM rowlock.jobs") == rows
    finally:
        await raw.close()
    filled = {key for key, moment in before.items() if moment is not None}
    assert {
        ("jobs", "run_after"),
        ("jobs", "expires_at"),
        ("job_attempts", "ended_at"),
        ("job_keys", "expires_at"),
    } <= filled
    for key in filled - {("pairs", "low_water")}:
        moment, moved = before[key], after[key]
        assert moment is not None
        assert moved is not None, key
        assert moment - moved == timedelta(days=8), key


async def test_hours_that_were_counted_move_by_an_hour(kit: Kit) -> None:
    """Whatever the order of their rows: that of the later hour passes the place of the earlier one."""
    raw = await asyncpg.connect(kit.database_url)
    count = (
        "INSERT INTO rowlock.counts_by_hour (since, kind, lane, tenant, outcome, state, measure, bucket, seconds, n) "
        "VALUES (date_trunc('hour', now()) - $1::interval, 'k', '', '', 'completed', 'completed', 'run', 1, 0, $2)"
    )
    for hours in (1, 2, 3):
        await raw.execute(count, timedelta(hours=hours), hours)
    await kit.travel("1h")
    rows = await raw.fetch("SELECT now() - since AS age, n FROM rowlock.counts_by_hour WHERE kind = 'k' ORDER BY n")
    assert [(row["age"] // timedelta(hours=1), row["n"]) for row in rows] == [(2, 1), (3, 2), (4, 3)]
    await raw.close()


async def test_expiry_and_retention_happen(kit: Kit, shop: Shop) -> None:
    expiring = await shop.report.options(run_in="1h", expires_in="2h").enqueue(org_id=1)
    done = await shop.mail.enqueue("ada")
    await kit.drain()
    await kit.travel("4h")
    assert (await expiring.job()).state == "expired"
    await kit.travel("8 days")
    for job in (expiring, done):
        with pytest.raises(JobNotFound):
            await job.job()


async def test_max_age_ends_a_waiting_job(kit: Kit, shop: Shop) -> None:
    job = await shop.report.options(run_in="2 days", max_age="1 day").enqueue(org_id=1)
    await kit.travel("25h")
    assert (await job.job()).state == "failed"


async def test_thirty_days_of_retries_step_by_step(kit: Kit, shop: Shop) -> None:
    """20 attempts, back-off doubling from 30 s up to 3 days: a month goes by."""
    kit.fail_next(shop.report, OSError("down"), times=19)
    job = await shop.report.enqueue(org_id=1)
    await kit.drain()
    waits: list[timedelta] = []
    while (wait := await kit.travel_to_next()) is not None:
        waits.append(wait)
        assert len(await kit.drain()) == 1
    assert len(waits) == 19
    assert waits[0] == pytest.approx(timedelta(seconds=30), abs=timedelta(seconds=5))
    assert waits[-1] == pytest.approx(timedelta(days=3), abs=timedelta(seconds=5))
    assert sum(waits, timedelta()) > timedelta(days=15)
    after = await job.job()
    assert (after.state, after.attempt) == ("completed", 20)
    assert shop.said == ["report 1 20"]


async def test_run_for_lives_through_a_span(kit: Kit, shop: Shop) -> None:
    kit.fail_next(shop.report, OSError("down"), times=19)
    await shop.report.enqueue(org_id=1)
    await shop.mail.options(run_in="40 days").enqueue("late")
    began = time.process_time()
    drained = await kit.run_for("30 days")
    assert time.process_time() - began < 5
    assert drained.states == {"queued": 19, "completed": 1}
    assert kit.now == near("30 days")
    assert (await kit.run_for("10 days")).kinds == {"mail": 1}


def test_run_for_in_a_blocking_test_and_within_its_limit(kit: Kit, shop: Shop) -> None:
    shop.snoozing.enqueue_sync(n=5)
    assert kit.run_for_sync("1 day").states == {"queued": 4, "completed": 1}
    assert kit.travel_to_next_sync() is None


async def test_a_worker_that_lives_in_the_test_hears_of_the_journey(kit: Kit, shop: Shop) -> None:
    job = await shop.report.options(run_in="1 day").enqueue(org_id=1)
    async with kit.worker():
        await (await shop.report.enqueue(org_id=2)).wait(timeout=20)  # its cursor stands after the job of tomorrow now
        await kit.travel("1 day")
        assert await job.wait(timeout=20) == "report of 1"


async def test_a_failing_kind_may_have_any_policy(kit: Kit, shop: Shop) -> None:
    @shop.app.job(retry=Retry(attempts=3, minimum="1h"))
    async def flaky() -> None:
        message = "always"
        raise OSError(message)

    await flaky.enqueue()
    drained = await kit.run_for("1 day")
    assert [(job.state, job.attempt) for job in drained.runs] == [("queued", 1), ("queued", 2), ("failed", 3)]
