"""OwnTransaction: statements that are written with a job, in one transaction of Rowlock's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowlock.store.executor import SqlSession

BeforeJob: TypeAlias = "Callable[[SqlSession], Awaitable[None]]"
AfterJob: TypeAlias = "Callable[[SqlSession, int, str], Awaitable[None]]"
"""Is called with the job's id, and created, kept or replaced."""


async def nothing_before(_session: SqlSession) -> None:
    """Begin with the job itself."""


@dataclass(frozen=True, slots=True)
class OwnTransaction:
    """Takes the place of a caller's connection in an enqueue of one job.

    before and after run beside the job in its transaction; an error of theirs undoes all of it. They use this session
    alone: a second connection of the pool might be held by a transaction that waits for a second one, too. After a
    deadlock all of it is run again.
    """

    after: AfterJob
    before: BeforeJob = nothing_before
