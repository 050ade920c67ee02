"""The claim loop: when the next claim follows at once, when it waits for a slot, and when it waits for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from tests.waiting import let_others_run

from rowlock.flow.claim.in_flight import ClaimsInFlight
from rowlock.flow.worker import claim_loop
from rowlock.flow.worker.claim_loop import ClaimLoop
from rowlock.model.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

LANES = {name: Lane(name, kinds=(name,), slots=1, poll_interval=timedelta(seconds=5)) for name in ("a", "b")}


class Scripted:
    """Claimer, slots and recycling in one: claims bring what the test says, slots are free until then."""

    def __init__(self, *claims: Sequence[str], backlogged: Sequence[str] = ()) -> None:
        self.claims, self.backlogged = deque(claims), set(backlogged)
        self.asked: list[set[str]] = []
        self.used: set[str] = set()
        self.in_flight = ClaimsInFlight()
        self.out_of_script = asyncio.Event()

    async def claim(self, wanted: Mapping[str, int]) -> list[dict[str, Any]]:
        self.asked.append(set(wanted))
        if not self.claims:
            self.out_of_script.set()
            await asyncio.Event().wait()
        return [{"lane": lane} for lane in self.claims.popleft()]

    def free(self, lane: str, slots: int) -> int:
        return slots - (lane in self.used)

    def occupy(self, rows: Sequence[dict[str, Any]], _began: float, /) -> Sequence[dict[str, Any]]:
        self.used |= {row["lane"] for row in rows}
        return rows

    def start_attempts(self, attempts: Sequence[dict[str, Any]]) -> None:
        pass

    def count(self, jobs: int) -> None:
        pass


class Watch:
    """A claim loop over a script, with every rest noted and cut short."""

    def __init__(self, script: Scripted, monkeypatch: pytest.MonkeyPatch, lanes: Sequence[str] = ("a",)) -> None:
        self.claim_now, self.rests = asyncio.Event(), list[float]()
        served = {name: LANES[name] for name in lanes}
        made: Any = script
        random = Random(1)  # noqa: S311 - for back-offs
        self._claim_loop = ClaimLoop(
            made,
            made,
            made,
            name="w",
            lanes=lambda: served,
            wakeable=lambda: True,
            claim_now=self.claim_now,
            random=random,
        )
        monkeypatch.setattr(claim_loop, "asyncio", self)

    def timeout(self, seconds: float) -> asyncio.Timeout:
        self.rests.append(seconds)
        return asyncio.timeout(0)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else the module asks of asyncio
        return getattr(asyncio, name)

    async def until(self, done: asyncio.Event) -> None:
        task = asyncio.create_task(self._claim_loop.run())
        async with asyncio.timeout(5):
            await done.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_lane_that_is_known_to_have_more_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Scripted([], [], backlogged=["a"])
    watch = Watch(script, monkeypatch)
    await watch.until(script.out_of_script)
    assert (len(script.asked), watch.rests) == (3, [])


async def test_one_that_has_more_and_no_slot_does_not_keep_the_worker_from_resting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Scripted(["a"], [], backlogged=["a"])
    watch = Watch(script, monkeypatch, lanes=("a", "b"))
    await watch.until(script.out_of_script)
    assert script.asked == [{"a", "b"}, {"b"}, {"b"}]
    assert len(watch.rests) == 2


async def test_rests_become_longer_while_nothing_comes_and_short_again_after_a_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Scripted([], [], [], [], [], [], [], ["b"])
    watch = Watch(script, monkeypatch, lanes=("a", "b"))
    await watch.until(script.out_of_script)
    assert watch.rests == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 0.05]


async def test_a_worker_that_was_full_looks_again_soon_after_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody tells a full worker of jobs, so it has to look for those that came meanwhile."""
    script = Scripted([], [], [], [], [], [], ["a"], [])
    watch = Watch(script, monkeypatch)
    task = asyncio.create_task(watch.until(script.out_of_script))
    while "a" not in script.used:
        await let_others_run()
    for _ in range(10):
        await let_others_run()
    assert len(script.asked) == 7  # no slot, no claim
    script.used.clear()
    watch.claim_now.set()
    await task
    assert watch.rests[-1] == 0.1


async def test_jobs_that_come_in_a_stream_are_looked_for_every_two_milliseconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Scripted(["a", "b"], [])
    script.occupy = lambda rows, _began, /: rows  # type: ignore[method-assign]  # their slots are free again at once
    watch = Watch(script, monkeypatch, lanes=("a", "b"))
    await watch.until(script.out_of_script)
    assert watch.rests == [0.002, 0.002]
