"""Every number of app.stats, on rows that were counted by hand."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.desk.workload import history, some_of_each

from rowlock import Count, InvalidOption, Retry, Rowlock, State

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock.model.workload import Backlog

NONE = Count(0)


async def test_an_empty_database_has_numbers_too(app: Rowlock) -> None:
    overview = await app.stats.overview()
    assert set(overview.states.values()) == set(overview.ended.values()) == {NONE}
    assert list(overview.states) == [State.PENDING, State.BLOCKED, State.QUEUED, State.RUNNING, State.FAILED]
    assert not overview.lanes
    assert not overview.workers
    assert not await app.stats.backlog()
    assert not await app.stats.slow("1s")
    assert not await app.stats.failures()
    speed = await app.stats.throughput("1m")
    assert (speed.ended, speed.per_second) == (NONE, 0.0)
    assert timedelta(0) < speed.window < timedelta(minutes=2)


async def test_the_overview_counts_jobs_by_state(desk: Desk) -> None:
    await some_of_each(desk)
    overview = await desk.app.stats.overview()
    assert overview.states == {
        State.PENDING: Count(2),
        State.BLOCKED: Count(3),
        State.QUEUED: Count(3),
        State.RUNNING: Count(4),
        State.FAILED: Count(1),
    }
    assert overview.ended == {
        State.COMPLETED: Count(2),
        State.COMPLETED_WITH_ERRORS: NONE,
        State.FAILED: Count(1),
        State.CANCELLED: NONE,
        State.EXPIRED: NONE,
    }
    assert [worker.running for worker in overview.workers] == [4]


async def test_the_overview_shows_each_lane_with_its_use(desk: Desk) -> None:
    worker = await some_of_each(desk)
    await desk.worker("second", lanes=["others"], slots={"others": 5})
    default, others = (await desk.app.stats.overview()).lanes
    assert (default.lane.name, default.running, default.slots, default.workers) == ("default", 3, 7, 1)
    assert (default.due, default.scheduled) == (Count(1), Count(1))
    assert default.oldest_wait is not None
    assert default.oldest_wait > timedelta(0)
    assert (others.lane.name, others.running, others.slots, others.workers) == ("others", 1, 7, 2)
    assert (others.due, others.scheduled) == (Count(1), NONE)
    await desk.store.silence(worker)
    default, others = (await desk.app.stats.overview()).lanes
    assert (default.running, default.slots, default.workers) == (3, 0, 0)
    assert (others.slots, others.workers) == (5, 1)


async def test_only_ends_within_the_window_count(desk: Desk) -> None:
    await some_of_each(desk)
    await desk.store.execute("UPDATE {s}.count_increments SET at = at - interval '2 hours' WHERE state = 'completed'")
    overview = await desk.app.stats.overview(window="1h")
    assert (overview.ended[State.COMPLETED], overview.ended[State.FAILED]) == (NONE, Count(1))
    assert overview.states[State.FAILED] == Count(1)
    assert (await desk.app.stats.overview(window="3h")).ended[State.COMPLETED] == Count(2)


async def test_counts_stop_at_their_cap_and_say_so(desk: Desk) -> None:
    await some_of_each(desk)
    await desk.store.execute(
        "INSERT INTO {s}.jobs (kind, state, gate_key, gate_place) "
        "SELECT 'k', 'blocked', 'a', -1 FROM generate_series(1, 997)"
    )
    await desk.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' FROM generate_series(1, 998)")
    overview, (first, *_) = await desk.app.stats.overview(), await desk.app.stats.backlog()
    assert overview.states[State.PENDING] == Count(2)
    assert overview.states[State.BLOCKED] == Count(1_000)
    assert overview.states[State.QUEUED] == Count(1_000, exact=False)
    assert str(overview.states[State.QUEUED]) == "1,000+"
    assert (first.due, first.scheduled) == (Count(999), Count(1))
    await desk.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' FROM generate_series(1, 2)")
    (first, *_) = await desk.app.stats.backlog()
    assert (first.due, first.scheduled) == (Count(1_000, exact=False), Count(1))
    (lane, _) = (await desk.app.stats.overview()).lanes
    assert (lane.due, lane.scheduled) == (Count(1_000, exact=False), Count(1))


async def test_the_backlog_tells_kind_lane_depth_and_oldest_wait(desk: Desk) -> None:
    await desk.lane("mail", kinds=("send",))
    for kind, priority, wait in [("send", 0, 60), ("send", 9, 30), ("orphan", 0, 120), ("send", 0, -3600)]:
        await desk.store.enqueue(kind, priority=priority)
        await desk.store.execute(
            "UPDATE {s}.jobs SET run_after = clock_timestamp() - make_interval(secs => $1) WHERE id = "
            "(SELECT max(id) FROM {s}.jobs)",
            float(wait),
        )
    await desk.store.enqueue("later", run_in=timedelta(hours=1))
    depth = await desk.app.stats.backlog()
    assert [(item.kind, item.lane, item.due, item.scheduled) for item in depth] == [
        ("orphan", None, Count(1), NONE),
        ("send", "mail", Count(2), Count(1)),
        ("later", None, NONE, Count(1)),
    ]

    def waited(item: Backlog) -> int:
        assert item.oldest_wait is not None
        return round(item.oldest_wait.total_seconds() / 30)

    assert [waited(item) for item in depth[:2]] == [4, 2]
    assert depth[2].oldest_wait is None


async def test_the_caps_of_many_pairs_stay_below_a_fixed_sum(desk: Desk) -> None:
    await desk.store.execute(
        "INSERT INTO {s}.jobs (kind, run_after) SELECT 'k' || n % 2000, clock_timestamp() - interval '1 s' "
        "FROM generate_series(1, 24000) n"
    )
    depth = await desk.app.stats.backlog()
    assert {item.due for item in depth} == {Count(10, exact=False)}
    assert sum(item.due.value for item in depth) == 20_000


async def test_slow_names_what_runs_for_longer(desk: Desk) -> None:
    worker = await desk.worker("tortoise")
    old, new = await desk.store.enqueue(), await desk.store.enqueue()
    for claim in await desk.store.claim(worker, old, new):
        await desk.store.report(claim)
    await desk.store.execute("UPDATE {s}.jobs SET claimed_at = claimed_at - interval '15 min' WHERE id = $1", old)
    (slow,) = await desk.app.stats.slow("10m")
    assert (slow.id, slow.worker, slow.lane, slow.worker_silent) == (old, "tortoise", "default", False)
    assert slow.running_for > timedelta(minutes=15)
    assert slow.progress is not None
    assert slow.progress.phase == "p"
    assert slow.public_id == (await desk.app.jobs.get(old)).public_id
    assert [job.id for job in await desk.app.stats.slow(0)] == [old, new]
    assert [job.id for job in await desk.app.stats.slow(0, limit=1)] == [old]


async def test_progress_of_an_earlier_attempt_is_not_shown(desk: Desk) -> None:
    worker, number = await desk.worker(), await desk.store.enqueue()
    claims = await desk.store.claim(worker, number)
    await desk.store.report(claims[0])
    await desk.store.silence(worker)
    assert await desk.store.rescue() == [number]
    await desk.store.execute("UPDATE {s}.jobs SET run_after = clock_timestamp()")
    await desk.store.claim(worker, number)
    (running,) = await desk.app.stats.slow(0)
    assert running.progress is None


async def test_failures_by_kind_with_rate_and_last_error(app: Rowlock) -> None:
    @app.job(retry=Retry(attempts=1))
    async def flaky(n: int) -> None:
        if n % 2:
            raise ValueError(f"odd: {n}")

    @app.job
    async def solid() -> None:
        pass

    async with app.worker():
        for n in (1, 2, 3, 4):
            await app.jobs.wait((await flaky.enqueue(n)).id, timeout=20)
        await app.jobs.wait((await solid.enqueue()).id, timeout=20)
    first, second = await app.stats.failures("1h")
    assert (first.kind, first.ended, first.failed, first.rate) == ("flaky", Count(4), Count(2), 0.5)
    assert first.last_error is not None
    assert first.last_error["message"] == "odd: 3"
    assert first.last_failed_id is not None
    assert (await app.jobs.get(first.last_failed_id)).finished_at == first.last_failed_at
    assert (second.kind, second.failed, second.rate, second.last_error) == ("solid", NONE, 0.0, None)


async def test_failures_that_end_last_do_not_distort_the_rate(desk: Desk) -> None:
    """In a burst, jobs that were retried fail after all others have ended."""
    for n, state in ((5_500, "completed"), (200, "failed")):
        await desk.store.execute(
            "INSERT INTO {s}.jobs (kind, state, claimed_at) SELECT 'k', 'running', now() FROM generate_series(1, $1)", n
        )
        await desk.store.execute(
            "UPDATE {s}.jobs SET state = $1, finished_at = clock_timestamp() WHERE state = 'running'", state
        )
    (found,) = await desk.app.stats.failures()
    assert (found.ended, found.failed) == (Count(5_700), Count(200))
    assert found.rate == pytest.approx(200 / 5_700)
    (tenant,) = await desk.app.stats.tenants()
    assert (tenant.ended, tenant.failed) == (Count(5_700), Count(200))
    assert (await desk.app.stats.overview()).ended[State.COMPLETED] == Count(5_500)


async def test_every_end_counts_however_many_there_are(desk: Desk) -> None:
    await some_of_each(desk)
    await history(desk, 6_000)
    await desk.store.one("fold_counts", only=None, batch=10_000, series=2_000)
    (found,) = await desk.app.stats.failures()
    assert (found.ended, found.failed, found.rate) == (Count(6_003), Count(1), 1 / 6_003)
    assert found.last_failed_id is not None
    tenants = {one.tenant: one for one in await desk.app.stats.tenants()}
    assert {tenant: one.ended for tenant, one in tenants.items()} == {
        None: Count(3_003),
        "acme": Count(1_500),
        "zeta": Count(1_500),
    }
    acme = tenants["acme"]
    assert acme.per_second == pytest.approx(1_500 / acme.window.total_seconds())
    assert [one.tenant for one in await desk.app.stats.tenants(limit=1)] == [None]
    assert (await desk.app.stats.throughput()).ended == Count(6_003)


async def test_throughput_is_ends_over_the_time_that_was_counted(desk: Desk) -> None:
    await some_of_each(desk)
    await desk.store.execute("UPDATE {s}.counting SET since = now() - interval '1 day'")
    for window in ("10s", "10m", "2d"):
        speed = await desk.app.stats.throughput(window)
        assert speed.ended == Count(3)
        assert speed.per_second == pytest.approx(3 / speed.window.total_seconds())
    assert timedelta(hours=24) <= speed.window < timedelta(hours=24, minutes=1)  # there are no older counts
    assert timedelta(minutes=10) <= (await desk.app.stats.throughput("10m")).window < timedelta(minutes=12)


async def test_what_runs_is_told_by_reference_and_phase(desk: Desk) -> None:
    worker = await desk.worker()
    jobs = [
        await desk.store.enqueue(refs='{"project": 7, "org": "acme"}', tags=("nightly",)),
        await desk.store.enqueue(refs='{"project": 7}'),
        await desk.store.enqueue("other", refs='{"project": 8}'),
        await desk.store.enqueue(),
    ]
    await desk.store.enqueue(refs='{"project": 7}')  # waits
    first, second, *_ = await desk.store.claim(worker, *jobs)
    await desk.store.report(first)
    found = await desk.app.stats.references()
    assert {(one.name, one.value, one.phase, one.kind, one.running) for one in found} == {
        ("project", "7", "p", "k", 1),
        ("project", "7", None, "k", 1),
        ("project", "8", None, "other", 1),
        ("org", "acme", "p", "k", 1),
        ("tag", "nightly", "p", "k", 1),
    }
    await desk.store.report(second)
    (work,) = await desk.app.stats.references("project", 7)
    assert (work.phase, work.running) == ("p", 2)
    assert work.longest > timedelta(0)
    assert not await desk.app.stats.references("project", 7, phase="editions")
    assert len(await desk.app.stats.references("project", limit=1)) == 1
    running = {one.id: one for one in await desk.app.stats.running()}
    assert (running[jobs[0]].refs, running[jobs[0]].tags) == ({"project": 7, "org": "acme"}, ("nightly",))
    assert len(await desk.app.stats.running(limit=2)) == 2


async def test_a_window_must_be_one(app: Rowlock) -> None:
    for call in (app.stats.overview(window=0), app.stats.failures("0s"), app.stats.tenants("0s")):
        with pytest.raises(InvalidOption, match="longer than 0"):
            await call
    with pytest.raises(InvalidOption, match="longer_than"):
        await app.stats.slow("soon")


async def test_running_jobs_of_a_real_worker_are_counted(app: Rowlock) -> None:
    release, begun = asyncio.Event(), asyncio.Event()

    @app.job
    async def hold() -> None:
        begun.set()
        await release.wait()

    async with app.worker(name="clerk"):
        await hold.enqueue()
        await begun.wait()
        overview = await app.stats.overview()
        assert overview.states[State.RUNNING] == Count(1)
        (lane,) = overview.lanes
        assert (lane.running, lane.slots, lane.due) == (1, 10, NONE)
        release.set()
