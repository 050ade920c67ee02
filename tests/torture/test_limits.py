"""Gates and rates hold under eight worker processes, by what the handlers themselves wrote down."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.torture.limited import BUCKET, PLACES, WINDOW, app
from tests.waiting import eventually

if TYPE_CHECKING:
    import asyncpg
    from tests.torture.conftest import Scene

GATES = ("red", "green")
RATES = ("bucket a", "bucket b", "window", "both")
PER_KEY = 60
OVERFULL = "SELECT key FROM gates WHERE held > max_running OR held < 0"
LINES = """
SELECT l.what, l.job, j.fence, extract(epoch FROM l.at)::float8 AS at,
       extract(epoch FROM j.claimed_at)::float8 AS claimed_at
FROM ledger l JOIN jobs j ON j.id = l.job ORDER BY l.at, l.n
"""


async def test_bounds_hold_at_every_commit_and_nothing_stays_behind(scene: Scene) -> None:
    app.repoint(scene.app.settings)
    await scene.app.lanes.create("default", kinds=["*"], slots=5)
    scene.command("--processes", "8", app="tests.torture.limited:app")
    await scene.workers(8)
    for key in GATES:
        await app.task("gated").enqueue_many([{"key": key}] * PER_KEY)
    for key in RATES:
        await app.task("both" if key == "both" else "paced").enqueue_many([{"key": key}] * PER_KEY)
    ordered = [await app.task("in_order").enqueue("file") for _ in range(PER_KEY)]

    async def final() -> bool:
        assert await scene.fetch(OVERFULL) == []
        return not await scene.value("SELECT count(*) FROM jobs WHERE finished_at IS NULL")

    await eventually(final, within=30)
    assert await scene.value("SELECT sum(held) FROM gates") == 0
    lines = await scene.fetch(LINES)
    for key in (*GATES, "both", "file"):
        assert at_once(lines, key) <= (1 if key == "file" else PLACES)
    started = [line["job"] for line in lines if line["what"] == "start file"]
    assert started == [handle.id for handle in ordered]
    for key in RATES:
        mine = [line for line in lines if line["what"] == f"start {key}"]
        assert len(mine) == PER_KEY
        check_rate(mine, window=key == "window")
    # One that waits is claimed a few times, not again and again.
    fences: defaultdict[int, int] = defaultdict(int)
    for line in lines:
        fences[line["job"]] = line["fence"]
    assert sum(fences.values()) / len(fences) < 6
    await app.close()


def at_once(lines: list[asyncpg.Record], key: str) -> int:
    now = most = 0
    for line in lines:
        now += (line["what"] == f"start {key}") - (line["what"] == f"end {key}")
        most = max(most, now)
    return most


def check_rate(lines: list[asyncpg.Record], *, window: bool) -> None:
    """No span of any length has more starts than the rate allows it.

    A start is written down a moment after its admission: spans are shortened by the longest such moment, so that all
    the starts in one were admitted within the span itself.
    """
    late = max(line["at"] - line["claimed_at"] for line in lines)
    starts = sorted(line["at"] for line in lines)
    for first, begin in enumerate(starts):
        for last in range(first, len(starts)):
            span = starts[last] - begin + late
            n = last - first + 1
            if window:
                assert span > WINDOW.per.total_seconds() or n <= WINDOW.amount, (n, span)
            else:
                assert n <= BUCKET.burst + span * BUCKET.amount / BUCKET.per.total_seconds() + 1e-3, (n, span)
