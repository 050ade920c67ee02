"""EXPLAIN of a statement as it would run in production: the indexes it uses and the buffers it reads."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.factories import Store

ROWS = 100_000
"""Rows of the tables that plans are looked at with."""


class Explained:
    """What EXPLAIN says of one run."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan["Plan"]
        self.buffers = self.plan["Shared Hit Blocks"] + self.plan["Shared Read Blocks"]

    def nodes(self, node: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        node = node or self.plan
        yield node
        for child in node.get("Plans", ()):
            yield from self.nodes(child)

    @property
    def whole_scans(self) -> list[str]:
        """Ways to reach jobs that read much of it."""
        reads = [node for node in self.nodes() if node.get("Relation Name") == "jobs"]
        return [
            f"{node['Node Type']} of {node['Actual Loops']} x {node['Actual Rows']} rows"
            for node in reads
            if node["Node Type"] == "Seq Scan" or node["Actual Loops"] * node["Actual Rows"] > ROWS / 20
        ]

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes() if "Index Name" in node and node["Actual Loops"]}


async def explain(store: Store, name: str, /, **values: object) -> Explained:
    """Run it for real, through the plan a worker would have after many runs, and undo it."""
    statement = store.database.statements[name]
    async with undone(store):
        text = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {statement.dollar}"
        (plan,) = json.loads(await store.connection.fetchval(text, *statement.bind(values)))
        return Explained(plan)


@contextlib.asynccontextmanager
async def undone(store: Store) -> AsyncIterator[None]:
    transaction = store.connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


GUARDED = pytest.mark.parametrize("guarded", [False, True], ids=["default settings", "guards"])
