"""Only the database's clock decides: the rooms in which something is decided read no clock of their own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "rowlock"
WALL = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}
SHOWN = {"flow/progress/attempt_io.py"}
"""Where a moment is only shown: the deadline of a stubbed row without a claim."""


@pytest.mark.parametrize("room", ["model", "store", "flow", "upkeep"])
def test_no_wall_clock_is_read_where_something_is_decided(room: str) -> None:
    found = set()
    for path in (SOURCE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and (node.value.id, node.attr) in WALL
            ):
                found.add(str(path.relative_to(SOURCE)))
    assert found <= SHOWN, f"these read the clock of their host: {found - SHOWN}"
