"""Blocked jobs: whose rows other transactions hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.store.executor import SqlExecutor


async def held_jobs(executor: SqlExecutor, ids: Sequence[int], *, to_delete: bool = False) -> set[int]:
    """Of these jobs, those whose row another transaction holds now; never waits.

    to_delete: also those to which a row of another transaction refers, which holds them against a deletion only. In a
    transaction the others are locked until its end.
    """
    name = "held_jobs_to_delete" if to_delete else "held_jobs"
    return {row["id"] for row in await executor.fetch(name, ids=list(ids))}
