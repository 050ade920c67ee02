"""EmbeddedJobs: what the holder of an embed token may see and order; other jobs do not exist for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.desk.search import JobSearch
from rowlock.desk.visible_jobs import VisibleJobs, not_found
from rowlock.errors import Forbidden
from rowlock.model import ids
from rowlock.model.access import Permission, Principal
from rowlock.model.page import Listing
from rowlock.model.search import Query, Term, Text
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock.desk.access import Desk
    from rowlock.desk.follow.stream import JobStream
    from rowlock.model.embed_token import EmbedGrant
    from rowlock.model.explanation import QueuePosition
    from rowlock.model.job import Job
    from rowlock.model.progress import Item, LogLine
    from rowlock.store.database import Database

_LARGEST_ID: Final = 2**63 - 1


def principal_of(grant: EmbedGrant) -> Principal:
    """The principal that stands for a token: in limits and the audit, and for the desk behind EmbeddedJobs.

    With a token of one job it reads every job of the desk, so EmbeddedJobs never asks for another one.
    """
    held = {Permission.READ, *((Permission.CANCEL,) if grant.may_cancel else ())}
    if grant.job is None:
        return Principal(str(grant.subject), grant.tenant, frozenset(held))
    name = grant.subject or f"embed:{ids.encode(grant.job)}"
    return Principal(name, grant.tenant, frozenset({*held, Permission.READ_ALL}))


class EmbeddedJobs:
    """One job, or the jobs that one person submitted."""

    def __init__(self, database: Callable[[], Database], desk: Desk, grant: EmbedGrant) -> None:
        """desk: that of principal_of(grant)."""
        self._open, self._desk, self.grant = database, desk, grant

    async def get(self, job_id: int | str) -> Job:
        """The job as it is now; JobNotFound also if the token is for another one."""
        number = ids.parse(job_id)
        if self.grant.job not in (None, number):
            raise not_found(job_id)
        job = await self._desk.jobs.get(number)
        # A person with a tenant would see the jobs of the whole tenant elsewhere.
        if self.grant.job is None and not self._is_own(job):
            raise not_found(job_id)
        return job

    async def get_with_position(self, job_id: int | str) -> tuple[Job, QueuePosition | None]:
        """The job, and how many others its lane starts before it while it waits for a worker."""
        job = await self.get(job_id)
        return job, await self._desk.jobs.position(job.id) if job.state is State.QUEUED else None

    def _is_own(self, job: Job) -> bool:
        return job.submitted_by == self.grant.subject and job.tenant == self.grant.tenant

    async def list(self, *, before: int | None = None, limit: int = 20) -> Listing:
        """The person's jobs, newest first; of a token for one job, that one. before: the last id of the page before."""
        if self.grant.job is not None:
            return Listing([await self.get(self.grant.job)])
        guard = self._desk.guard
        visible = VisibleJobs(self._open, guard)
        search = JobSearch(self._open, guard, visible)
        plan = await search.plan(Query((Term("by", (Text(str(self.grant.subject)),)),)))
        found = await search.find(plan, limit, newest=True, below=before or _LARGEST_ID)
        jobs = [job for job in (await visible.many(found.ids))[::-1] if self._is_own(job)]
        return Listing(jobs, found.reached)

    async def follow(self, job_id: int | str, *, after: str | None = None) -> JobStream:
        """The events of the job; the caller leaves out those that the token does not show."""
        return await self._desk.streams.follow((await self.get(job_id)).id, after=after)

    async def items(self, job_id: int | str, *, after: str | None = None, limit: int = 100) -> Sequence[Item]:
        """The items of the newest attempt; Forbidden if the token does not show them."""
        self._demand("items")
        return await self._desk.jobs.items((await self.get(job_id)).id, after=after, limit=limit)

    async def logs(self, job_id: int | str, *, after: int = 0, limit: int = 1000) -> Sequence[LogLine]:
        """Log lines of all attempts; Forbidden if the token does not show them."""
        self._demand("logs")
        return await self._desk.jobs.logs((await self.get(job_id)).id, after=after, limit=limit)

    async def cancel(self, job_id: int | str) -> Job:
        """End a waiting job, ask a running one to stop; Forbidden if the token does not allow it."""
        number = (await self.get(job_id)).id
        if not self.grant.may_cancel:
            message = "This embed token does not allow to cancel. Make it with cancel=True."
            raise Forbidden(message, Permission.CANCEL)
        return await self._desk.jobs.cancel(number)

    def _demand(self, detail: str) -> None:
        if detail not in self.grant.show:
            message = f"This embed token does not show {detail}. Make it with show=[{detail!r}]."
            raise Forbidden(message, Permission.READ)
