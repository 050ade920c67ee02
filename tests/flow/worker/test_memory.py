"""The memory of a worker process: read now and then, reported with its heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.waiting import eventually

from rowlock.flow.worker.memory import MemoryGauge

if TYPE_CHECKING:
    from rowlock import Rowlock

MEGABYTE = 1 << 20


def test_a_gauge_looks_every_ten_seconds_and_keeps_its_value_while_little_changes() -> None:
    seen = [50 * MEGABYTE, 50 * MEGABYTE + 100, 52 * MEGABYTE, None]
    clock = [0.0]
    gauge = MemoryGauge(lambda: seen.pop(0), lambda: clock[0])
    assert gauge.bytes() == 50 * MEGABYTE
    clock[0] = 9.9
    assert gauge.bytes() == 50 * MEGABYTE
    assert len(seen) == 3
    for moment, expected in ((10.0, 50 * MEGABYTE), (20.0, 52 * MEGABYTE), (30.0, None)):
        clock[0] = moment
        assert gauge.bytes() == expected


async def test_a_running_worker_shows_the_memory_of_its_process(app: Rowlock) -> None:
    async with app.worker(name="here"):

        async def known() -> bool:
            return (await app.workers.list())[0].memory is not None

        await eventually(known)
        (shown,) = await app.workers.list()
        assert shown.memory is not None
        assert 5 * MEGABYTE < shown.memory < 4096 * MEGABYTE
