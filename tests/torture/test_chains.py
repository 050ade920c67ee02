"""Chains whose process is killed between steps, again and again."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import os
import signal
from typing import TYPE_CHECKING, Final

import pytest
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.torture.conftest import Scene

KILLS: Final = int(os.environ.get("ROWLOCK_TEST_KILLS", "8"))
"""Processes that are killed; each has many chains under way."""
CHAINS: Final = 120
STEPS: Final = 6


async def start(scene: Scene) -> None:
    names = [f"s{n}" for n in range(STEPS)]
    plan = {
        "steps": [{"name": name, "kind": "work", "args": {"seconds": 0.01}, "max_attempts": 100} for name in names],
        "edges": [{"upstream": up, "downstream": down} for up, down in itertools.pairwise(names)],
    }
    about = {"name": "chain", "tenant": None, "submitted_by": None, "unique_key": None, "meta": None}
    for _ in range(CHAINS):
        await scene.app.database().fetch("workflow_start", **about, plan=json.dumps(plan))


async def ended_by(scene: Scene, pid: int) -> bool:
    return bool(
        await scene.value(
            "SELECT (SELECT count(*) FROM ledger WHERE what = 'end' AND pid = $1) >= 5"
            " OR NOT EXISTS (SELECT 1 FROM workflows WHERE finished_at IS NULL)",
            pid,
        )
    )


@pytest.mark.timeout(180)
async def test_chains_whose_process_is_killed_between_steps_finish_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORTURE_LOSSES", "1000")
    await start(scene)
    victim = scene.start()
    for _ in range(KILLS):
        # The next one is there when this one dies.
        starting = asyncio.ensure_future(asyncio.to_thread(scene.start))
        # It has ended some steps and released others: it dies in the middle of them.
        await eventually(functools.partial(ended_by, scene, victim.popen.pid), within=40)
        victim.signal(signal.SIGKILL)
        victim = await starting
    await scene.quiet(within=60)
    # A kill ends many chains' steps at once: it is about those in between.
    assert await scene.value("SELECT count(*) FROM job_attempts WHERE outcome = 'lost'") >= 2 * KILLS
    states = await scene.fetch("SELECT state, count(*) AS n FROM workflows GROUP BY 1")
    assert {row["state"]: row["n"] for row in states} == {"completed": CHAINS}
    # One accepted outcome each: it was claimed by somebody who wrote it, and nothing was written after it.
    assert await scene.value("SELECT count(*) FROM jobs WHERE state = 'completed'") == CHAINS * STEPS
    twice = await scene.fetch(
        "SELECT job_id FROM job_attempts WHERE outcome NOT IN ('lost', 'disowned', 'interrupted') LIMIT 1"
    )
    assert not twice
    early = await scene.fetch(
        "SELECT e.downstream FROM edges e JOIN jobs u ON u.id = e.upstream JOIN jobs d ON d.id = e.downstream"
        " WHERE d.claimed_at < u.finished_at OR e.met IS NOT TRUE LIMIT 1"
    )
    assert not early
