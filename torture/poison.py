"""Nemeses that are jobs: they take their process along, never end, or answer with what cannot be stored."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from torture.jobs import POISON
from torture.scenario import Scenario

if TYPE_CHECKING:
    from torture.stage import Stage


class Poison(Scenario):
    """Every kind of poison, among jobs that do no harm."""

    name = "poison"
    does = (
        "`os._exit`, segmentation fault, memory hog, endless loop, 50 MB result, errors without pickle or text, and"
        " exceptions outside `Exception`"
    )
    bound = 90.0
    why = "three deaths each, alone in a child, with back-off between them"
    seconds = (2.0, 20.0)
    doomed = frozenset(POISON)

    @override
    async def set_up(self, stage: Stage) -> None:
        """Under a supervisor, which notices deaths at once; a handler may block its loop for three seconds."""
        stage.environment |= {"ROWLOCK_BLOCKED_LIMIT": "3s", "ROWLOCK_STOP_PATIENCE": "2s"}
        stage.worker("--processes", "1")
        stage.worker("--processes", "1")
        await stage.up(2)
        stage.producer(self.rate)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        for kind in POISON:
            await stage.ask(
                "INSERT INTO jobs (kind, max_attempts, args) VALUES ($1, 2, jsonb_build_object('tag', $1::text))", kind
            )
        await asyncio.sleep(seconds)

    @override
    async def judge(self, stage: Stage) -> list[str]:
        """Neighbours never pay: none of them is called guilty."""
        rows = await stage.ask(
            "SELECT string_agg(kind || ': ' || coalesce(errors ->> 'reason', errors ->> 'message', state), '; ')"
            " FROM jobs WHERE kind = ANY ($1::text[]) AND state <> 'failed'",
            list(POISON),
        )
        return [f"poison that did not fail: {rows}"] if rows else []


class PoisonedHost(Scenario):
    """Jobs that take their whole worker along, as a container that is out of memory does; it is started again."""

    name = "poisoned-host"
    does = "jobs that kill their worker and its child processes at once; each worker is started again"
    bound = 60.0
    why = "each loss is noticed after the heartbeat timeout, and suspects run one by one"
    seconds = (20.0, 60.0)
    doomed = frozenset({"drags_along"})
    jobs: ClassVar[int] = 2

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        for _ in range(self.jobs):
            await stage.ask(
                "INSERT INTO jobs (kind, max_attempts, args) VALUES ('drags_along', 2, '{\"tag\": \"drags\"}')"
            )
        until = time.monotonic() + seconds
        while time.monotonic() < until or not await self._over(stage):
            for worker in [worker for worker in stage.workers if not worker.alive]:
                worker.expendable = True
                stage.worker()
            if time.monotonic() > until + self.bound:
                break
            await asyncio.sleep(0.2)
        stage.notes["workers killed"] = float(sum(process.expendable for process in stage.processes))

    @staticmethod
    async def _over(stage: Stage) -> bool:
        return bool(
            await stage.ask("SELECT NOT EXISTS (SELECT 1 FROM jobs WHERE kind = 'drags_along' AND finished_at IS NULL)")
        )

    @override
    async def judge(self, stage: Stage) -> list[str]:
        """Losses are limited: each job kills as often as it may be attempted, and once more while it is one of many."""
        killed, most = stage.notes["workers killed"], self.jobs * 3
        return [f"{self.jobs} jobs killed {killed:.0f} workers, more than {most}"] if killed > most else []


SCENARIOS = (Poison, PoisonedHost)
