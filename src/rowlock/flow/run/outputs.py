"""Outputs: the results of a workflow's other steps, put where a step's arguments name them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.store.database import Database
    from rowlock.store.rows.jobs import Row

OUTPUT: Final = "$output"
"""{"$output": "fetch"} in stored arguments stands for the result of the step `fetch`; null if it has none."""


class Outputs:
    """Reads results for one worker. Arguments that name no step never come here."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, row: Row) -> Row:
        """The row with its arguments as the handler is to get them."""
        args = json.loads(row["args"])
        names = sorted(set(named(args)))
        if not names:
            return row
        found = await self._database.fetch("outputs", id=row["id"], names=names)
        results = {one["name"]: json.loads(one["result"] or "null") for one in found}
        # A copy: what the driver answers cannot be changed, and a child process is sent a mapping anyway.
        text = json.dumps(filled(args, results), ensure_ascii=False, separators=(",", ":"))
        return {**dict(_items(row)), "args": text}


def named(value: object) -> list[str]:
    """The steps whose results are asked for anywhere in the value."""
    match value:
        case {"$output": str() as name, **more} if not more:
            return [name]
        case dict():
            return [name for inner in value.values() for name in named(inner)]
        case list():
            return [name for inner in value for name in named(inner)]
        case _:
            return []


def filled(value: object, results: Mapping[str, object]) -> object:
    """The value with the results in their places; what a result contains is left as it is."""
    match value:
        case {"$output": str() as name, **more} if not more:
            return results.get(name)
        case dict():
            return {key: filled(inner, results) for key, inner in value.items()}
        case list():
            return [filled(inner, results) for inner in value]
        case _:
            return value


def _items(row: Any) -> Any:  # noqa: ANN401 - a driver's record, or a mapping
    return row.items()
