"""VisibleJobs: the jobs that one principal may see; to the principal, others do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED
from rowlock.errors import Forbidden, JobNotFound
from rowlock.model import ids
from rowlock.model.access import Permission
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rowlock.desk.guard import Guard
    from rowlock.model.job import Job
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlExecutor, SqlSession


_MARK: Final = '"$secret"'
"""The mark of a secret in stored arguments and results."""


class VisibleJobs:
    """Reads jobs for one principal, on behalf of the other classes of the desk."""

    def __init__(self, database: Callable[[], Database | SqlSession], guard: Guard) -> None:
        self._open, self._guard = database, guard

    async def one(self, job_id: int | str) -> Job:
        """The job as it is now; JobNotFound also if the principal may not see it."""
        found = await self.many([job_id])
        if not found:
            raise await self.missing(job_id)
        return found[0]

    async def missing(self, job_id: int | str) -> JobNotFound | Forbidden:
        """Why a job is not within reach: Forbidden if the principal may read it, else as if there were none."""
        guard = self._guard
        if guard.granted is not None and guard.within != (Permission.READ,) and guard.principal.scopes(Permission.READ):
            found = await self._open().fetch("jobs_by_id", ids=[ids.parse(job_id)], **guard.for_reading.visibility)
            if found:
                return guard.refusal(f"job {ids.encode(found[0]['id'])} of the kind {found[0]['kind']!r}")
        return not_found(job_id)

    async def many(self, job_ids: Iterable[int | str]) -> list[Job]:
        """Several jobs in id order; missing ones are left out."""
        numbers = [ids.parse(job_id) for job_id in job_ids]
        found = await self._open().fetch("jobs_by_id", ids=numbers, **self._guard.visibility)
        if self._guard.reveals:
            await self.record_reading({row["id"]: f"{row['args']}{row['result']}" for row in found})
        return await self._shown(found)

    async def record_reading(self, shown: Mapping[int, str | None]) -> None:
        """Write down whose secrets are shown, a line per job and reader every five minutes.

        shown: job to stored text; one without the mark of a secret leaves no line.
        """
        if not self._guard.reveals:
            return
        for number in (number for number, text in shown.items() if _MARK in (text or "")):
            key = f"secrets {self._guard.principal.subject} {number}"
            target = f"job:{number}"
            await audit.record_limited(self._open(), self._guard, "job.read_secrets", target, keys={key: 1})

    async def made(self, source: SqlExecutor, number: int) -> Job:
        """A job that the principal has just submitted: shown even if the principal may not read jobs."""
        found = await source.fetch("jobs_by_id", ids=[number], **TRUSTED.visibility)
        if not found:
            raise not_found(ids.encode(number))
        return rows.job_of(found[0], reveal=self._guard.reveals)

    async def _shown(self, found: Sequence[Record]) -> list[Job]:
        """Jobs from rows with the columns of job_view, with as much of them as this principal may read."""
        guard = self._guard
        jobs = [rows.job_of(row, reveal=guard.reveals) for row in found]
        if not guard.reads_in_part:
            return [guard.shown(job) for job in jobs]
        readable = await self._open().fetch("jobs_by_id", ids=[job.id for job in jobs], **guard.for_reading.visibility)
        seen = {row["id"] for row in readable} if guard.principal.scopes(Permission.READ) else set()
        return [job if job.id in seen else job.without_content() for job in jobs]

    async def kinds_within(self, kinds: Iterable[str]) -> list[str]:
        """The kinds among these whose jobs can be within reach, by the lane that takes them now."""
        names = list(kinds)
        if self._guard.granted is None:
            return names
        found = await self._open().fetch("kinds_within", kinds=names, granted=self._guard.granted)
        within = {row["kind"] for row in found}
        return [name for name in names if name in within]

    async def checked(self, job_id: int | str) -> int:
        """The number of a visible job, checked before an order; its tenant and submitter never change."""
        number = ids.parse(job_id)
        if not self._guard.is_unlimited:
            await self.one(job_id)
        return number

    async def among(self, numbers: Sequence[int]) -> list[int]:
        """The visible jobs among these."""
        return list(numbers) if self._guard.is_unlimited else [job.id for job in await self.many(numbers)]


def not_found(job_id: int | str) -> JobNotFound:
    """The error for a job that does not exist or is not visible."""
    return JobNotFound(f"There is no job {job_id}. Finished jobs are removed after their retention, 7 days by default.")
