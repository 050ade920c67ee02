"""The duties of upkeep as the duty runner runs them, and two of those at once."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import Store, beating, opened
from tests.upkeep.duty_running import Desk, duty_runner
from tests.waiting import eventually

from rowlock.model import ids
from rowlock.store.rows.jobs import job_of
from rowlock.upkeep.duties import DUTIES

if TYPE_CHECKING:
    from rowlock.model.job import Claim


async def lost(store: Store, n: int = 1, **fields: Any) -> list[Claim]:  # noqa: ANN401 - NewJob's
    """Claims of a worker that fell silent."""
    worker = await store.worker("dead")
    claims = await store.claim(worker, *[await store.enqueue(**fields) for _ in range(n)])
    await store.silence(worker)
    return claims


async def test_a_lost_job_is_queued_again_without_burning_an_attempt(desk: Desk) -> None:
    (claim,) = await lost(desk.store)
    assert await desk.run("rescue") == 1
    row = await desk.store.row(claim.job_id)
    assert (row["state"], row["attempt"], row["losses"], row["claimed_by"]) == ("queued", 0, 1, None)
    assert row["fence"] == claim.fence + 1
    (attempt,) = await desk.store.fetch("attempts_of", id=claim.job_id)
    assert (attempt["outcome"], attempt["worker_name"]) == ("lost", "dead")


async def test_a_job_without_progress_is_lost_though_its_worker_lives(desk: Desk) -> None:
    store = desk.store
    await store.execute("UPDATE {s}.lanes SET stall_after = '1 s'")
    await store.lane("patient", kinds=["p"])
    worker = await store.worker("alive")
    still, reports, elsewhere = [await store.enqueue() for _ in range(3)]
    (lost, kept) = await store.claim(worker, still, reports)
    await store.claim(worker, elsewhere, lane="patient")
    await store.execute("UPDATE {s}.jobs SET claimed_at = claimed_at - interval '1 hour'")
    assert await store.report(kept)
    assert await desk.run("stalled", watched=timedelta(milliseconds=500)) == 0
    assert await desk.run("stalled") == 1
    assert await store.states(still, reports, elsewhere) == ["queued", "running", "running"]
    row = await store.row(still)
    assert (row["attempt"], row["losses"], row["fence"]) == (0, 1, lost.fence + 1)
    (attempt,) = await store.fetch("attempts_of", id=still)
    assert (attempt["outcome"], attempt["worker_name"]) == ("lost", "alive")
    assert '"no progress for 1 s"' in attempt["error"]
    # Nothing the stalled attempt still says is kept.
    assert not await store.report(lost)
    # A report of long ago counts as none.
    await store.execute("UPDATE {s}.job_progress SET reported_at = reported_at - interval '1 hour'")
    assert await desk.run("stalled") == 1


async def test_no_lane_with_a_limit_no_duty(desk: Desk) -> None:
    about = beating(0)
    await desk.store.execute("UPDATE {s}.duties SET last_run_at = '-infinity'")
    assert "stalled" not in (await desk.store.one("beat", **about))["due"]
    await desk.store.execute("UPDATE {s}.lanes SET stall_after = '5 s'")
    assert "stalled" in (await desk.store.one("beat", **about))["due"]


@pytest.mark.parametrize(("policy", "state"), [("retry", "queued"), ("fail", "failed"), ("hold", "pending")])
async def test_the_kind_decides_what_a_loss_means(desk: Desk, policy: str, state: str) -> None:
    await desk.store.fetch(
        "register_kinds",
        names=["k"],
        on_worker_lost=[policy],
        max_losses=[None],
        isolates=[False],
        hooks=[None],
        defaults=[None],
    )
    (claim,) = await lost(desk.store)
    await desk.run("rescue")
    assert await desk.store.states(claim.job_id) == [state]
    if policy == "hold":
        assert await desk.store.approve(claim.job_id) == [claim.job_id]


async def test_a_job_that_loses_three_workers_is_quarantined(desk: Desk) -> None:
    job = await desk.store.enqueue()
    for losses in (1, 2, 3):
        await desk.store.execute("UPDATE {s}.jobs SET run_after = clock_timestamp()")
        worker = await desk.store.worker()
        assert await desk.store.claim(worker, job)
        await desk.store.silence(worker)
        await desk.run("rescue")
        row = await desk.store.row(job)
        assert row["losses"] == losses
    assert row["state"] == "failed"
    assert "quarantined" in row["errors"]


@pytest.mark.parametrize(
    ("isolates", "limit", "max_attempts", "most"),
    [
        (True, None, 3, 3),  # as often as it may be attempted
        (True, None, 7, 7),
        (True, None, 1, 2),  # the first loss may be its neighbour's fault
        (False, None, 7, 3),  # what cannot run alone is judged by max_losses
        (True, 1, 7, 1),  # as the kind says
        (False, 5, 1, 5),
        (True, 0, 1, None),  # without limit
    ],
)
@pytest.mark.parametrize("way", ["rescue", "rescue_dead", "stalled", "orphans", "unblock"])
async def test_a_job_is_lost_as_often_as_it_may_be_and_then_fails(
    desk: Desk, way: str, *, isolates: bool, limit: int | None, max_attempts: int, most: int | None
) -> None:
    store = desk.store
    await store.kind("k", "retry", isolates=isolates, max_losses=limit)
    job = await store.enqueue(max_attempts=max_attempts)
    for losses in (1, most - 1, most) if most else (1, 31_999, 32_000):
        if losses < 1:
            continue
        await store.execute(
            "UPDATE {s}.jobs SET state = 'queued', finished_at = NULL, run_after = now(), losses = $1", losses - 1
        )
        await lose(store, job, way)
        row = await store.row(job)
        assert (row["state"], row["losses"]) == ("failed" if losses == most else "queued", losses)
    error = json.loads(row["errors"])
    if most:
        why = {"stalled": "no progress for 1 s", "unblock": "it blocked the event loop"}.get(way, "its worker was lost")
        assert (error["reason"], error["losses"]) == ("quarantined", most)
        assert error["message"] == f"{why}; that was loss {most} of {most} that it may have"
    else:
        assert error["reason"] != "quarantined"


async def lose(store: Store, job: int, way: str) -> None:
    """Claim the job and lose it in one of the ways there are."""
    worker = await store.worker()
    (claim,) = await store.claim(worker, job)
    values = {"max_losses": 3, "channel": store.database.channel}
    match way:
        case "rescue":
            await store.silence(worker)
            assert await store.rescue() == [job]
        case "rescue_dead":
            assert await store.fetch("rescue_dead", workers=[worker], **values)
        case "stalled":
            await store.execute("UPDATE {s}.lanes SET stall_after = '1 s'")
            await store.execute("UPDATE {s}.jobs SET claimed_at = now() - interval '2 hours'")
            assert await store.fetch("stalled", watched=timedelta(days=1), **values)
        case "orphans":
            await store.execute("DELETE FROM {s}.workers")
            assert await store.fetch("orphans", **values)
        case _:
            claims = {"ids": [claim.job_id], "fences": [claim.fence], "place": "spin (jobs.py:3)"}
            assert (await store.one("unblock", worker=worker, **claims, **values))["ids"] == [job]


async def test_the_number_of_runs_only_grows(desk: Desk) -> None:
    store = desk.store
    await store.kind("k", "retry", isolates=True)
    job = await store.enqueue()

    async def shown() -> int:
        (row,) = await store.fetch("jobs_by_id", ids=[job], sees_all=True, tenant=None, subject=None, granted=None)
        return job_of(row).runs

    ways = ("rescue", "stalled", "snoozed", "interrupted", "unreadable", "failed", "ended and retried", "rescue")
    for runs, way in enumerate(ways, start=1):
        await store.execute("UPDATE {s}.jobs SET run_after = now() WHERE state = 'queued'")
        if way in ("rescue", "stalled"):
            await lose(store, job, way)
        else:
            worker = await store.worker()
            (claim,) = await store.claim(worker, job)
            assert await shown() == runs
            if way == "ended and retried":
                assert await store.complete(claim, state="failed", worker=worker)
                assert await store.retry(job)
            else:
                assert await store.give_back(claim, outcome=way, refund=int(way != "failed"), worker=worker)
        assert await shown() == runs, way


async def test_each_loss_puts_the_job_further_back(desk: Desk) -> None:
    """The delay is random below 2 ** losses seconds, at most five minutes."""
    for losses, most in ((0, 1), (4, 16), (20, 300)):
        await desk.store.execute("TRUNCATE {s}.jobs")
        await lost(desk.store, 40)
        await desk.store.execute("UPDATE {s}.jobs SET losses = $1, max_attempts = 100", losses)
        assert len(await desk.store.rescue(max_losses=100)) == 40
        delays = "SELECT max(extract(epoch FROM run_after - clock_timestamp())) FROM {s}.jobs"
        assert most / 4 - 1 < float(await desk.store.value(delays)) <= most


async def test_silence_is_measured_by_the_lane_the_job_runs_in(desk: Desk) -> None:
    await desk.store.lane("patient", stale="1 hour")
    worker = await desk.store.worker()
    quick, slow = await desk.store.enqueue(), await desk.store.enqueue()
    await desk.store.claim(worker, quick)
    await desk.store.claim(worker, slow, lane="patient")
    await desk.store.silence(worker, 60)
    assert await desk.store.rescue() == [quick]
    await desk.store.silence(worker, 3601)
    assert await desk.store.rescue() == [slow]


async def test_nobody_is_judged_before_this_process_has_watched_for_the_heartbeat_timeout(desk: Desk) -> None:
    await lost(desk.store)
    assert await desk.run("rescue", watched=timedelta(seconds=0.9)) == 0
    assert await desk.run("rescue", watched=timedelta(seconds=1.1)) == 1


async def test_nobody_is_judged_right_after_a_server_restart(desk: Desk) -> None:
    await lost(desk.store)
    await desk.store.execute("UPDATE {s}.lanes SET stale_after = interval '10 days'")
    await desk.store.execute("UPDATE {s}.workers SET seen_at = now() - interval '11 days'")
    assert await desk.run("rescue") == 0


async def test_a_worker_that_beats_keeps_its_jobs_however_old(desk: Desk) -> None:
    (claim,) = await desk.store.claim(await desk.store.worker(), await desk.store.enqueue())
    await desk.store.execute("UPDATE {s}.jobs SET claimed_at = now() - interval '1 day'")
    await desk.store.execute("UPDATE {s}.workers SET seen_at = clock_timestamp()")
    assert await desk.run("rescue") == 0
    assert await desk.store.states(claim.job_id) == ["running"]


async def test_two_thousand_lost_jobs_are_rescued_in_one_round_of_batches(desk: Desk) -> None:
    worker = await desk.store.worker()
    await desk.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' FROM generate_series(1, 2000)")
    while await desk.store.claim_some(worker, 500):
        pass
    await desk.store.silence(worker)
    assert await desk.run("rescue") == 2000
    assert await desk.store.value("SELECT count(*) FROM {s}.jobs WHERE state = 'queued'") == 2000
    assert await desk.store.value("SELECT count(*) FROM {s}.job_attempts") == 2000


async def test_the_record_about_a_rescue_names_the_job(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    (job,) = await lost(desk.store)
    assert await desk.run("rescue") == 1
    (record,) = [each for each in caplog.records if "rescued" in each.getMessage()]
    about = record.__dict__
    assert (about["job_id"], about["job_number"]) == (ids.encode(job.job_id), job.job_id)
    assert (about["kind"], about["state"], about["fence"]) == ("k", "queued", job.fence)


async def test_a_rescued_holder_hands_its_place_on_and_hungry_workers_are_told(desk: Desk) -> None:
    await desk.store.gate("g", 1)
    await lost(desk.store, gate_key="g")
    parked = await desk.store.enqueue(gate_key="g")
    assert await desk.store.claim(await desk.store.worker(), parked) == []
    heard: list[str] = []
    await desk.store.connection.add_listener(desk.store.database.channel, lambda *message: heard.append(message[3]))
    assert await desk.run("rescue") == 1
    assert await desk.store.states(parked) == ["queued"]

    async def told() -> bool:
        await desk.store.value("SELECT 1")
        return '{"wake":[]}' in heard

    await eventually(told)


async def test_jobs_of_a_deleted_worker_are_orphans(desk: Desk) -> None:
    worker = await desk.store.worker()
    await desk.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' FROM generate_series(1, 600)")
    while await desk.store.claim_some(worker, 500):
        pass
    await desk.store.execute("DELETE FROM {s}.workers")
    assert await desk.run("rescue") == 0
    assert await desk.run("orphans") == 600
    assert await desk.store.value("SELECT array_agg(DISTINCT state) FROM {s}.jobs") == ["queued"]


async def test_waiting_jobs_expire_and_running_ones_do_not(desk: Desk) -> None:
    store = desk.store
    await store.gate("shut", 0)
    queued, pending = await store.enqueue(), await store.enqueue(approval=True)
    blocked, running, fresh = await store.enqueue(gate_key="shut"), await store.enqueue(), await store.enqueue()
    await store.claim(await store.worker(), blocked, running)
    await store.execute("UPDATE {s}.jobs SET expires_at = now() - interval '1 s' WHERE id <> $1", fresh)
    assert await desk.run("expire") == 3
    assert await store.states(queued, pending, blocked, running, fresh) == [*["expired"] * 3, "running", "queued"]


async def test_a_job_past_its_max_age_fails_even_while_it_runs(desk: Desk) -> None:
    worker = await desk.store.worker()
    waiting, running = [await desk.store.enqueue(max_age=timedelta(days=1)) for _ in range(2)]
    (claim,) = await desk.store.claim(worker, running)
    assert await desk.run("expire") == 0
    await desk.store.execute("UPDATE {s}.jobs SET too_old_at = now() - interval '1 s'")
    assert await desk.run("expire") == 2
    assert await desk.store.states(waiting, running) == ["failed", "failed"]
    assert "too old" in (await desk.store.row(running))["errors"]
    assert await desk.store.complete(claim) == []


async def test_the_beat_calls_for_duties_only_when_there_is_something_to_do(desk: Desk) -> None:
    worker = await desk.store.worker()
    mine = beating(worker)
    assert (await desk.store.one("beat", **mine))["due"] == ["orphans"]
    await lost(desk.store)
    await desk.store.execute("INSERT INTO {s}.jobs (kind, expires_at) VALUES ('k', now() - interval '1 s')")
    await desk.store.execute("INSERT INTO {s}.jobs (kind, state, claimed_by) VALUES ('k', 'running', 0)")
    dear = {"rescue", "expire", "sweep", "orphans"}
    assert dear <= set((await desk.store.one("beat", **mine))["due"])
    assert not dear & set((await desk.store.one("beat", **mine | {"look": False}))["due"])
    await desk.store.execute("UPDATE {s}.jobs SET state = 'cancelled', finished_at = now()")
    await desk.store.execute("DELETE FROM {s}.workers WHERE name = 'dead'")
    await desk.store.execute("UPDATE {s}.duties SET last_run_at = clock_timestamp() WHERE name = 'orphans'")
    assert (await desk.store.one("beat", **mine))["due"] == ["counts"]
    await desk.store.one("fold_counts", only=None, batch=100, series=100)
    assert (await desk.store.one("beat", **mine))["due"] == []
    await desk.store.execute("INSERT INTO {s}.pairs (kind, priority, low_water) VALUES ('k', 0, now())")
    assert (await desk.store.one("beat", **mine))["due"] == ["sweep"]
    await desk.store.execute("UPDATE {s}.duties SET last_run_at = clock_timestamp()")
    assert (await desk.store.one("beat", **mine))["due"] == []


async def test_a_slow_duty_is_run_more_rarely(desk: Desk) -> None:
    await desk.store.fetch("duty_took", name="sweep", ms=3000)
    await desk.store.execute("UPDATE {s}.duties SET last_run_at = clock_timestamp() - interval '30 s'")
    assert await desk.store.fetch("elect", name="sweep") == []
    await desk.store.execute("UPDATE {s}.duties SET last_run_at = clock_timestamp() - interval '61 s'")
    assert len(await desk.store.fetch("elect", name="sweep")) == 1


async def test_the_sweep_finds_clears_and_forgets_pairs(desk: Desk) -> None:
    store = desk.store
    jobs = [await store.enqueue(kind, priority=priority) for kind in ("a", "b") for priority in (5, 0, -5)]
    await desk.run("sweep")
    rows = await store.fetch("pairs", kinds=["a", "b"])
    assert {(row["kind"], row["priority"]) for row in rows} == {(kind, p) for kind in "ab" for p in (5, 0, -5)}
    assert {row["low_water"] for row in rows} == {(await store.row(job))["run_after"] for job in jobs}
    await store.cancel_waiting(*jobs[1:])
    await desk.run("sweep")
    rows = await store.fetch("pairs", kinds=["a", "b"])
    assert [(row["kind"], row["priority"]) for row in rows if row["low_water"]] == [("a", 5)]
    await store.execute("UPDATE {s}.pairs SET last_seen = now() - interval '2 days'")
    await desk.run("sweep")
    assert [(row["kind"], row["priority"]) for row in await store.fetch("pairs", kinds=["a", "b"])] == [("a", 5)]


async def test_the_sweeps_epoch_moves_with_what_it_publishes(desk: Desk) -> None:
    await desk.store.enqueue()
    epoch = "SELECT epoch FROM {s}.duties WHERE name = 'sweep'"
    async with opened(desk.store.database) as sweeper:
        before = await desk.store.value(epoch)
        async with sweeper.connection.transaction():
            await sweeper.fetch("sweep")
            assert await desk.store.value(epoch) == before
        assert await desk.store.value(epoch) == before + 1
        assert len(await desk.store.fetch("pairs", kinds=["k"])) == 1


async def test_the_gates_duty_caps_a_lane_whose_cap_was_never_written(desk: Desk) -> None:
    await desk.store.execute("INSERT INTO {s}.lanes (name, max_total) VALUES ('by hand', 2)")
    await desk.store.claim(await desk.store.worker(), await desk.store.enqueue(), lane="by hand")
    await desk.run("gates")
    granted = await desk.store.one("cap_enter", lanes=["by hand"], free=[10])
    assert granted["free"] == 1
    await desk.store.execute("UPDATE {s}.lanes SET max_total = 5 WHERE name = 'by hand'")
    await desk.run("gates")
    assert (await desk.store.one("cap_enter", lanes=["by hand"], free=[10]))["free"] == 4


async def test_silent_workers_are_shown_as_gone_and_removed_after_a_day(desk: Desk) -> None:
    store = desk.store
    alive, silent, old, holding = [await store.worker(name) for name in ("alive", "silent", "old", "holding")]
    await store.claim(holding, await store.enqueue())
    await store.silence(silent, 120)
    for worker in (old, holding):
        await store.silence(worker, 2 * 86400)
    await desk.run("registry")
    rows = await store.connection.fetch("SELECT id, state FROM rowlock.workers ORDER BY id")
    assert [tuple(row) for row in rows] == [(alive, "up"), (silent, "gone"), (holding, "up")]


async def test_waiters_nobody_waits_with_are_forgotten(desk: Desk) -> None:
    await desk.store.execute("INSERT INTO {s}.job_waiters VALUES (1, gen_random_uuid(), now() - interval '1 s')")
    await desk.store.execute("INSERT INTO {s}.job_waiters VALUES (1, gen_random_uuid(), now() + interval '1 h')")
    await desk.run("registry")
    assert await desk.store.value("SELECT count(*) FROM {s}.job_waiters") == 1


async def test_a_sweep_of_an_empty_queue_sends_nobody_to_look(desk: Desk) -> None:
    epoch = "SELECT epoch FROM {s}.duties WHERE name = 'sweep'"
    job = await desk.store.enqueue()
    for expected in (1, 2):  # something is queued: a head that was passed over is found again
        await desk.run("sweep")
        assert await desk.store.value(epoch) == expected
    await desk.store.stop(job)
    for expected in (3, 3):  # cleared; then nothing has changed
        await desk.run("sweep")
        assert await desk.store.value(epoch) == expected


async def test_two_duty_runners_share_the_duties(desk: Desk, database_url: str) -> None:
    async with duty_runner(database_url) as other:
        claims = await lost(desk.store, 20)
        news = await desk.news(due=tuple(DUTIES))
        await asyncio.gather(*(care.runner(news) for care in (desk, other) for _ in range(3)))
        epochs = await desk.store.connection.fetch("SELECT name, epoch FROM rowlock.duties")
        # The sweep's own moves with what it publishes, and it may have come before anything was queued.
        assert {row["epoch"] for row in epochs if row["name"] in DUTIES and row["name"] != "sweep"} == {1}
        rows = [await desk.store.row(claim.job_id) for claim in claims]
        assert {(row["state"], row["fence"], row["losses"]) for row in rows} == {("queued", 2, 1)}


async def test_two_rescues_at_once_move_each_job_once(desk: Desk) -> None:
    claims = await lost(desk.store, 50)
    async with opened(desk.store.database) as other:
        moved = await asyncio.gather(desk.store.rescue(), other.rescue())
    assert sorted(moved[0] + moved[1]) == [claim.job_id for claim in claims]
    assert await desk.store.value("SELECT array_agg(DISTINCT fence) FROM {s}.jobs") == [2]


async def test_duties_go_on_at_once_after_the_servers_clock_was_set_back(desk: Desk) -> None:
    """What ran last ran in the future then; whoever waited for that moment would do nothing for hours."""
    worker = await desk.store.worker("w")
    await lost(desk.store)

    async def due(last_run: str) -> set[str]:
        await desk.store.execute(f"UPDATE {{s}}.duties SET last_run_at = {last_run}, last_ms = 0")
        return set((await desk.store.one("beat", **beating(worker)))["due"])

    assert "rescue" in await due("clock_timestamp() + interval '1 hour'")
    assert await due("clock_timestamp() + interval '1 hour'") == await due("'-infinity'")
    await desk.store.execute("UPDATE {s}.duties SET last_run_at = clock_timestamp() + interval '1 hour'")
    assert await desk.store.fetch("elect", name="sweep")
    # Once: the next one finds a last run that has been.
    assert not await desk.store.fetch("elect", name="sweep")
