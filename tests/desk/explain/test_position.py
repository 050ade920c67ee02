"""The position of a due job: those before it are the ones that its lane starts first."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rowlock.model.count import Count

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock.model.explanation import QueuePosition


async def position(desk: Desk, number: int) -> QueuePosition:
    """Explain and the short way say the same."""
    await desk.store.fetch("sweep")
    found = await desk.app.jobs.position(number)
    assert found is not None
    explained = (await desk.app.jobs.explain(number)).position
    assert explained is not None
    assert (explained.before, explained.start_in is None) == (found.before, found.start_in is None)
    return found


async def end_some(desk: Desk, worker: int, n: int, lane: str = "default") -> None:
    for _ in range(n):
        await desk.store.complete(*await desk.store.claim(worker, await desk.store.enqueue(), lane=lane))


async def test_jobs_are_claimed_in_the_order_of_their_positions(desk: Desk) -> None:
    """Across the kinds and priorities of a lane, whatever the order in which they came."""
    await desk.lane(kinds=("k", "other"))
    await desk.lane("elsewhere", kinds=("third",))
    worker = await desk.worker(kinds=("k", "other", "third"))
    wanted = [("k", 0), ("other", 0), ("k", 5), ("third", 9), ("other", 5), ("k", -1), ("other", 0)]
    numbers = [await desk.store.enqueue(kind, priority=priority) for kind, priority in wanted]
    mine = [number for number, (kind, _) in zip(numbers, wanted, strict=True) if kind != "third"]
    places = {number: (await position(desk, number)).before.value for number in mine}
    assert sorted(places.values()) == list(range(len(mine)))
    pairs = [("k", 5), ("other", 5), ("k", 0), ("other", 0), ("k", -1)]
    claimed = [(await desk.store.claim_some(worker, 1, pairs, take=1))[0]["id"] for _ in mine]
    assert claimed == sorted(mine, key=places.__getitem__)


async def test_a_long_queue_is_counted_to_a_thousand(desk: Desk) -> None:
    await desk.lane()
    worker = await desk.worker()
    await end_some(desk, worker, 10)
    await desk.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' FROM generate_series(1, 1500)")
    last = await position(desk, await desk.store.enqueue())
    assert (last.before, last.start_in) == (Count(1000, exact=False), None)
    assert str(last.before) == "1,000+"


async def test_the_start_is_foreseen_by_the_pace_of_the_lane_alone(desk: Desk) -> None:
    await desk.lane()
    await desk.lane("quiet", kinds=("slow",))
    worker = await desk.worker(kinds=("k", "slow"))
    await desk.store.enqueue("slow")
    slow = await desk.store.enqueue("slow")
    await end_some(desk, worker, 4)
    number = await desk.store.enqueue()
    assert (await position(desk, number)).start_in is None  # too few ends to say
    await end_some(desk, worker, 6)
    # As if the first of ten ends were a hundred seconds ago: one every ten seconds.
    await desk.store.execute("UPDATE {s}.count_increments SET at = at - interval '100 s'")
    await desk.store.enqueue(priority=1)
    await desk.store.fetch("sweep")
    soon = (await desk.app.jobs.position(number), await desk.app.jobs.position(slow))
    assert soon[0] is not None
    assert soon[0].start_in is not None
    assert timedelta(seconds=19) < soon[0].start_in < timedelta(minutes=5)
    assert soon[1] is not None
    assert (soon[1].before, soon[1].start_in) == (Count(1), None)  # nothing ended in its own lane
    explained = str(await desk.app.jobs.explain(number))
    assert "1 due job of its lane before it: 1 of higher priority. At the lane's pace" in explained


async def test_nothing_is_foreseen_where_nothing_moves(desk: Desk) -> None:
    await desk.lane()
    worker = await desk.worker()
    await end_some(desk, worker, 10)
    number = await desk.store.enqueue()
    assert (await position(desk, number)).start_in is not None
    await desk.app.lanes.drain("default")
    assert (await position(desk, number)).start_in is None
    await desk.app.lanes.resume("default")
    await desk.store.execute("UPDATE {s}.workers SET state = 'gone'")
    assert (await position(desk, number)).start_in is None


async def test_only_due_jobs_of_lanes_with_an_order_have_a_position(desk: Desk) -> None:
    await desk.lane()
    await desk.lane("fair", kinds=("fair",), ordering="fair")
    worker = await desk.worker(kinds=("k", "fair"))
    numbers = {
        "later": await desk.store.enqueue(run_in=timedelta(hours=1)),
        "pending": await desk.store.enqueue(approval=True),
        "fair": await desk.store.enqueue("fair"),
        "running": await desk.store.enqueue(),
    }
    await desk.store.claim(worker, numbers["running"])
    for number in numbers.values():
        assert await desk.app.jobs.position(number) is None
        assert (await desk.app.jobs.explain(number)).position is None
