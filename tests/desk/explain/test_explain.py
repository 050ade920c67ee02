"""Why is it not running? One test per reason, and the order among them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually

from rowlock import Context, JobNotFound, Partial, Retry, Rowlock, Snooze
from rowlock.model.count import Count
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from tests.desk.conftest import Desk


BROKER: dict[str, dict[str, str | None]] = {"kinds": {}, "lanes": {"*": "broker"}}


async def send_to_carrier(desk: Desk, number: int, *, again: timedelta = timedelta(hours=1)) -> None:
    """A carrier was sent a message about the job."""
    (row,) = await desk.store.fetch("reserve_ids", ids=[number], carriers=["broker"], unsent=timedelta(seconds=10))
    sent = {"ids": [number], "fences": [row["fence"]], "backend_job_ids": ["m7"], "again": again}
    await desk.store.fetch("delivered", **sent)


# --- the empty database ----------------------------------------------------------------------------------------------


async def test_a_job_on_an_empty_database_has_no_lane_yet(desk: Desk) -> None:
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes == ["kind_unserved"]
    assert "There is no lane yet" in explained.verdict
    assert "rowlock worker" in str(explained)


async def test_a_job_that_is_not_there(app: Rowlock) -> None:
    with pytest.raises(JobNotFound, match="no job 77"):
        await app.jobs.explain(77)


# --- final -----------------------------------------------------------------------------------------------------------


async def test_a_completed_job_says_when(desk: Desk) -> None:
    number, worker = await desk.store.enqueue(), await desk.store.worker()
    await desk.store.complete(*await desk.store.claim(worker, number))
    explained = await desk.app.jobs.explain(number)
    (reason,) = explained.reasons
    assert reason.code == "ended"
    assert reason.text.startswith("It completed 20")
    assert reason.details["state"] == "completed"
    assert "retry" not in reason.text


async def test_a_failed_job_says_why_and_how_to_run_it_again(app: Rowlock) -> None:
    @app.job(retry=Retry(attempts=1))
    async def boom() -> None:
        raise ValueError("the oven is cold")

    async with app.worker():
        job = await boom.enqueue()
        await app.jobs.wait(job.id, timeout=20)
    explained = await app.jobs.explain(job.public_id)
    assert "It failed at attempt 1 of 1" in explained.verdict
    assert "ValueError: the oven is cold" in explained.verdict
    assert f"rowlock jobs retry {job.public_id}" in explained.verdict
    assert explained.codes == ["ended"]


async def test_a_job_completed_with_errors_says_so(app: Rowlock) -> None:
    @app.job
    async def half() -> Partial:
        return Partial(1, ["one"])

    async with app.worker():
        job = await half.enqueue()
        await app.jobs.wait(job.id, timeout=20)
    assert "It completed with errors" in (await app.jobs.explain(job.id)).verdict


async def test_a_cancelled_job_says_by_whom(desk: Desk) -> None:
    number = await desk.store.enqueue()
    await desk.app.jobs.cancel(number, by="ada", note="not needed")
    (reason,) = (await desk.app.jobs.explain(number)).reasons
    assert reason.text.startswith("It was cancelled")
    assert "ordered by ada" in reason.text
    assert reason.details["by"] == "ada"


async def test_an_expired_job_says_so(desk: Desk) -> None:
    number = await desk.store.enqueue(expires_in=timedelta(0))
    assert await desk.store.expire() == [number]
    assert "It expired before anything started it" in (await desk.app.jobs.explain(number)).verdict


# --- running ---------------------------------------------------------------------------------------------------------


async def test_a_running_job_says_where_since_when_and_its_progress(app: Rowlock) -> None:
    release = asyncio.Event()

    @app.job
    async def build(ctx: Context) -> None:
        async with ctx.phase("bricks", total=4) as phase:
            await phase.advance()
            await release.wait()

    async with app.worker(name="mason"):
        job = await build.enqueue()

        async def reported() -> bool:
            return "bricks" in (await app.jobs.explain(job.id)).verdict

        await eventually(reported)
        explained = await app.jobs.explain(job.id)
        assert explained.codes == ["running"]
        assert "It runs in lane 'default' on worker mason since" in explained.verdict
        assert "attempt 1 of" in explained.verdict
        assert explained.reasons[0].details["phase"] == "bricks"
        release.set()


async def test_a_cancel_request_comes_before_the_rest(desk: Desk) -> None:
    number, worker = await desk.store.enqueue(), await desk.worker()
    await desk.store.claim(worker, number)
    await desk.app.jobs.cancel(number, by="ada")
    explained = await desk.app.jobs.explain(number)
    assert explained.codes == ["cancel_requested", "running"]
    assert "requested by ada" in explained.verdict
    assert "rowlock jobs stop" in explained.verdict


async def test_a_silent_worker_says_when_its_job_is_rescued(desk: Desk) -> None:
    await desk.lane(stale="5 min")
    number, worker = await desk.store.enqueue(), await desk.worker("gone-quiet")
    await desk.store.claim(worker, number)
    await desk.store.silence(worker, 100)
    alone = await desk.app.jobs.explain(number)
    assert alone.codes == ["worker_silent", "running"]
    assert "no live worker is there to take the job back" in alone.verdict
    await desk.worker("other")
    explained = await desk.app.jobs.explain(number)
    reason = explained.reasons[0]
    assert "gone-quiet has been silent since" in reason.text
    assert "takes the job back at about" in reason.text
    seen, rescue = reason.details["seen_at"], reason.details["rescue_at"]
    assert rescue - seen == timedelta(minutes=5)  # type: ignore[operator]  # instants


async def test_a_deleted_worker_row_counts_as_silence(desk: Desk) -> None:
    number, worker = await desk.store.enqueue(), await desk.worker()
    await desk.store.claim(worker, number)
    await desk.store.execute("DELETE FROM {s}.workers")
    explained = await desk.app.jobs.explain(number)
    assert explained.codes == ["worker_silent", "running"]
    assert "The row of its worker is gone" in explained.verdict


# --- waiting: the row itself -----------------------------------------------------------------------------------------


async def test_a_pending_job_awaits_approval(desk: Desk) -> None:
    number = await desk.store.enqueue(approval=True)
    await desk.lane()
    await desk.worker()
    explained = await desk.app.jobs.explain(number)
    assert explained.codes == ["approval"]
    assert f"rowlock jobs approve {explained.job.public_id}" in explained.verdict
    assert explained.reasons[0].details["since"] == explained.job.created_at


async def test_a_held_job_says_that_its_worker_died(desk: Desk) -> None:
    await desk.store.execute("INSERT INTO {s}.kinds (name, on_worker_lost) VALUES ('k', 'hold')")
    number, worker = await desk.store.enqueue(), await desk.worker()
    await desk.store.claim(worker, number)
    await desk.store.silence(worker)
    assert await desk.store.rescue() == [number]
    explained = await desk.app.jobs.explain(number)
    assert explained.codes[0] == "held"
    assert "hold such jobs for a person" in explained.verdict


async def test_a_scheduled_job_says_until_when(desk: Desk) -> None:
    number = await desk.store.enqueue(run_in=timedelta(hours=2))
    await desk.lane()
    await desk.worker()
    explained = await desk.app.jobs.explain(number)
    assert explained.codes == ["scheduled"]
    assert "It is scheduled for later: it is due in 2h, at " in explained.verdict
    assert explained.reasons[0].details["run_after"] == explained.job.run_after


async def test_a_retrying_job_names_the_error_and_a_snoozed_one_its_wish(app: Rowlock) -> None:
    @app.job(retry=Retry(attempts=4, minimum="1h"))
    async def boom() -> None:
        raise ValueError("the oven is cold")

    @app.job
    async def later() -> Snooze:
        return Snooze("30m")

    async with app.worker():
        first, second = await boom.enqueue(), await later.enqueue()

        async def both() -> bool:
            return all(job.fence == 2 for job in await app.jobs.many([first.id, second.id]))

        await eventually(both)
        explained = await app.jobs.explain(first.id)
        assert explained.codes == ["retrying"]
        assert "Attempt 1 of 4 failed (ValueError: the oven is cold): it is due in " in explained.verdict
        explained = await app.jobs.explain(second.id)
        assert explained.codes == ["snoozed"]
        assert "Its handler asked to be run later" in explained.verdict


async def test_a_lost_job_waits_before_it_runs_again(desk: Desk) -> None:
    await desk.lane()
    number, worker = await desk.store.enqueue(), await desk.worker()
    await desk.store.claim(worker, number)
    await desk.store.silence(worker)
    await desk.store.rescue()
    await desk.store.execute("UPDATE {s}.jobs SET run_after = clock_timestamp() + interval '1 min'")
    explained = await desk.app.jobs.explain(number)
    assert explained.codes[0] == "retrying"
    assert "Its worker died or fell silent while it ran (1 time so far)" in explained.verdict


@pytest.mark.parametrize("policy", ["retry", "hold"])
async def test_the_worker_of_a_stalled_job_is_not_called_dead(desk: Desk, policy: str) -> None:
    await desk.lane()
    await desk.store.kind("k", policy)
    await desk.store.execute("UPDATE {s}.lanes SET stall_after = '1 s'")
    number, worker = await desk.store.enqueue(), await desk.worker()
    await desk.store.claim(worker, number)
    await desk.store.execute("UPDATE {s}.jobs SET claimed_at = claimed_at - interval '1 hour'")
    values = {"watched": timedelta(hours=1), "max_losses": 3, "channel": desk.store.database.channel}
    assert await desk.store.fetch("stalled", **values)
    await desk.store.execute("UPDATE {s}.jobs SET run_after = clock_timestamp() + interval '1 min'")
    explained = await desk.app.jobs.explain(number)
    assert "It made no progress for 1 s and its lane took it from its worker" in explained.verdict


@pytest.mark.parametrize(
    ("seconds", "code"), [(1800, "expires_soon"), (-5, "expired"), (86400, None)], ids=["soon", "past", "far off"]
)
async def test_expiry_is_told_when_it_is_near(desk: Desk, seconds: int, code: str | None) -> None:
    number = await desk.store.enqueue(approval=True)
    await desk.store.execute(
        "UPDATE {s}.jobs SET expires_at = clock_timestamp() + make_interval(secs => $1)", float(seconds)
    )
    codes = await desk.codes(number)
    assert codes == ["approval", "kind_unserved", *([code] if code else [])]


async def test_max_age_counts_as_well(desk: Desk) -> None:
    number = await desk.store.enqueue(max_age=timedelta(minutes=10))
    explained = await desk.app.jobs.explain(number)
    assert explained.codes[-1] == "expires_soon"
    assert "fails as too old in 10m" in str(explained)


# --- waiting: the gate -----------------------------------------------------------------------------------------------


async def test_a_parked_job_names_who_holds_its_gate(desk: Desk) -> None:
    await desk.lane()
    worker = await desk.worker()
    await desk.store.gate("printer", 1)
    first, second, third = [await desk.store.enqueue(gate_key="printer") for _ in range(3)]
    await desk.store.claim(worker, first)
    await desk.store.claim(worker, second, third)
    assert await desk.store.states(second, third) == ["blocked", "blocked"]
    holder = await desk.app.jobs.get(first)
    explained = await desk.app.jobs.explain(third)
    reason = explained.reasons[0]
    assert reason.code == "parked"
    assert f"gate 'printer', 1 of 1 place taken by {holder.public_id} (k, running since" in reason.text
    assert "; 1 parked before it" in reason.text
    assert dict(reason.details) == {
        "key": "printer",
        "limit": 1,
        "held": 1,
        "holders": [holder.public_id],
        "parked_ahead": Count(1),
    }


async def test_a_queued_job_before_a_full_gate_is_warned(desk: Desk) -> None:
    await desk.lane()
    worker = await desk.worker()
    await desk.store.gate("printer", 1)
    first = await desk.store.enqueue(gate_key="printer")
    await desk.store.claim(worker, first)
    waiting = await desk.store.enqueue(gate_key="printer")
    explained = await desk.app.jobs.explain(waiting)
    assert explained.codes == ["gate_full"]
    assert "It would have to wait at gate 'printer'" in explained.verdict


async def test_a_promoted_job_holds_its_place_and_is_ready(desk: Desk) -> None:
    await desk.lane()
    worker = await desk.worker()
    await desk.store.gate("printer", 1)
    first, second = [await desk.store.enqueue(gate_key="printer") for _ in range(2)]
    claims = await desk.store.claim(worker, first)
    await desk.store.claim(worker, second)
    await desk.store.complete(*claims)
    assert await desk.codes(second) == ["ready"]


# --- waiting: lanes and workers --------------------------------------------------------------------------------------


async def test_no_lane_serves_the_kind(desk: Desk) -> None:
    await desk.lane("reports", kinds=("report",))
    await desk.worker()
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes == ["kind_unserved"]
    assert "No lane serves the kind 'k'; there are reports" in explained.verdict


async def test_a_drained_lane_says_how_to_resume_it(desk: Desk) -> None:
    await desk.lane()
    await desk.worker()
    await desk.app.lanes.drain("default")
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes == ["lane_drained"]
    assert "rowlock lanes resume default" in explained.verdict


async def test_no_worker_at_all(desk: Desk) -> None:
    await desk.lane()
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes == ["no_worker"]
    assert "rowlock worker" in explained.verdict


async def test_workers_of_other_lanes_only(desk: Desk) -> None:
    await desk.lane("reports", kinds=("k",))
    await desk.lane()
    await desk.worker("mailer", lanes=["default"])
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes == ["lane_unserved"]
    assert "No worker serves lane 'reports' (mailer: default)" in explained.verdict
    assert "rowlock worker --lanes reports" in explained.verdict


async def test_one_that_runs_single_jobs_is_no_worker_of_the_lane(desk: Desk) -> None:
    await desk.lane()
    runner = desk.app.make_worker(claims=False)
    await runner.start()
    try:
        assert await desk.codes(await desk.store.enqueue()) == ["no_worker"]
    finally:
        await runner.stop()


async def test_silent_and_draining_workers(desk: Desk) -> None:
    await desk.lane()
    number = await desk.store.enqueue()
    quiet, leaving = await desk.worker("quiet"), await desk.worker("leaving")
    await desk.store.silence(quiet, 40)
    assert await desk.codes(number) == ["ready"]
    await desk.store.execute("UPDATE {s}.workers SET state = 'draining' WHERE id = $1", leaving)
    explained = await desk.app.jobs.explain(number)
    assert explained.codes == ["workers_silent", "workers_draining"]
    assert "worker quiet has been silent for 40s" in explained.verdict
    assert "claim no more: leaving" in str(explained)


async def test_live_workers_that_do_not_know_the_kind(desk: Desk) -> None:
    await desk.lane()
    await desk.worker(kinds=("send_mail", "report"))
    explained = await desk.app.jobs.explain(await desk.store.enqueue("send_mial"))
    assert explained.codes == ["kind_unknown"]
    assert "they know report, send_mail." in explained.verdict
    assert "Did you mean 'send_mail'?" in explained.verdict
    unlike = await desk.app.jobs.explain(await desk.store.enqueue("zzz"))
    assert "Is the worker's code older" in unlike.verdict


async def test_a_full_lane_names_the_jobs_in_its_slots(app: Rowlock) -> None:
    app.lanes.define("narrow", kinds=["hold"], slots=1)
    release, begun = asyncio.Event(), asyncio.Event()

    @app.job
    async def hold() -> None:
        begun.set()
        await release.wait()

    async with app.worker(name="clerk"):
        first = await hold.enqueue()
        await begun.wait()
        second, third = await hold.enqueue(), await hold.enqueue()
        explained = await app.jobs.explain(second.id)
        assert explained.codes == ["lane_full"]
        assert "Lane 'narrow' is full: 1 of 1 slot on 1 worker taken by" in explained.verdict
        assert f"{first.public_id} (hold) for " in explained.verdict
        assert "on clerk" in explained.verdict
        assert explained.reasons[0].details["workers"] == {"clerk": {"used": 1, "slots": 1}}
        behind = await app.jobs.explain(third.id)
        assert behind.codes == ["lane_full", "behind_others"]
        assert "1 due job of its lane before it: 1 as high and older" in str(behind)
        release.set()


async def test_a_workers_own_slots_count_and_not_the_lanes(desk: Desk) -> None:
    await desk.lane(slots=10)
    worker = await desk.worker(lanes=["default"], slots={"default": 1})
    await desk.store.claim(worker, await desk.store.enqueue())
    number = await desk.store.enqueue()
    assert await desk.codes(number) == ["lane_full"]
    await desk.worker("second")
    assert await desk.codes(number) == ["ready"]


async def test_stuck_slots_count_as_taken(desk: Desk) -> None:
    await desk.lane(slots=1)
    worker = await desk.worker()
    await desk.store.execute("UPDATE {s}.workers SET stuck = 1 WHERE id = $1", worker)
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes == ["lane_full"]
    assert "1 slot held by handlers that were told to stop and have not" in explained.verdict


async def test_a_lane_without_slots(desk: Desk) -> None:
    await desk.lane(slots=0)
    await desk.worker()
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes == ["lane_full"]
    assert "rowlock lanes set default --slots" in explained.verdict


async def test_a_capped_lane(desk: Desk) -> None:
    await desk.lane(max_total=1)
    worker = await desk.worker()
    await desk.store.claim(worker, await desk.store.enqueue())
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes == ["lane_capped"]
    assert "runs 1 job at once at most over all workers" in explained.verdict


async def test_higher_priorities_and_older_jobs_are_counted(desk: Desk) -> None:
    await desk.lane()
    await desk.lane("other", kinds=("else",))
    await desk.worker(kinds=("k", "sibling", "else"))
    for kind, priority in [("k", 5), ("sibling", 5), ("else", 5), ("unknown", 5), ("sibling", 0), ("k", -5)]:
        await desk.store.enqueue(kind, priority=priority)
    await desk.store.enqueue("k", priority=5, run_in=timedelta(hours=1))
    number = await desk.store.enqueue()
    await desk.store.enqueue()
    await desk.store.fetch("sweep")
    (reason,) = (await desk.app.jobs.explain(number)).reasons
    assert reason.code == "behind_others"
    assert reason.details == {"higher": Count(2), "older": Count(1)}
    assert "2 of higher priority and 1 as high and older" in reason.text


async def test_the_count_of_those_ahead_is_capped(desk: Desk) -> None:
    await desk.lane()
    await desk.worker()
    await desk.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' FROM generate_series(1, 1500)")
    number = await desk.store.enqueue()
    await desk.store.fetch("sweep")
    explained = await desk.app.jobs.explain(number)
    assert "1,000+ due jobs of its lane before it" in explained.verdict
    assert explained.reasons[0].details["older"] == Count(1000, exact=False)


async def test_nothing_in_the_way(desk: Desk) -> None:
    await desk.lane(poll="7 s")
    await desk.worker()
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes == ["ready"]
    assert "It should start at once" in explained.verdict
    assert "every 7s" in explained.verdict


# --- all of them together --------------------------------------------------------------------------------------------


async def test_every_reason_that_holds_is_told_the_most_decisive_first(desk: Desk) -> None:
    await desk.lane()
    await desk.worker(kinds=("other",))
    await desk.app.lanes.drain("default")
    number = await desk.store.enqueue(approval=True, run_in=timedelta(minutes=5), expires_in=timedelta(minutes=5))
    explained = await desk.app.jobs.explain(number)
    assert explained.codes == ["approval", "scheduled", "lane_drained", "kind_unknown", "expires_soon"]
    lines = str(explained).splitlines()
    assert lines[0] == explained.verdict
    assert explained.verdict == f"Job {explained.job.public_id} (k) is pending. {explained.reasons[0].text}"
    assert [line.removeprefix("  Also: ") for line in lines[1:]] == [reason.text for reason in explained.reasons[1:]]


async def test_a_schema_that_is_behind_or_too_new(desk: Desk, database_url: str) -> None:
    await desk.lane()
    await desk.worker()
    number = await desk.store.enqueue()
    newest = migrate.newest()
    await desk.store.execute(
        "INSERT INTO {s}.schema_steps VALUES ($1, 'later'), ($2, 'much_later')", newest + 1, newest + 2
    )
    ahead = await desk.app.jobs.explain(number)
    assert ahead.codes == ["schema_ahead"]
    assert "Install a newer rowlock" in ahead.verdict
    await desk.store.execute("DELETE FROM {s}.schema_steps WHERE version > $1", newest)
    await migrate.downgrade(database_url, to=newest - 1)
    behind = await desk.app.jobs.explain(number)
    assert behind.codes == ["schema_behind"]
    assert "rowlock schema upgrade" in behind.verdict


async def test_a_worker_that_was_killed_has_no_free_slot_after_three_missed_beats(desk: Desk) -> None:
    await desk.lane()
    number, worker = await desk.store.enqueue(), await desk.worker("killed")
    assert (await desk.app.jobs.explain(number)).codes == ["ready"]
    await desk.store.silence(worker, 7)
    explained = await desk.app.jobs.explain(number)
    assert explained.codes == ["workers_silent"]
    assert "worker killed has been silent for 7s" in explained.verdict


# --- carriers --------------------------------------------------------------------------------------------------------


async def test_a_job_that_a_carrier_was_told_of_waits_for_the_process_behind_it(desk: Desk) -> None:
    number = await desk.store.enqueue()
    await send_to_carrier(desk, number)
    explained = await desk.app.jobs.explain(number)
    assert explained.codes == ["delivered"], "the process that gets the message makes the lanes"
    assert "broker was told of it" in explained.verdict
    assert "(m7)" in explained.verdict
    assert "another message follows in " in explained.verdict
    assert (explained.reasons[0].details["carrier"], explained.reasons[0].details["sent"]) == ("broker", 1)


async def test_a_message_about_an_earlier_stay_or_that_is_too_old_stands_for_nothing(desk: Desk) -> None:
    retried, late, old = [await desk.store.enqueue() for _ in range(3)]
    await desk.worker(lanes=[], carriers=BROKER)
    for number in (retried, late, old):
        await send_to_carrier(desk, number)
    await desk.store.execute("UPDATE {s}.jobs SET fence = fence + 2 WHERE id = $1", retried)
    await desk.store.execute("UPDATE {s}.jobs SET run_after = clock_timestamp() WHERE id = $1", late)
    await desk.store.execute("UPDATE {s}.job_deliveries SET again_at = clock_timestamp() WHERE job_id = $1", old)
    for number in (retried, late, old):
        explained = await desk.app.jobs.explain(number)
        assert explained.codes[0] == "undelivered"
        assert "rowlock worker --upkeep-only" in explained.verdict


async def test_a_job_that_no_carrier_was_told_of_yet_asks_for_no_worker(desk: Desk) -> None:
    await desk.app.lanes.create("default", kinds=["*"])
    await desk.worker("receiver", lanes=[], carriers=BROKER)
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes == ["undelivered"]
    assert "broker is to be told of it within seconds" in explained.verdict
    await desk.app.lanes.drain("default")
    assert (await desk.app.jobs.explain(explained.job.id)).codes[0] == "lane_drained"


async def test_a_lane_with_a_limit_says_how_many_of_its_jobs_a_carrier_has(desk: Desk) -> None:
    await desk.app.lanes.create("default", kinds=["*"], slots=2, order="strict")
    await desk.worker("receiver", lanes=[], carriers=BROKER)
    for _ in range(2):
        await send_to_carrier(desk, await desk.store.enqueue())
    explained = await desk.app.jobs.explain(await desk.store.enqueue())
    assert explained.codes[0] == "undelivered"
    assert "as soon as fewer than 2 jobs of lane 'default' run or are with it" in explained.verdict


async def test_kinds_come_before_lanes_and_hooks_go_with_their_kind(desk: Desk) -> None:
    await desk.app.lanes.create("default", kinds=["*"])
    carriers: dict[str, dict[str, str | None]] = {"kinds": {"plain": None, "k": "own"}, "lanes": {"*": "broker"}}
    await desk.worker(kinds=("plain", "k", "k/on_failure", "other"), carriers=carriers)
    for kind, code, carrier in (
        ("plain", "ready", None),
        ("k", "undelivered", "own"),
        ("k/on_failure", "undelivered", "own"),
        ("other", "undelivered", "broker"),
    ):
        explained = await desk.app.jobs.explain(await desk.store.enqueue(kind))
        assert explained.codes[0] == code, kind
        assert explained.reasons[0].details.get("carrier") == carrier


async def test_a_job_that_was_told_of_goes_by_its_lane_once_workers_claim_its_kind(desk: Desk) -> None:
    await desk.app.lanes.create("default", kinds=["*"], slots=0)
    number = await desk.store.enqueue()
    await send_to_carrier(desk, number)
    await desk.worker()
    assert (await desk.app.jobs.explain(number)).codes[0] == "lane_full"


async def test_a_running_job_that_reports_nothing_is_told_when_its_lane_gives_it_up(desk: Desk) -> None:
    await desk.app.lanes.create("default", kinds=["*"], progress_timeout="1h")
    (claim,) = await desk.store.claim(await desk.worker(), await desk.store.enqueue())
    assert "stalls" not in (await desk.app.jobs.explain(claim.job_id)).codes
    await desk.store.execute("UPDATE {s}.jobs SET claimed_at = now() - interval '31 min' WHERE id = $1", claim.job_id)
    (stalls,) = [each for each in (await desk.app.jobs.explain(claim.job_id)).reasons if each.code == "stalls"]
    assert "has reported nothing" in stalls.text
    assert "gives a job up after 1h without progress" in stalls.text
    assert stalls.details["progress_timeout"] == timedelta(hours=1)
