"""Mutations that the scenarios of the torture must notice, with nothing but what handlers wrote down and the tables."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

FINISH: Final = "store/sql/finish.sql"
SCENARIO: Final = "tests/torture/test_nemesis.py::test_every_promise_is_kept"

MUTATIONS: Final = (
    Mutation(
        "scenario: an outcome is accepted under any fence",
        FINISH,
        "j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL\n\n",
        "j.id = d.id AND j.finished_at IS NULL\n\n",
        (f"{SCENARIO}[zombie]",),
    ),
    Mutation(
        "scenario: a rescue leaves the fence as it is",
        FINISH,
        "      fence = j.fence + 1, seq = j.seq + 1, gate_place = 0, rate_turn",
        "      fence = j.fence + (l.outcome <> 'lost')::integer, seq = j.seq + 1, gate_place = 0, rate_turn",
        (f"{SCENARIO}[zombie]",),
    ),
    Mutation(
        "scenario: an outcome counts as written before it is",
        "flow/finish.py",
        "                again = True\n                if not isinstance(error, TRANSIENT):",
        "                return Flushed(batch)\n                if not isinstance(error, TRANSIENT):",
        (f"{SCENARIO}[restart]",),
    ),
    Mutation(
        "scenario: workers wait to be woken and never look",
        "flow/rounds.py",
        "                async with asyncio.timeout(idle):\n",
        "                if True:\n",
        (f"{SCENARIO}[deaf]",),
    ),
)
