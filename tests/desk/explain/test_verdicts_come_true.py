"""What explain says is compared with what happens next, in random small worlds with a live worker.

A job that something holds back is never called ready, and does not start before the last of its blockers is lifted; a
job that nothing holds back is called ready, and runs.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.waiting import eventually, nothing_happens_for

from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.desk.conftest import Desk

    from rowlock import Rowlock

GATE = "door"
FREE = {"ready", "running", "ended"}


class Blocker(NamedTuple):
    """What holds a job back. options: of its submission; close and lift: before it and when it is to go on."""

    options: dict[str, Any]
    close: Callable[[Rowlock], Awaitable[object]]
    lift: Callable[[Rowlock, int], Awaitable[object]]
    codes: frozenset[str]


async def nothing(_app: Rowlock) -> None: ...


BLOCKERS = {
    "a drained lane": Blocker(
        {}, lambda app: app.lanes.drain("front"), lambda app, _: app.lanes.resume("front"), frozenset({"lane_drained"})
    ),
    "a lane without slots": Blocker(
        {},
        lambda app: app.lanes.set("front", slots=0),
        lambda app, _: app.lanes.set("front", slots=3),
        frozenset({"lane_full"}),
    ),
    "a lane at its cap": Blocker(
        {},
        lambda app: app.lanes.set("front", max_total=0),
        lambda app, _: app.lanes.set("front", max_total=-1),
        frozenset({"lane_capped"}),
    ),
    "a full gate": Blocker(
        {"gate": GATE},
        lambda app: app.limits.set_gate(GATE, limit=0),
        lambda app, _: app.limits.set_gate(GATE, limit=1),
        frozenset({"gate_full", "parked"}),
    ),
    "a time to come": Blocker(
        {"run_in": "1h"}, nothing, lambda app, job: app.jobs.edit(job, run_in="0s"), frozenset({"not_due", "scheduled"})
    ),
    "a missing approval": Blocker(
        {"approval": True}, nothing, lambda app, job: app.jobs.approve(job, by="root"), frozenset({"approval"})
    ),
}


async def judged(app: Rowlock, job: int, *, blocked_by: set[str]) -> None:
    """Explain agrees with what holds the job back, and the job does as it says."""
    codes = (await app.jobs.explain(job)).codes
    if not blocked_by:
        assert codes[0] in FREE, codes
        return
    assert codes[0] not in FREE, (blocked_by, codes)
    await nothing_happens_for(0.2)
    now = await app.jobs.get(job)
    assert now.state in (State.QUEUED, State.BLOCKED, State.PENDING), (blocked_by, codes, now.state)


async def play(desk: Desk, seed: int) -> None:
    chance, app = random.Random(seed), desk.app  # noqa: S311 - no secret

    @app.job("k")
    async def k() -> None: ...

    await desk.store.gate(GATE)
    await app.lanes.create("front", kinds=["k"], slots=3)
    for _ in range(3):
        chosen = chance.sample(sorted(BLOCKERS), chance.randrange(4))
        options: dict[str, Any] = {}
        for name in chosen:
            options |= BLOCKERS[name].options
            await BLOCKERS[name].close(app)
        job = (await app.jobs.submit("k", {}, **options)).job.id
        # A worker that is there already may claim the job before it hears of the lane's new settings.
        async with app.worker():
            left = set(chosen)
            for name in chosen:
                await judged(app, job, blocked_by=left)
                await BLOCKERS[name].lift(app, job)
                left.remove(name)
            await judged(app, job, blocked_by=left)
            assert (await app.jobs.wait(job, timeout=60)).state is State.COMPLETED


@pytest.mark.parametrize("seed", range(2))
async def test_a_verdict_comes_true(desk: Desk, seed: int) -> None:
    await play(desk, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
async def test_verdicts_come_true_in_many_worlds(desk: Desk, seed: int) -> None:
    await play(desk, seed)


@pytest.mark.parametrize("name", sorted(BLOCKERS))
async def test_each_blocker_is_named_by_itself(desk: Desk, name: str) -> None:
    app, blocker = desk.app, BLOCKERS[name]

    @app.job("k")
    async def k() -> None: ...

    await desk.store.gate(GATE)
    await app.lanes.create("front", kinds=["k"], slots=3)
    await blocker.close(app)
    job = (await app.jobs.submit("k", {}, **blocker.options)).job.id
    async with app.worker():
        said: list[str] = []

        async def named() -> bool:
            said[:] = (await app.jobs.explain(job)).codes
            return said[0] in blocker.codes

        try:
            await eventually(named)
        except AssertionError:
            pytest.fail(f"explain names {said}, not {sorted(blocker.codes)}")
        await judged(app, job, blocked_by={name})
        await blocker.lift(app, job)
        assert (await app.jobs.wait(job, timeout=60)).state is State.COMPLETED
