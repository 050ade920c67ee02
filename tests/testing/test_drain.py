from __future__ import annotations

import asyncio
import threading
import traceback
from typing import TYPE_CHECKING

import pytest

from rowlock import EndlessDrain, Gate, JobFailed

if TYPE_CHECKING:
    from tests.testing.shop import Shop

    from rowlock.testing import Kit


async def test_everything_due_is_run_with_what_it_enqueues(kit: Kit, shop: Shop) -> None:
    await shop.ship.enqueue({"number": 3}, "00000000-0000-0000-0000-000000000007")  # type: ignore[arg-type]  # pydantic reads it
    await shop.report.options(run_in="1h").enqueue(org_id=1)
    drained = await kit.drain()
    assert shop.said == ["ship 3 00000000-0000-0000-0000-000000000007 4", "mail 3"]
    assert drained.states == {"completed": 2}
    assert drained.kinds == {"ship": 1, "mail": 1}
    assert len(drained) == 2
    kit.assert_enqueued(shop.report, options={"state": "queued"})
    assert not await kit.drain()


def test_a_blocking_test_drains_too(kit: Kit, shop: Shop) -> None:
    shop.report.enqueue_sync(org_id=1)
    shop.mail.enqueue_sync("ada")
    (mail, report) = kit.drain_sync().runs
    assert mail.kind == "mail"  # its priority is higher
    assert report.result == "report of 1"
    assert report.progress is not None
    assert report.progress.phase == "pages"


async def test_handlers_run_on_the_tests_own_loop(kit: Kit, shop: Shop) -> None:
    seen: list[object] = []

    @shop.app.job
    async def where() -> None:
        seen.append((asyncio.get_running_loop(), threading.current_thread()))

    await where.enqueue()
    await kit.drain()
    assert seen == [(asyncio.get_running_loop(), threading.current_thread())]


async def test_the_order_is_the_queues(kit: Kit, shop: Shop) -> None:
    for n, priority in enumerate((0, 9, -9, 9)):
        await shop.report.options(priority=priority).enqueue(org_id=n)
    assert [job.args["org_id"] for job in (await kit.drain()).runs] == [1, 3, 0, 2]


async def test_a_handler_that_enqueues_itself_is_named(kit: Kit, shop: Shop) -> None:
    await shop.mail.enqueue("ada")
    await shop.again.enqueue(n=1)
    with pytest.raises(EndlessDrain, match=r"ran 20 jobs and more are due \(most often: again 19, mail 1\)"):
        await kit.drain(limit=20)


async def test_a_failure_is_an_outcome_unless_asked_for(kit: Kit, shop: Shop) -> None:
    await shop.broken.enqueue(n=1)
    (job,) = (await kit.drain()).runs
    assert job.state == "failed"
    assert job.errors is not None
    assert job.errors["message"] == "no 1"


async def test_raise_errors_raises_the_handlers_own_exception(kit: Kit, shop: Shop) -> None:
    await shop.broken.enqueue(n=1)
    await shop.report.enqueue(org_id=1)
    with pytest.raises(LookupError, match="no 1") as caught:
        await kit.drain(raise_errors=True)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "broken"
    assert shop.said == []
    assert (await kit.drain(raise_errors=True)).kinds == {"report": 1}


def test_raise_errors_in_a_thread(kit: Kit, shop: Shop) -> None:
    @shop.app.job
    def blocking() -> None:
        message = "in a thread"
        raise OSError(message)

    blocking.enqueue_sync()
    with pytest.raises(OSError, match="in a thread"):
        kit.drain_sync(raise_errors=True)


async def test_raise_errors_also_tells_what_no_handler_raised(kit: Kit, shop: Shop) -> None:
    @shop.app.job(timeout="10ms")
    async def slow() -> None:
        await asyncio.Event().wait()

    await slow.enqueue()
    with pytest.raises((JobFailed, TimeoutError), match=r"longer than its timeout of 0\.01 s"):
        await kit.drain(raise_errors=True)


async def test_one_gate_place_is_handed_on_until_all_have_run(kit: Kit, shop: Shop) -> None:
    for n in range(3):
        await shop.report.options(gate=Gate("press", 1)).enqueue(org_id=n)
    assert (await kit.drain(at_once=3)).states == {"completed": 3}


async def test_jobs_that_wait_for_each_other_run_at_once(kit: Kit, shop: Shop) -> None:
    @shop.app.job
    async def outer() -> str:
        inner = await shop.report.enqueue(org_id=1)
        return await inner.wait(timeout=20)

    await outer.enqueue()
    drained = await kit.drain(at_once=2)
    # The one that waits may be noted first: it hears of the other's end as soon as that is stored.
    assert {(job.kind, job.result) for job in drained.runs} == {("report", "report of 1"), ("outer", "report of 1")}


async def test_a_drained_lane_keeps_its_jobs_and_gives_them_when_it_is_resumed(kit: Kit, shop: Shop) -> None:
    await shop.report.enqueue(org_id=1)
    await kit.drain()
    await shop.app.lanes.drain("reports")
    await shop.report.enqueue(org_id=2)
    await shop.mail.enqueue("ada")
    assert (await kit.drain()).kinds == {"mail": 1}
    await shop.app.lanes.resume("reports")
    assert (await kit.drain()).kinds == {"report": 1}


async def test_a_kind_declared_between_two_drains_is_run(kit: Kit, shop: Shop) -> None:
    await shop.mail.enqueue("ada")
    await kit.drain()

    @shop.app.job(lane="late")
    async def latecomer() -> int:
        return 1

    await latecomer.enqueue()
    assert (await kit.drain()).runs[0].result == 1


async def test_jobs_of_unknown_kinds_are_left(kit: Kit, shop: Shop) -> None:
    await shop.mail.enqueue("ada")
    del shop.app.handlers["mail"]
    assert not await kit.drain()
    assert [job.state for job in kit.enqueued()] == ["queued"]


async def test_a_worker_of_the_tests_own_claims_by_itself(kit: Kit, shop: Shop) -> None:
    async with kit.worker():
        assert await (await shop.report.enqueue(org_id=1)).wait(timeout=20) == "report of 1"
