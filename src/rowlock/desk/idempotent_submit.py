"""Idempotent submit: a request with an Idempotency-Key makes one job, however often it is repeated.

The key, a digest of the request's body and the job are written in one transaction. Keys belong to a principal, and are
kept for 24 hours.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.desk.submit import GuardedSubmit, SubmitSteps, Submitted, bare
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.errors import Forbidden, JobNotFound
from rowlock.model.access import Permission

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rowlock.desk.access import Desk
    from rowlock.desk.submit import Submit, SubmitOptions
    from rowlock.model.job import Job
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlExecutor, SqlSession

_KEEP_FOR: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class RequestKey:
    """An Idempotency-Key as it is stored. scope: the operation it belongs to. digest: of the request's body."""

    scope: str
    key: str
    digest: str

    @classmethod
    def of(cls, scope: str, key: str, body: str, desk: Desk) -> RequestKey:
        """The key among those of the desk's principal: the same key of another principal is another key."""
        who = desk.principal
        return cls(scope, _hash(json.dumps([who.tenant, who.subject, key])), _hash(body))


@dataclass(frozen=True, slots=True)
class FirstSubmit:
    """This request submitted the job."""

    submitted: Submitted
    status: int
    key: RequestKey


@dataclass(frozen=True, slots=True)
class RepeatedSubmit:
    """An earlier request with the same key and body submitted the job. status: of the answer it got."""

    submitted: Submitted
    status: int


@dataclass(frozen=True, slots=True)
class SubmitInFlight:
    """Another request with this key is being answered."""


@dataclass(frozen=True, slots=True)
class KeyReused:
    """The key was used for another body."""


@dataclass(frozen=True, slots=True)
class JobPruned:
    """The job of this key was removed by its retention."""


SubmitOutcome: TypeAlias = FirstSubmit | RepeatedSubmit | SubmitInFlight | KeyReused | JobPruned


class _NotFirst(Exception):
    """Another request has the key; used: the rows that it left, None: it is being answered."""

    def __init__(self, used: Mapping[str, Record] | None = None) -> None:
        super().__init__()
        self.used = used


class IdempotentSubmit:
    """Submits jobs with an Idempotency-Key, for any desk of one application."""

    def __init__(
        self, database: Callable[[], Database], get_job: Callable[[int], Awaitable[Job]], submit: Submit
    ) -> None:
        """get_job: reads a job without a check: a principal may repeat its request, whatever it may read."""
        self._open, self._get_job, self._submit = database, get_job, submit

    async def submit(
        self,
        desk: Desk,
        key: RequestKey,
        kind: str,
        args: Mapping[str, object] | Sequence[object],
        options: SubmitOptions,
        *,
        status_of: Callable[[Submitted], int],
    ) -> SubmitOutcome:
        """Submit the job, or find the one that this key has made. status_of: the status to answer repetitions with."""
        desk.guard.demand(Permission.SUBMIT, unsafe=True, scoped=True)
        # A repeated request is answered whatever has become of the kind, its code and the principal's rights to it.
        if used := await _find(self._open(), key):
            return await self._answered(desk, key, used)
        made: list[FirstSubmit] = []

        async def before(session: SqlSession) -> None:
            if not (await session.fetch("lock_request", key=key.key))[0]["mine"]:
                raise _NotFirst
            if used := await _find(session, key):
                raise _NotFirst(used)

        async def after(session: SqlSession, submitted: Submitted) -> None:
            made[:] = [FirstSubmit(submitted, status_of(submitted), key)]
            await _keep(session, made[0])

        visible_jobs = VisibleJobs(self._open, desk.guard)
        guarded = GuardedSubmit(self._open, self._submit, desk.guard, visible_jobs)
        try:
            submitted = await guarded.submit(kind, args, options, steps=SubmitSteps(before, after))
        except _NotFirst as other:
            return SubmitInFlight() if other.used is None else await self._answered(desk, key, other.used)
        return replace(made[0], submitted=submitted)

    async def _answered(self, desk: Desk, key: RequestKey, used: Mapping[str, Record]) -> SubmitOutcome:
        """What a request gets whose key was used before."""
        if len(used) == 1:
            return KeyReused()
        row = used[key.scope]
        return await self._repeated(desk, row["job_id"], row["what"] or "created", row["status"])

    async def _repeated(self, desk: Desk, job_id: int, what: str, status: int | None) -> SubmitOutcome:
        try:
            job = await self._get_job(job_id)
        except JobNotFound:
            return JobPruned()
        if what == "kept" and job.submitted_by != desk.principal.subject:
            # Another submission made it: this principal need not be one that may read it.
            try:
                job = await desk.jobs.get(job_id)
            except (Forbidden, JobNotFound):
                job = bare(job)
        return RepeatedSubmit(Submitted(job, what), status or 202)

    async def change_status(self, first: FirstSubmit, status: int) -> None:
        """Answer repetitions of the request with this status from now on."""
        await self._open().fetch(
            "answer_request",
            job_id=first.submitted.job.id,
            status=status,
            scope=first.key.scope,
            key=first.key.key,
            digest=first.key.digest,
        )


async def _find(source: SqlExecutor, key: RequestKey) -> dict[str, Record]:
    found = await source.fetch("find_request", scope=key.scope, key=key.key, digest=key.digest)
    return {row["kind"]: row for row in found}


async def _keep(session: SqlSession, first: FirstSubmit) -> None:
    key = first.key
    await session.fetch(
        "keep_request",
        keep_for=_KEEP_FOR,
        job_id=first.submitted.job.id,
        status=first.status,
        what=first.submitted.what,
        scope=key.scope,
        key=key.key,
        digest=key.digest,
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
