"""Bulk: COPY for jobs without keys, with ids taken beforehand."""

from __future__ import annotations

from itertools import islice, repeat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from rowlock.store.database import Connection, Record
    from rowlock.store.queries import Statements

CHUNK: Final = 50_000
"""Rows of one COPY: a million in one would meet the time limit of a statement on a slow disk."""


async def copy_jobs(
    connection: Connection[Record], statements: Statements, shared: Mapping[str, object], texts: Sequence[str]
) -> tuple[list[int], datetime]:
    """Insert jobs that need no key and no timing and share these columns, all or none.

    Returns their ids and a moment not after any of their run_after.
    """
    # A sequence knows no transaction, and one COPY is one by itself: most bulks need neither BEGIN nor COMMIT.
    row = await connection.fetchrow(statements["take_ids"].dollar, len(texts))
    assert row is not None  # noqa: S101 - it selects without a condition
    ids: list[int] = row["ids"]
    columns = {name: value for name, value in shared.items() if value is not None}
    # zip and repeat make the rows without running Python code for each, and never hold more than one.
    rows = zip(ids, texts, *map(repeat, columns.values()), strict=False)
    if len(texts) <= CHUNK:
        await _copy(connection, statements.schema, columns, rows)
    else:
        async with connection.transaction():
            for _ in range(0, len(texts), CHUNK):
                await _copy(connection, statements.schema, columns, islice(rows, CHUNK))
    return ids, row["now"]


async def _copy(
    connection: Connection[Record], schema: str, columns: Mapping[str, object], rows: Iterable[tuple[object, ...]]
) -> None:
    await connection.copy_records_to_table("jobs", schema_name=schema, columns=("id", "args", *columns), records=rows)
