"""RepeatedReads: many explanations in one snapshot ask for lanes, workers and slots once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlock.store.database import Record
    from rowlock.store.executor import SqlExecutor


class RepeatedReads:
    """Reads of one snapshot: a statement that is asked again with the same values gives the same rows at once."""

    def __init__(self, reads: SqlExecutor) -> None:
        self._reads = reads
        self._rows: dict[str, list[Record]] = {}

    async def fetch(self, name: str, /, **values: object) -> list[Record]:
        """Run one named statement with these parameters, unless the snapshot has answered it; returns its rows."""
        asked = f"{name} {sorted(values.items())!r}"
        if asked not in self._rows:
            self._rows[asked] = await self._reads.fetch(name, **values)
        return self._rows[asked]
