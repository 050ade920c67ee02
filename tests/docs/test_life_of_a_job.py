"""The table of transitions in the docs is the one in the code."""

from __future__ import annotations

import re
from pathlib import Path

from rowlock.model.state import TRANSITIONS, State

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "life_of_a_job.md"


def in_order(states: object) -> str:
    return ", ".join(f"`{state}`" for state in State if state in states)  # type: ignore[operator]  # any collection


def table() -> str:
    """One row per verb and set of states it leads to."""
    rows = ["| verb | from | to |", "|---|---|---|"]
    for verb, moves in TRANSITIONS.items():
        for targets in dict.fromkeys(moves.values()):
            sources = [state for state, leads_to in moves.items() if leads_to == targets]
            rows.append(f"| {verb} | {in_order(sources)} | {in_order(targets)} |")
    return "\n".join(rows)


def test_the_documented_transitions_are_those_of_the_code() -> None:
    found = re.search(r"<!-- transitions[^>]*-->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL)
    assert found is not None
    assert found[1] == table()


def test_every_state_is_explained() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert explained == [str(state) for state in State]
