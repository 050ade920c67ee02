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

KILLS: Final = int(os.environ.get("ROWLOCK_KILLS", "6"))
"""Processes that are killed, each with chains under way."""
AT_ONCE: Final = 60
"""Chains that are under way when one is killed; more begin as others end."""
STEPS: Final = 6


async def start(scene: Scene, chains: int) -> int:
    names = [f"s{n}" for n in range(STEPS)]
    plan = {
        "steps": [{"name": name, "kind": "work", "args": {"seconds": 0.01}, "max_attempts": 1000} for name in names],
        "edges": [{"upstream": up, "downstream": down} for up, down in itertools.pairwise(names)],
    }
    about = {"name": "chain", "tenant": None, "submitted_by": None, "unique_key": None, "meta": None}
    for _ in range(chains):
        await scene.app.database().fetch("workflow_start", **about, plan=json.dumps(plan))
    return chains


async def in_the_middle(scene: Scene, pid: int) -> bool:
    """Whether the process has ended some steps, released others, and runs some of those at this moment."""
    return bool(
        await scene.value(
            "SELECT (SELECT count(*) FROM ledger WHERE what = 'end' AND pid = $1) >= 5"
            " AND EXISTS (SELECT 1 FROM jobs j JOIN edges e ON e.downstream = j.id"
            "             JOIN workers w ON w.id = j.claimed_by WHERE j.state = 'running' AND w.pid = $1)",
            pid,
        )
    )


# Every end that was accepted for a claim: the last one is on the job's row, the others beside it.
ENDS = """
  WITH ended AS (
    SELECT job_id, fence FROM job_attempts
    UNION ALL SELECT id, fence - 1 FROM jobs WHERE finished_at IS NOT NULL)
"""


async def check_outcomes(scene: Scene) -> None:
    """One accepted outcome for every claim, and one claim for every transition to running."""
    twice = await scene.fetch(ENDS + "SELECT job_id, fence FROM ended GROUP BY 1, 2 HAVING count(*) > 1 LIMIT 1")
    assert not twice
    without = await scene.fetch(
        ENDS + "SELECT l.job, l.fence FROM ledger l WHERE l.what = 'start'"
        " AND NOT EXISTS (SELECT 1 FROM ended e WHERE e.job_id = l.job AND e.fence = l.fence) LIMIT 1"
    )
    assert not without
    # A release, if it waited, and for each attempt a claim and an end: no other transition, so none was taken back.
    odd = await scene.fetch(
        "SELECT j.id FROM jobs j WHERE j.fence <> (SELECT count(*) FROM waits w WHERE w.job_id = j.id)"
        " + 2 * (1 + (SELECT count(*) FROM job_attempts a WHERE a.job_id = j.id)) LIMIT 1"
    )
    assert not odd
    # What was accepted beside the last end says that the worker was lost, never that the step had ended.
    outcomes = await scene.fetch("SELECT DISTINCT outcome FROM job_attempts")
    assert {row["outcome"] for row in outcomes} <= {"lost", "disowned", "interrupted"}


@pytest.mark.timeout(120 + 20 * KILLS)
async def test_chains_whose_process_is_killed_between_steps_finish_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORTURE_LOSSES", "1000")
    chains = await start(scene, AT_ONCE)
    victim = scene.start()
    for _ in range(KILLS):
        # The next one is there when this one dies.
        starting = asyncio.ensure_future(asyncio.to_thread(scene.start))
        under_way = await scene.value("SELECT count(*) FROM workflows WHERE finished_at IS NULL")
        chains += await start(scene, AT_ONCE - under_way)
        await eventually(functools.partial(in_the_middle, scene, victim.popen.pid), within=40)
        victim.signal(signal.SIGKILL)
        victim.end()
        victim = await starting
    await scene.quiet(within=60 + KILLS)
    lost = await scene.value("SELECT count(*) FROM job_attempts WHERE outcome = 'lost'")
    assert lost >= KILLS
    states = await scene.fetch("SELECT state, count(*) AS n FROM workflows GROUP BY 1")
    assert {row["state"]: row["n"] for row in states} == {"completed": chains}
    assert await scene.value("SELECT count(*) FROM jobs WHERE state = 'completed'") == chains * STEPS
    await check_outcomes(scene)
    early = await scene.fetch(
        "SELECT e.downstream FROM edges e JOIN jobs u ON u.id = e.upstream JOIN jobs d ON d.id = e.downstream"
        " WHERE d.claimed_at < u.finished_at OR e.met IS NOT TRUE LIMIT 1"
    )
    assert not early
    print(f"{KILLS} kills, {chains} chains of {STEPS} steps, {lost} lost claims")  # noqa: T201 - for whoever asks with -s
