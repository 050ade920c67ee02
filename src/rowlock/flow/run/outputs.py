"""StepOutputs: fills references to the results of other workflow steps into a step's arguments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import UndecodableArguments
from rowlock.model import stored_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.store.database import Database
    from rowlock.store.rows.jobs import Row

OUTPUT: Final = "$output"
"""{"$output": "fetch"} in stored arguments stands for the result of the step `fetch`; null if it has none."""


class StepOutputs:
    """Reads results for one worker; called only for arguments that contain a reference."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, row: Row) -> Row:
        """The row with the results in its arguments."""
        try:
            args = stored_json.read(row["args"])
        except stored_json.UnreadableJson as error:
            message = f"{row['kind']}: the stored arguments cannot be read: {error}."
            raise UndecodableArguments(message) from None
        names = sorted(set(referenced_steps(args)))
        if not names:
            return row
        found = await self._database.fetch("outputs", id=row["id"], names=names)
        results = {one["name"]: json.loads(one["result"] or "null") for one in found}
        # A copy: the driver's record cannot be changed, and a child process gets a mapping anyway.
        text = json.dumps(filled(args, results), ensure_ascii=False, separators=(",", ":"))
        return {**dict(_items(row)), "args": text}


def referenced_steps(value: object) -> list[str]:
    """The names of the steps that are referenced anywhere in the value."""
    match value:
        case {"$output": str() as name, **more} if not more:
            return [name]
        case dict():
            return [name for inner in value.values() for name in referenced_steps(inner)]
        case list():
            return [name for inner in value for name in referenced_steps(inner)]
        case _:
            return []


def filled(value: object, results: Mapping[str, object]) -> object:
    """The value with each reference replaced by its result; references inside results are left alone."""
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
