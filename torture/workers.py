"""Nemeses of worker processes: killed, stopped, replaced."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import override

from torture.scenario import Scenario
from torture.stage import STALE, eventually

if TYPE_CHECKING:
    from torture.stage import Process, Stage


class Kill(Scenario):
    """kill -9, again and again, with a successor for each."""

    name = "kill"
    does = "`kill -9` of a worker every 2 s or so, a new one for each"
    bound = 30.0
    why = "heartbeat timeout, a round of rescue, back-off, then suspects one by one, each alone in a new child"
    seconds = (8.0, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            victim = stage.random.choice(stage.workers)
            stage.worker()
            await asyncio.sleep(stage.random.uniform(1, 3))
            victim.expendable = True
            victim.signal(signal.SIGKILL)
        stage.notes["killed"] = float(sum(process.expendable for process in stage.processes))


class Stopped(Scenario):
    """A worker that stands still for longer than the heartbeat timeout, then goes on as if nothing had been."""

    name = "stopped"
    does = "SIGSTOP of a worker for twice the heartbeat timeout, then SIGCONT"
    bound = 5.0
    why = "its jobs were taken over while it stood"
    seconds = (2 * STALE + 2, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        until = time.monotonic() + seconds
        for victim in itertools.cycle(stage.random.sample(stage.workers, len(stage.workers))):
            await stage.busy(victim)
            victim.signal(signal.SIGSTOP)
            await asyncio.sleep(2 * STALE + 1)
            victim.signal(signal.SIGCONT)
            if time.monotonic() >= until - 2 * STALE:
                return
            await asyncio.sleep(1)


class Zombie(Scenario):
    """A stopped worker comes back while its job waits in the queue: nobody else may run it."""

    name = "zombie"
    does = "SIGSTOP until its jobs are back in the queue, where nobody takes them; then SIGCONT"
    bound = 12.0
    why = "suspects run alone in a child"
    seconds = (STALE + 3, 60.0)

    @override
    async def set_up(self, stage: Stage) -> None:
        """Only the victim serves `plain`; the other one does upkeep and everything else."""
        stage.environment["ROWLOCK_LANES"] = (
            f"slow:kinds=plain,slots=4,stale={STALE:.0f}s;default:kinds=*,slots=10,stale={STALE:.0f}s,poll=1s"
        )
        self._victim = stage.worker("--lanes", "slow")
        stage.worker("--lanes", "default")
        await stage.up(2)
        stage.producer(self.rate)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        for number in range(max(1, int(seconds / (2 * STALE)))):
            tag = f"zombie-{number}"
            running = "SELECT count(*) FROM jobs WHERE state = 'running' AND args ->> 'tag' = $1"
            await stage.ask(
                "INSERT INTO jobs (kind, args)"
                " SELECT 'plain', jsonb_build_object('tag', $1::text, 'seconds', $2::float8)"
                " FROM generate_series(1, 2)",
                tag,
                STALE / 2,
            )
            await eventually(partial(stage.ask, f"SELECT ({running}) = 2", tag), "runs", 30)
            # They would have ended by the time it goes on: it hands in what it has before it hears that it may not.
            self._victim.signal(signal.SIGSTOP)
            await eventually(partial(stage.ask, f"SELECT ({running}) = 0", tag), "the rescue of its jobs", 30)
            self._victim.signal(signal.SIGCONT)
            await asyncio.sleep(2)

    _victim: Process


class Deploy(Scenario):
    """Old workers leave one by one, new ones with other code come."""

    name = "deploy"
    does = "rolling deploy: SIGTERM, one worker at a time, new code beside old"
    bound = 3.0
    why = "nothing is lost, so nothing has to be rescued"
    seconds = (8.0, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        until = time.monotonic() + seconds
        version = itertools.count(2)
        codes = []
        while time.monotonic() < until:
            leaving = stage.workers[0]
            stage.worker(TORTURE_VERSION=str(next(version)))
            await stage.up(3)
            leaving.expendable = True
            leaving.signal(signal.SIGTERM)
            codes.append(await leaving.end(15))
        stage.notes["replaced"] = float(len(codes))
        self._codes = codes

    _codes: list[int | None]

    @override
    async def judge(self, stage: Stage) -> list[str]:
        lost = await stage.ask("SELECT count(*) FROM job_attempts WHERE outcome = 'lost'")
        return [f"a leaving worker ended with {code}" for code in self._codes if code != 0] + (
            [f"{lost} jobs were lost in a deploy"] if lost else []
        )


SCENARIOS = (Kill, Stopped, Zombie, Deploy)
