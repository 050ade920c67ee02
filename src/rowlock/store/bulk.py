"""Bulk: COPY for jobs without keys, with ids taken beforehand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime

    from rowlock.store.database import Connection, Record
    from rowlock.store.queries import Statements

CHUNK: Final = 50_000
"""Rows of one COPY: a million in one would meet the time limit of a statement on a slow disk."""
_SENT: Final = 250
"""Rows sent at once: the server writes those while the next are made ready."""
_SPECIAL: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


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
    """One column in COPY's text format. An enum that is a text or a number counts as such, whatever it is shown as."""
    if isinstance(value, int):
        return int.__repr__(value)
    assert isinstance(value, str)  # noqa: S101 - a plain job has no other columns
    return str.translate(value, _SPECIAL)


async def _lines(ids: Sequence[int], texts: Sequence[str], rest: str) -> AsyncIterator[bytes]:
    """The rows in COPY's text format, made without running Python code for each. rest: what they share.

    JSON has no tab and no end of line outside of its escapes, so only its backslashes are escaped.
    """
    for at in range(0, len(ids), _SENT):
        part = slice(at, at + _SENT)
        begun = "\n".join(map("%d\t%s".__mod__, zip(ids[part], texts[part], strict=True))).replace("\\", "\\\\")
        yield (begun.replace("\n", rest) + rest).encode()
        # A turn of the loop, in which it is sent.
        await asyncio.sleep(0)
