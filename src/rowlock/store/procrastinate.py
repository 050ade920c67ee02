"""ProcrastinateTable: the table of Procrastinate, from which waiting jobs are moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rowlock.errors import ConfigurationError
from rowlock.store.queries import Statement, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rowlock.store.database import Record
    from rowlock.store.executor import SqlSession


class ProcrastinateJob(NamedTuple):
    """A row of the table. args: JSON text; round: how often it was cancelled."""

    id: int
    task_name: str
    queue_name: str
    priority: int
    lock: str | None
    queueing_lock: str | None
    args: str
    scheduled_at: datetime | None
    attempts: int
    round: int


@dataclass(frozen=True, slots=True)
class TaskBacklog:
    """Jobs of one task in one queue that wait (`todo`) or run (`doing`)."""

    task_name: str
    queue_name: str
    status: str
    jobs: int


async def locate(session: SqlSession, source: str | None) -> tuple[str, str]:
    """The schema of the table, and a text that tells this table from others; ConfigurationError if there is none.

    source: its schema; None: the path of the connection finds it.
    """
    found = await session.fetch("procrastinate_place", source=source)
    if not found:
        where = "on the search path" if source is None else f"in the schema {source!r}"
        raise ConfigurationError(
            f"There is no table procrastinate_jobs {where} of this database. Name its schema with --source-schema, "
            "another database with --source."
        )
    return found[0]["source"], found[0]["place"]


@dataclass(frozen=True, slots=True)
class ProcrastinateTable:
    """The table in one schema, on one connection."""

    session: SqlSession
    source: str

    async def prepare(self) -> None:
        """Let the triggers of the table find their own tables, in the open transaction."""
        await self.session.fetch("procrastinate_path", source=self.source)

    async def backlog(self) -> list[TaskBacklog]:
        """What waits and what runs."""
        return [TaskBacklog(*row.values()) for row in await self._fetch("procrastinate_backlog")]

    async def waiting(self, after: int, n: int) -> list[ProcrastinateJob]:
        """The next n waiting jobs, by id."""
        return _jobs(await self._fetch("procrastinate_waiting", after=after, n=n))

    async def take(self, ids: Iterable[int], *, parked: bool) -> list[ProcrastinateJob]:
        """Cancel jobs that still wait and read them. parked: marked, to be written in another database."""
        taken = await self._fetch("procrastinate_take", ids=list(ids), parked=parked)
        return await self.taken([row["id"] for row in taken])

    async def taken(self, ids: Sequence[int]) -> list[ProcrastinateJob]:
        """Read jobs that were taken."""
        return _jobs(await self._fetch("procrastinate_taken", ids=list(ids)))

    async def parked(self) -> list[int]:
        """Jobs that a move took and did not settle."""
        return [row["id"] for row in await self._fetch("procrastinate_parked")]

    async def settle(self, ids: Sequence[int]) -> None:
        """Note that jobs are written on the other side."""
        await self._fetch("procrastinate_settle", ids=list(ids))

    async def give_back(self, ids: Sequence[int]) -> list[int]:
        """Have jobs wait again; returns those that do."""
        return [row["id"] for row in await self._fetch("procrastinate_give_back", ids=list(ids))]

    async def _fetch(self, fragment: str, **values: object) -> list[Record]:
        text = self.session.statements.fragment(fragment, source=quoted(self.source))
        statement = Statement(fragment, text)
        return await self.session.connection.fetch(statement.dollar, *statement.bind(values))


def _jobs(rows: Iterable[Record]) -> list[ProcrastinateJob]:
    return [ProcrastinateJob(**dict(row)) for row in rows]
