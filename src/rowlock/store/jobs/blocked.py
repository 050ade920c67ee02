"""Blocked rows: which rows other transactions hold, and which session a statement waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.model.times.duration import humanise

if TYPE_CHECKING:
    from rowlock.store.executor import SqlExecutor


async def held_rows(executor: SqlExecutor, ids: list[int]) -> set[int]:
    """Of these jobs, those whose row another transaction holds now; never waits."""
    return {row["id"] for row in await executor.fetch("held_rows", ids=ids)}


async def blocking_session(executor: SqlExecutor, backend: int) -> str | None:
    """The session that the backend's statement waits for, in words; None: it waits for no lock."""
    rows = await executor.fetch("blocking_session", backend=backend)
    if not rows:
        return None
    row = rows[0]
    details = [row["application_name"] or "no application_name", row["state"] or "state unknown"]
    if row["age"] is not None:
        details.append(f"its transaction is {humanise(row['age'])} old")
    return f"process {row['pid']} ({', '.join(details)})"
