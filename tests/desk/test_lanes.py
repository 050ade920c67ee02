from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from rowlock import ConfigurationError, InvalidOption, Lane, Rowlock, UnknownLane, WrongState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.desk.conftest import Desk


async def test_a_defined_lane_is_created_by_the_first_worker_and_then_left_alone(
    make_app: Callable[..., Rowlock],
) -> None:
    app = make_app()
    defined = app.lanes.define(
        "interactive", kinds=["ingest", "polarity"], slots=2, poll_interval="2s", heartbeat_timeout="30m", max_total=4
    )
    assert await app.lanes.list() == []
    async with app.worker():
        lane = await app.lanes.get("interactive")
        assert (lane.kinds, lane.slots, lane.max_total) == (("ingest", "polarity"), 2, 4)
        assert (lane.poll_interval, lane.heartbeat_timeout) == (timedelta(seconds=2), timedelta(minutes=30))
        assert [lane.name for lane in await app.lanes.list()] == ["default", "interactive"]
        await app.lanes.set("interactive", slots=9)
    async with app.worker():
        assert (await app.lanes.get("interactive")).slots == 9
    assert defined.slots == 2


async def test_jobs_of_a_defined_lane_run_in_it(app: Rowlock) -> None:
    app.lanes.define("interactive", kinds=["ingest"])

    @app.job
    async def ingest() -> None: ...

    async with app.worker():
        job = await ingest.enqueue()
        assert (await app.jobs.wait(job.id, timeout=20)).lane == "interactive"


async def test_the_environment_counts_before_the_code(make_app: Callable[..., Rowlock]) -> None:
    app = make_app(lanes=(Lane("interactive", kinds=("ingest",), slots=7),))
    app.lanes.define("interactive", kinds=["ingest"], slots=2)
    async with app.worker():
        assert (await app.lanes.get("interactive")).slots == 7


async def test_a_kind_stays_in_the_lane_that_has_it(desk: Desk) -> None:
    await desk.lane("zone", kinds=("ingest",))
    desk.app.lanes.define("interactive", kinds=["ingest", "polarity"])
    async with desk.app.worker():
        lanes = {lane.name: lane.kinds for lane in await desk.app.lanes.list()}
    assert lanes == {"default": ("*",), "interactive": ("polarity",), "zone": ("ingest",)}


def test_a_lane_is_defined_in_one_place(app: Rowlock) -> None:
    app.lanes.define("reports", slots=2)
    app.lanes.define("reports", slots=2)
    with pytest.raises(ConfigurationError, match="'reports' is defined twice"):
        app.lanes.define("reports", slots=3)
    assert [lane.slots for lane in app.lanes.defined] == [2]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kinds": "ingest"}, r"sequence of names; got the text 'ingest'"),
        ({"slots": -1}, "slots must be from 0"),
        ({"order": "random"}, "order must be"),
        ({"poll_interval": "1ms"}, "poll_interval must be 10ms or more"),
        ({"heartbeat_timeout": "0s"}, "heartbeat_timeout must be 1s or more"),
        ({"poll_interval": "soon"}, "poll_interval: 'soon' is not a duration"),
    ],
)
def test_impossible_lanes_are_refused_where_they_are_defined(app: Rowlock, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        app.lanes.define("reports", **given)
    with pytest.raises(InvalidOption, match="1 to 100 characters"):
        app.lanes.define("")


async def test_create_takes_a_name_and_takes_over_its_kinds(desk: Desk) -> None:
    await desk.lane("old", kinds=("a", "b"))
    made = await desk.app.lanes.create("new", kinds=["b"], slots=3, order="strict", max_total=5)
    assert (made.kinds, made.slots, made.order, made.max_total) == (("b",), 3, "strict", 5)
    assert (await desk.app.lanes.get("old")).kinds == ("a",)
    assert await desk.store.value("SELECT max_running FROM {s}.gates WHERE key = 'lane:new'") == 5
    again = await desk.app.lanes.create("new", slots=8)
    assert again.slots == 3


async def test_delete_removes_a_lane_and_its_cap(desk: Desk) -> None:
    await desk.lane(max_total=3)
    gone = await desk.app.lanes.delete("default")
    assert gone.max_total == 3
    assert await desk.app.lanes.list() == []
    assert await desk.store.value("SELECT count(*) FROM {s}.gates") == 0
    with pytest.raises(UnknownLane, match="There is no lane 'default'"):
        await desk.app.lanes.delete("default")


async def test_a_lane_in_which_jobs_run_is_not_deleted(desk: Desk) -> None:
    await desk.lane()
    await desk.store.claim(await desk.worker(), await desk.store.enqueue())
    with pytest.raises(WrongState, match="has running jobs"):
        await desk.app.lanes.delete("default")
    assert [lane.name for lane in await desk.app.lanes.list()] == ["default"]


async def test_a_running_worker_hears_of_a_deleted_lane(app: Rowlock) -> None:
    @app.job
    async def ingest() -> None: ...

    await app.lanes.create("default", kinds=["*"])
    await app.lanes.create("zone", kinds=["ingest"])
    await app.lanes.drain("zone")
    async with app.worker():
        job = await ingest.enqueue()
        await app.lanes.delete("zone")
        assert (await app.jobs.wait(job.id, timeout=20)).lane == "default"


async def test_old_keywords_and_attributes_still_work_and_warn(desk: Desk) -> None:
    lanes: Any = desk.app.lanes
    with pytest.warns(DeprecationWarning, match="poll= is now called poll_interval="):
        made = await lanes.create("front", poll="2s")
    with pytest.warns(DeprecationWarning, match="stall= is now called progress_timeout="):
        changed = await lanes.set("front", stall="10m")
    assert (made.poll_every, changed.stall_after) == (timedelta(seconds=2), timedelta(minutes=10))
    assert (made.ordering, made.stale_after, made.age_every) == (made.order, made.heartbeat_timeout, None)
    with pytest.warns(DeprecationWarning, match="ordering= is now called order="):
        built = Lane("back", ordering="strict")  # type: ignore[call-arg]  # the old name
    assert built == Lane("back", order="strict")
    with pytest.raises(InvalidOption, match="one setting"), pytest.warns(DeprecationWarning, match="age"):
        await lanes.set("front", age="1m", aging_interval="2m")


async def test_lanes_show_how_many_of_their_slots_are_used(desk: Desk) -> None:
    await desk.app.lanes.create("front", kinds=["k"])
    worker = await desk.worker()
    await desk.worker("v")
    await desk.store.claim(worker, await desk.store.enqueue("k"), lane="front")
    (front,) = [load for load in await desk.app.lanes.loads() if load.lane.name == "front"]
    assert (front.running, front.slots, front.workers) == (1, 20, 2)
