"""A handler that goes on after its job was taken from it: its slot is used, and everybody can see by what."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually, until

from rowlock import Principal, Retry, State
from rowlock.flow.worker.recycling import Recycling
from rowlock.model.access import Permission
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rowlock import Explanation, Rowlock, SyncTask

PATIENT, SHORT = timedelta(hours=1), timedelta(seconds=0.2)


class Deaf:
    """A job in a lane with one slot whose thread hears of nothing, and one that waits for the slot."""

    def __init__(self, app: Rowlock) -> None:
        self.app = app
        self.begun, self.released = threading.Event(), threading.Event()

        @app.job("deaf", lane="narrow", retry=Retry(attempts=1))
        def deaf() -> None:
            self.begun.set()
            self.released.wait()

        @app.job("waits", lane="narrow")
        async def waits() -> str:
            return "ran"

        self.deaf: SyncTask[[], None] = deaf
        self.waits = waits

    async def explained(self, job_id: int) -> Explanation:
        async def full() -> list[Explanation]:
            found = await self.app.jobs.explain(job_id)
            return [found] if "lane_full" in found.codes else []

        return (await eventually(full))[0]


@pytest.fixture
def deaf(make_app: Callable[..., Rowlock]) -> Iterator[Deaf]:
    made = Deaf(make_app(lanes=()))
    yield made
    made.released.set()


@pytest.mark.parametrize("patience", [PATIENT, SHORT], ids=["while it is being stopped", "once it is given up"])
async def test_a_handler_that_goes_on_holds_its_slot_in_every_view(deaf: Deaf, patience: timedelta) -> None:
    app = deaf.app
    app.settings = replace(app.settings, stop_patience=patience, max_stuck=None)
    await app.lanes.create("narrow", slots=1, kinds=["deaf", "waits"])
    async with app.worker({"narrow": 1}):
        held = await deaf.deaf.enqueue()
        await until(deaf.begun.is_set)
        waiting = await deaf.waits.enqueue()
        await app.jobs.stop(held.id)
        if patience == SHORT:

            async def given_up() -> bool:
                return [view.stuck for view in await app.workers.list()] == [1]

            await eventually(given_up)
        explained = await deaf.explained(waiting.id)
        name = (await held.job()).public_id
        assert "1 of 1 slot" in explained.verdict
        assert f"told to stop and have not: {name} (deaf), told to stop " in explained.verdict
        status = await app.workers.status()
        (worker,) = status.workers
        assert [(use.lane, use.used, use.slots) for use in worker.slots] == [("narrow", 1, 1)]
        assert [(slot.job_id, slot.kind, slot.lane) for slot in worker.worker.held] == [(held.id, "deaf", "narrow")]
        for lanes in (status.lanes, (await app.stats.overview()).lanes):
            (load,) = [load for load in lanes if load.lane.name == "narrow"]
            assert (load.running, load.held, load.used, load.slots) == (0, 1, 1, 1)
        stranger = app.desk(Principal("eve", None, frozenset({Permission.WORKERS_VIEW, Permission.READ})))
        (seen,) = (await stranger.workers.status()).workers
        assert ([use.used for use in seen.slots], seen.worker.held) == ([1], ())
        deaf.released.set()
        assert await waiting.wait(timeout=60) == "ran"

        async def free() -> bool:
            (view,) = await app.workers.list()
            return not view.held and not view.stuck

        await eventually(free)
    assert (await held.job()).state is State.CANCELLED


class _Heir:
    leaving = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def request(self, reason: str) -> None:
        self.asked.append(reason)


async def test_a_worker_with_a_lane_of_stuck_handlers_asks_to_be_replaced(deaf: Deaf) -> None:
    app, heir = deaf.app, _Heir()
    app.settings = replace(app.settings, stop_patience=SHORT)
    await app.lanes.create("narrow", slots=1, kinds=["deaf", "waits"])
    async with app.worker({"narrow": 1, "default": 3}) as worker:
        assert worker is not None
        worker._recycling = Recycling(app.settings, heir)  # type: ignore[arg-type]  # only request() is called
        held = await deaf.deaf.enqueue()
        await until(deaf.begun.is_set)
        await app.jobs.cancel(held.id)
        await until(lambda: heir.asked)
        assert heir.asked == ["every slot of lane narrow is held by handlers that were told to stop and do not"]
        deaf.released.set()
        await asyncio.wait_for(held.job(), 60)


def test_without_a_limit_on_stuck_slots_nothing_is_replaced() -> None:
    heir = _Heir()
    Recycling(Settings(max_stuck=None), heir).check(1, ["narrow"])  # type: ignore[arg-type]  # only request() is called
    assert heir.asked == []
    Recycling(Settings(), heir).check(1, [])  # type: ignore[arg-type]  # as above
    assert heir.asked == []
