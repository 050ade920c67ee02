"""Bulk enqueue through COPY, for jobs without keys; their ids are drawn beforehand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime

    from rowlock.store.database import Connection, Record
    from rowlock.store.queries import Statements

CHUNK: Final = 50_000
"""Rows per COPY: a million in one could exceed the time limit of a statement on a slow disk."""
_SENT: Final = 250
"""Rows sent at once: the server writes them while the next are prepared."""
_SPECIAL: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


async def copy_jobs(
    connection: Connection[Record], statements: Statements, shared: Mapping[str, object], texts: Sequence[str]
) -> tuple[list[int], datetime]:
    """Insert jobs that have no key and no timing and share these columns, all or none.

    Returns their ids, and an instant at or before the run_after of each.
    """
    # A sequence is not transactional, and one COPY is atomic by itself: most bulks need neither BEGIN nor COMMIT.
    row = await connection.fetchrow(statements["take_ids"].dollar, len(texts))
    assert row is not None  # noqa: S101 - it selects without a condition
    ids: list[int] = row["ids"]
    columns = {name: value for name, value in shared.items() if value is not None}
    if len(texts) <= CHUNK:
        await _copy(connection, statements.schema, columns, ids, texts)
    else:
        async with connection.transaction():
            for at in range(0, len(texts), CHUNK):
                part = slice(at, at + CHUNK)
                await _copy(connection, statements.schema, columns, ids[part], texts[part])
    return ids, row["now"]


async def _copy(
    connection: Connection[Record],
    schema: str,
    columns: Mapping[str, object],
    ids: Sequence[int],
    texts: Sequence[str],
) -> None:
    source = _lines(ids, texts, "".join(f"\t{_text(value)}" for value in columns.values()) + "\n")
    await connection.copy_to_table("jobs", schema_name=schema, columns=("id", "args", *columns), source=source)


def _text(value: object) -> str:
    """One value in COPY's text format; an enum that is a str or an int is written as its value."""
    if isinstance(value, int):
        return int.__repr__(value)
    assert isinstance(value, str)  # noqa: S101 - a plain job has no other columns
    return str.translate(value, _SPECIAL)


async def _lines(ids: Sequence[int], texts: Sequence[str], rest: str) -> AsyncIterator[bytes]:
    """The rows in COPY's text format, built without a Python loop per row. rest: the columns they share.

    JSON has no raw tab or newline, so only its backslashes need escaping.
    """
    for at in range(0, len(ids), _SENT):
        part = slice(at, at + _SENT)
        begun = "\n".join(map("%d\t%s".__mod__, zip(ids[part], texts[part], strict=True))).replace("\\", "\\\\")
        yield (begun.replace("\n", rest) + rest).encode()
        # Lets the loop send it.
        await asyncio.sleep(0)
