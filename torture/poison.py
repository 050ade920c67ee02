"""Nemeses that are jobs: they take their process along, never end, or answer with what cannot be stored."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from typing_extensions import override

from torture.jobs import POISON
from torture.scenario import Scenario

if TYPE_CHECKING:
    from torture.stage import Stage


class Poison(Scenario):
    """Every kind of poison, among jobs that do no harm."""

    name = "poison"
    does = "`os._exit`, segmentation fault, memory hog, endless loop, 50 MB result, errors without pickle or text"
    bound = 60.0
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


SCENARIOS = (Poison,)
