"""Moves jobs that wait in Procrastinate's table to Rowlock, so that each is in one of the two, and in one only.

In one database a job is cancelled there and enqueued here by one transaction. From another database it is first
cancelled with a mark, then enqueued under an idempotency key, then the mark is taken away: a move that breaks off is
completed by the next one.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rowlock.contrib.moving.procrastinate import gate_of, kind_name, unique_options
from rowlock.errors import DatabaseError, RowlockError, UnknownKind
from rowlock.model.options import Options
from rowlock.store.database import Database
from rowlock.store.executor import SqlSession
from rowlock.store.procrastinate import ProcrastinateTable, locate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from rowlock.app import Rowlock
    from rowlock.store.procrastinate import ProcrastinateJob, TaskBacklog
    from rowlock.tasks import BaseTask

_BATCH: Final = 500
_HIGHEST: Final = 100
_META: Final = "procrastinate"
_BUILT_IN: Final = ("builtin:", "procrastinate.builtin_tasks.")
"""Procrastinate's own tasks, such as the removal of old jobs. Rowlock's retention does that here."""


@dataclass(frozen=True, slots=True)
class LeftJob:
    """A job that was not moved, and why."""

    id: int
    task: str
    reason: str


@dataclass(slots=True)
class MoveReport:
    """What a move did. moved: jobs by kind; moved_before: jobs that an earlier move had written."""

    dry_run: bool
    moved: Counter[str] = field(default_factory=Counter)
    moved_before: int = 0
    left: list[LeftJob] = field(default_factory=list)
    running: int = 0
    """Jobs that Procrastinate's workers run; they are left to them."""
    priorities_limited: int = 0
    """Moved jobs whose priority was beyond -100 to 100."""


@dataclass(frozen=True, slots=True)
class _Fitting:
    """A job that Rowlock can take."""

    task: BaseTask[..., Any]
    args: dict[str, Any]
    options: Options
    limited: bool


class ProcrastinateMove:
    """One move."""

    def __init__(
        self,
        app: Rowlock,
        *,
        source_url: str | None = None,
        source_schema: str | None = None,
        dry_run: bool = False,
        leave_unknown: bool = False,
        batch: int = _BATCH,
    ) -> None:
        """source_url: Procrastinate's database, if it is not the application's. leave_unknown: move the other jobs.

        source_schema: of its table; None: the search path finds it.
        """
        self._app, self._schema, self._batch = app, source_schema, batch
        self._apart = source_url is not None
        self._source = app.database() if source_url is None else Database(source_url, schema=app.settings.schema)
        self._leave_unknown = leave_unknown
        self._place = ""
        self.report = MoveReport(dry_run)

    async def run(self) -> MoveReport:
        """Move what waits. UnknownKind, before anything is moved, if the application lacks the kind of a job."""
        try:
            await self._check()
            await self._resume()
            after = 0
            while waiting := await self._waiting(after):
                after = waiting[-1].id
                await self._move(waiting)
        finally:
            if self._apart:
                await self._source.close()
        return self.report

    @contextlib.asynccontextmanager
    async def _table(self) -> AsyncIterator[ProcrastinateTable]:
        """The table, in a transaction."""
        async with self._source.connection() as connection, connection.transaction():
            session = SqlSession(self._source.statements, connection)
            source, self._place = await locate(session, self._schema)
            table = ProcrastinateTable(session, source)
            await table.prepare()
            yield table

    async def _check(self) -> None:
        async with self._table() as table:
            backlog = await table.backlog()
        self.report.running = sum(each.jobs for each in backlog if each.status == "doing")
        waiting = [each for each in backlog if each.status == "todo"]
        unknown = [each for each in waiting if self._kind(each.task_name, each.queue_name) is None]
        if not self._leave_unknown and any(not each.task_name.startswith(_BUILT_IN) for each in unknown):
            raise _unknown([each for each in unknown if not each.task_name.startswith(_BUILT_IN)])

    def _kind(self, task_name: str, queue: str) -> str | None:
        """The kind of a task: that of its queue if there is one; None: the application has no such kind."""
        name = kind_name(task_name)
        known = self._app.handlers
        return f"{name}/{queue}" if f"{name}/{queue}" in known else name if name in known else None

    async def _waiting(self, after: int) -> list[ProcrastinateJob]:
        async with self._table() as table:
            return await table.waiting(after, self._batch)

    async def _resume(self) -> None:
        """Write what an earlier move from another database took and perhaps did not write."""
        async with self._table() as table:
            parked = await table.parked()
            jobs = await table.taken(parked)
        if jobs and not self.report.dry_run:
            await self._write_apart(jobs)

    async def _move(self, waiting: Sequence[ProcrastinateJob]) -> None:
        fitting = {job.id: made for job in waiting if (made := self._fits(job)) is not None}
        if self.report.dry_run:
            for made in fitting.values():
                self._count(made, "created")
            return
        async with self._table() as table:
            taken = await table.take(fitting, parked=self._apart)
            gone = fitting.keys() - {job.id for job in taken}
            self._leave([job for job in waiting if job.id in gone], "a worker of Procrastinate fetched it meanwhile")
            if not self._apart:
                refused = await self._write(taken, table.session.connection)
                await self._give_back(table, refused)
        if self._apart:
            await self._write_apart(taken)

    async def _write_apart(self, taken: Sequence[ProcrastinateJob]) -> None:
        refused = await self._write(taken, None)
        async with self._table() as table:
            await table.settle([job.id for job in taken if job.id not in refused])
            await self._give_back(table, refused)

    async def _write(self, taken: Sequence[ProcrastinateJob], connection: object | None) -> set[int]:
        """Enqueue the jobs; returns those that Rowlock refuses."""
        refused: set[int] = set()
        for job in taken:
            made = self._fits(job)
            if made is None:
                refused.add(job.id)  # an earlier move took it, with other code
                continue
            try:
                enqueued = await made.task.submit(made.args, made.options, connection)
            except DatabaseError:
                raise
            except RowlockError as error:
                refused.add(job.id)
                self._leave([job], str(error))
            else:
                self._count(made, enqueued.what)
        return refused

    async def _give_back(self, table: ProcrastinateTable, refused: set[int]) -> None:
        if refused:
            await table.give_back(list(refused))

    def _count(self, made: _Fitting, what: str) -> None:
        if what == "kept":
            self.report.moved_before += 1
            return
        self.report.moved[made.task.kind] += 1
        self.report.priorities_limited += made.limited

    def _leave(self, jobs: Sequence[ProcrastinateJob], reason: str) -> None:
        self.report.left += [LeftJob(job.id, job.task_name, reason) for job in jobs]

    def _fits(self, job: ProcrastinateJob) -> _Fitting | None:
        """The job as Rowlock would take it; None: it is left, and the report says why."""
        kind = self._kind(job.task_name, job.queue_name)
        if kind is None:
            own = job.task_name.startswith(_BUILT_IN)
            self._leave([job], "a task of Procrastinate itself" if own else f"no kind {kind_name(job.task_name)!r}")
            return None
        task, args = self._app.task(kind), json.loads(job.args)
        try:
            task.encoded(args)
            priority = max(-_HIGHEST, min(_HIGHEST, job.priority))
            return _Fitting(task, args, self._options(task, job, priority), priority != job.priority)
        except RowlockError as error:
            self._leave([job], str(error))
            return None

    def _options(self, task: BaseTask[..., Any], job: ProcrastinateJob, priority: int) -> Options:
        attempts = self._app.handlers[task.kind].kind.retry.attempts
        return Options(
            priority=priority,
            run_at=job.scheduled_at,
            gate=gate_of(job.lock),
            max_attempts=max(1, attempts - job.attempts),
            idempotency_key=f"{_META}/{self._place}/{job.id}/{job.round}",
            meta={_META: {"id": job.id, "task": job.task_name, "queue": job.queue_name}},
            **unique_options(job.queueing_lock),
        )


def _unknown(backlog: Sequence[TaskBacklog]) -> UnknownKind:
    jobs: Counter[str] = Counter()
    for each in backlog:
        jobs[each.task_name] += each.jobs
    shown = ", ".join(f"{name} ({count})" for name, count in sorted(jobs.items()))
    return UnknownKind(
        f"Jobs wait in Procrastinate whose tasks the application does not declare: {shown}. Nothing was moved. Declare "
        "them, as a kind of that name or as an alias, or leave them to Procrastinate with --leave-unknown."
    )
