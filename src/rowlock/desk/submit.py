"""Submit: enqueue by the name of a kind, as a principal: its tenant, its name, keys of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from typing_extensions import TypedDict

from rowlock.desk import audit
from rowlock.desk.visible_jobs import VisibleJobs, not_found
from rowlock.errors import ConfigurationError, InvalidArguments, JobNotFound, UniqueConflict
from rowlock.model import ids, redact, stored_json
from rowlock.model.access import Permission
from rowlock.model.approval import Approval
from rowlock.model.options import Options
from rowlock.model.stored_args import VERSION
from rowlock.store.executor import SqlSession
from rowlock.store.own_transaction import OwnTransaction
from rowlock.store.rows.jobs import job_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from rowlock.desk.guard import Guard
    from rowlock.model.job import Job
    from rowlock.model.kind import Gate, OnConflict, Scope
    from rowlock.model.options import Span
    from rowlock.model.stored_args import Encoded
    from rowlock.store.database import Connection, Database, Record

_KEYS: Final = ("unique_key", "idempotency_key")


class SubmitOptions(TypedDict, total=False):
    """The options of submit(): those of task.options(), except functions of the arguments, rates and weights."""

    priority: int | None
    run_at: datetime | None
    run_in: Span | None
    expires_in: Span | None
    max_age: Span | None
    max_attempts: int | None
    unique_key: str | None
    unique_scope: Scope
    on_conflict: OnConflict
    max_wait: Span | None
    idempotency_key: str | None
    keep_key: Span
    gate: Gate | str | None
    tenant: str | None
    submitted_by: str | None
    refs: Mapping[str, object] | None
    tags: Sequence[str] | None
    meta: Mapping[str, object] | None
    approval: bool | Approval


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that was submitted. what: created, kept (its key was taken) or replaced."""

    job: Job
    what: str


class Submit(Protocol):
    """How the application enqueues by the name of a kind."""

    @property
    def kinds(self) -> Collection[str]:
        """The names of the kinds whose code is here."""

    async def __call__(
        self,
        kind: str,
        args: Mapping[str, object] | Sequence[object],
        options: Options,
        connection: object | None,
        /,
    ) -> tuple[int, str]:
        """Enqueue; returns the job's id, and created, kept or replaced. connection: a caller's or an OwnTransaction."""

    @property
    def runs_at_once(self) -> bool:
        """Whether a test runs jobs on the spot: a job that was just committed may have ended."""

    async def encoded(self, kind: str, args: Mapping[str, object] | Sequence[object], /) -> Encoded:
        """The arguments as a job of the kind stores them, checked like those of a submission."""


@dataclass(frozen=True, slots=True)
class SubmitSteps:
    """Statements of the caller in the transaction of a submission; an error of theirs undoes it."""

    before: Callable[[SqlSession], Awaitable[None]]
    after: Callable[[SqlSession, Submitted], Awaitable[None]]


class GuardedSubmit:
    """Submits as the principal of a guard."""

    def __init__(
        self, database: Callable[[], Database], submit: Submit | None, guard: Guard, visible_jobs: VisibleJobs
    ) -> None:
        self._open, self._submit, self._guard, self._visible_jobs = database, submit, guard, visible_jobs

    async def submit(
        self,
        kind: str,
        args: Mapping[str, object] | Sequence[object],
        options: SubmitOptions,
        connection: Connection[Record] | None = None,
        *,
        steps: SubmitSteps | None = None,
    ) -> Submitted:
        """Enqueue a job, and read it. connection: a caller's, whose transaction it joins.

        Otherwise job, line of the audit and the caller's steps are written in one transaction of Rowlock's own.
        """
        if self._submit is None:
            message = "This desk was made without an application and cannot submit. Use app.desk(principal)."
            raise ConfigurationError(message)
        if not await VisibleJobs(self._open, self._reach).kinds_within([kind]):
            raise self._reach.refusal(f"the kind {kind!r}")
        allowed = self.options(options)
        try:
            if connection is None:
                submitted = await self._in_own_transaction(self._submit, kind, args or {}, allowed, steps)
            else:
                made = await self._submit(kind, args or {}, allowed, connection)
                submitted = await self._recorded(SqlSession(self._open().statements, connection), *made)
        except UniqueConflict as conflict:
            raise await self._redacted(conflict) from None
        if submitted.what == "kept":
            return replace(submitted, job=await self._as_seen(submitted.job))
        return submitted

    async def _in_own_transaction(
        self,
        submit: Submit,
        kind: str,
        args: Mapping[str, object] | Sequence[object],
        options: Options,
        steps: SubmitSteps | None,
    ) -> Submitted:
        made: list[Submitted] = []

        async def after(session: SqlSession, number: int, what: str) -> None:
            made[:] = [await self._recorded(session, number, what)]
            if steps is not None:
                await steps.after(session, made[0])

        own = OwnTransaction(after) if steps is None else OwnTransaction(after, steps.before)
        await submit(kind, args, options, own)
        (submitted,) = made
        if submit.runs_at_once and submitted.what != "kept":
            return replace(submitted, job=await self._visible_jobs.made(self._open(), submitted.job.id))
        return submitted

    @property
    def _reach(self) -> Guard:
        """The guard with the scope of jobs:submit, over all tenants: a submitted job must be within it."""
        return replace(self._guard, platform_wide=True, within=(Permission.SUBMIT,))

    async def _recorded(self, inside: SqlSession, number: int, what: str) -> Submitted:
        """Read the job and write the line of the audit, in the transaction of the submission."""
        job = await self._visible_jobs.made(inside, number)
        if self._reach.granted is not None and not await inside.fetch(
            "jobs_by_id", ids=[number], **self._reach.visibility
        ):
            # An alias of another kind, or the key of a job of another kind: the transaction is rolled back.
            raise self._reach.refusal(f"the kind {job.kind!r}")
        if what != "kept":
            after = {"kind": job.kind, "state": job.state, "tenant": job.tenant, "submitted_by": job.submitted_by}
            await audit.record(inside, self._guard, "job.submit", f"job:{number}", after=after)
        return Submitted(job, what)

    async def clone(self, job_id: int | str) -> Submitted:
        """Submit a job with the kind, arguments and labels of another, and the approval that was demanded of it."""
        self._guard.demand(Permission.READ, scoped=True)
        found = await self._open().fetch("jobs_by_id", ids=[ids.parse(job_id)], **self._guard.visibility)
        if not found:
            raise not_found(job_id)
        job, args = job_of(found[0]), _arguments(found[0]["args"])
        if redact.count_secrets(args):
            self._guard.demand(Permission.READ_ARGS)
        (needed,) = await self._open().fetch("approval_of", id=job.id)
        options: SubmitOptions = {
            "priority": job.priority,
            "max_attempts": job.max_attempts,
            "tags": job.tags,
            "refs": job.refs,
            "meta": job.meta,
            "approval": Approval.of(needed["approval"]) if needed["approval"] else False,
        }
        if self._guard.principal.kind == "system":
            options |= {"tenant": job.tenant, "submitted_by": job.submitted_by}
        values = {name: redact.decoded(value) for name, value in args.items() if name != VERSION}
        return await self.submit(job.kind, values, options)

    async def _as_seen(self, job: Job) -> Job:
        """A job that another submission made: in full only for a principal that may read it anyway."""
        who = self._guard.principal
        if who.kind == "system" or job.submitted_by == who.subject:
            return job
        if who.scopes(Permission.READ) and await self._visible_jobs.many([job.id]):
            return job
        return bare(job)

    def options(self, options: SubmitOptions) -> Options:
        """The options as this principal may give them: their tenant, their name, keys of their own."""
        who, guard = self._guard.principal, self._guard
        values: dict[str, Any] = dict(options)
        values["tenant"] = values.get("tenant") or who.tenant
        values["submitted_by"] = values.get("submitted_by") or (None if who.kind == "system" else who.subject)
        if values["tenant"] != who.tenant or values["submitted_by"] not in (None, who.subject):
            guard.demand(Permission.SUBMIT_AS)
        if values.get("gate") is not None:
            # A gate is shared by all tenants: one that fills its places keeps the others waiting.
            guard.demand(Permission.EDIT)
        if not guard.sees_all:
            values |= {name: self._own(values[name]) for name in _KEYS if values.get(name) is not None}
        return Options(**values)

    def _own(self, key: str) -> str:
        """A key in the namespace of the tenant, or of the subject: it cannot meet another's job."""
        who = self._guard.principal
        return f"{quote(who.tenant, safe='')}/{key}" if who.tenant else f"@{quote(who.subject, safe='')}/{key}"

    async def _redacted(self, conflict: UniqueConflict) -> UniqueConflict:
        """The conflict, without the id of a job that the principal may not see."""
        try:
            await self._visible_jobs.one(conflict.job_id)
        except JobNotFound:
            return UniqueConflict("A live job holds this unique_key. Nothing was enqueued.", 0)
        return conflict


def _arguments(text: str) -> dict[str, Any]:
    try:
        return stored_json.read_object(text)
    except stored_json.UnreadableJson as error:
        message = f"This job cannot be cloned: its arguments cannot be read: {error}. Submit a new one."
        raise InvalidArguments(message) from None


def bare(job: Job) -> Job:
    """The job without what people put into it or got out of it, for a principal that may not read it."""
    return replace(
        job, args={}, result=None, errors=None, progress=None, meta={}, refs={}, tags=(), submitted_by=None, worker=None
    )
