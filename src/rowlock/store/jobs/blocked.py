"""Blocked jobs: whose rows other transactions hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.store.executor import SqlExecutor


async def held_jobs(executor: SqlExecutor, ids: Sequence[int]) -> set[int]:
    """Of these jobs, those whose row another transaction holds now; never waits.

    In a transaction the others are locked until its end.
    """
    return {row["id"] for row in await executor.fetch("held_jobs", ids=list(ids))}
