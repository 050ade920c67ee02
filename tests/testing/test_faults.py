from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually

from rowlock import DatabaseUnreachable

if TYPE_CHECKING:
    from tests.testing.shop import Shop

    from rowlock.testing import Kit


async def back_again(shop: Shop) -> None:
    """A broken connection is noticed when it is used, and replaced with the next use."""

    async def enqueued() -> bool:
        try:
            return bool(await shop.mail.enqueue("back"))
        except DatabaseUnreachable:
            return False

    await eventually(enqueued)


async def test_the_next_runs_fail(kit: Kit, shop: Shop) -> None:
    kit.fail_next(shop.report, OSError("printer on fire"), times=2)
    job = await shop.report.enqueue(org_id=1)
    assert (await kit.run_for("10m")).states == {"queued": 2, "completed": 1}
    told = [attempt.error["message"] for attempt in (await shop.app.jobs.history(job.id)).attempts if attempt.error]
    assert told == ["printer on fire"] * 2
    assert shop.said == ["report 1 3"]


def test_a_blocking_handler_fails_as_well(kit: Kit, shop: Shop) -> None:
    kit.fail_next("mail", ValueError)
    shop.mail.enqueue_sync("ada")
    with pytest.raises(ValueError):  # noqa: PT011 - a class without a message
        kit.drain_sync(raise_errors=True)
    assert shop.said == []


@pytest.mark.parametrize(("at", "said"), [("start", ["report 1 1"]), ("end", ["report 1 1", "report 1 1"])])
async def test_a_lost_worker_leaves_its_job_claimed_until_it_is_rescued(
    kit: Kit, shop: Shop, at: str, said: list[str]
) -> None:
    kit.lose_worker(shop.report, at=at)  # type: ignore[arg-type]  # one of the two
    job = await shop.report.enqueue(org_id=1)
    (run,) = (await kit.drain()).runs
    assert (run.state, run.worker) == ("running", f"lost-{job.id}")
    await kit.travel("50s")
    assert (await job.job()).state == "running"
    await kit.travel("2m")
    rescued = await job.job()
    assert (rescued.state, rescued.losses, rescued.attempt) == ("queued", 1, 0)
    assert (await kit.drain()).states == {"completed": 1}
    assert shop.said == said
    history = await shop.app.jobs.history(job.id)
    assert [(attempt.outcome, attempt.worker) for attempt in history.attempts] == [("lost", f"lost-{job.id}")]


async def test_the_kind_says_what_becomes_of_a_lost_job(kit: Kit, shop: Shop) -> None:
    @shop.app.job(on_worker_lost="fail")
    def once() -> None:
        shop.said.append("once")

    kit.lose_worker(once)
    job = await once.enqueue()
    await kit.run_for("5m")
    assert (await job.job()).state == "failed"
    assert shop.said == ["once"]


async def test_a_job_that_loses_three_workers_is_quarantined(kit: Kit, shop: Shop) -> None:
    kit.lose_worker(shop.report, times=3)
    job = await shop.report.enqueue(org_id=1)
    for _ in range(3):
        assert (await kit.drain()).states == {"running": 1}
        await kit.travel("5m")
    after = await job.job()
    assert after.state == "failed"
    assert after.errors is not None
    assert after.errors["reason"] == "quarantined"


async def test_a_worker_that_lives_is_not_given_up_on_a_journey(kit: Kit, shop: Shop) -> None:
    await shop.mail.enqueue("ada")
    await kit.drain()
    await kit.travel("30 days")
    assert [worker.name for worker in await shop.app.workers.list()] == ["test"]
    await shop.mail.enqueue("bob")
    assert (await kit.drain()).states == {"completed": 1}


async def test_a_late_commit_is_found(kit: Kit, shop: Shop) -> None:
    async with kit.worker():
        async with kit.delay_commit() as late:
            delayed = await shop.report.options(connection=late).enqueue(org_id=1)
            await (await shop.report.enqueue(org_id=2)).wait(timeout=20)
            assert [job.args["org_id"] for job in kit.enqueued(shop.report)] == [2]
        assert await delayed.wait(timeout=20) == "report of 1"
    first, second = kit.enqueued(shop.report)
    assert first.created_at < second.created_at
    assert shop.said == ["report 2 1", "report 1 1"]


async def test_a_delayed_commit_that_fails_leaves_nothing(kit: Kit, shop: Shop) -> None:
    async def fails() -> None:
        async with kit.delay_commit() as late:
            await shop.report.options(connection=late).enqueue(org_id=1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    kit.refute_enqueued(shop.report)


async def test_connections_that_break_come_back(kit: Kit, shop: Shop) -> None:
    await shop.mail.enqueue("ada")
    await kit.drain()
    assert kit.drop_connections() >= 2
    await back_again(shop)
    async with kit.worker():
        await (await shop.mail.enqueue("cy")).wait(timeout=20)


async def test_an_outage_ends(kit: Kit, shop: Shop) -> None:
    await shop.mail.enqueue("ada")
    with kit.outage(), pytest.raises(DatabaseUnreachable):
        await shop.mail.enqueue("bob")
    await shop.mail.enqueue("cy")
    assert [job.args["to"] for job in kit.enqueued(shop.mail)] == ["ada", "cy"]
    assert (await kit.drain()).states == {"completed": 2}


async def test_a_worker_outlives_an_outage(kit: Kit, shop: Shop) -> None:
    async with kit.worker():
        await (await shop.mail.enqueue("ada")).wait(timeout=20)
        with kit.outage():
            pass
        await back_again(shop)
        await (await shop.mail.enqueue("bob")).wait(timeout=30)
