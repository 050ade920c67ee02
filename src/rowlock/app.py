"""Rowlock: the one place where the rooms are put together."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, overload

import rowlock
from rowlock.bridge import Bridge, in_thread
from rowlock.desk.access import Backing, Desk
from rowlock.desk.app_desk import Own
from rowlock.desk.guard import Guard
from rowlock.errors import ConfigurationError, WrongState
from rowlock.extensions import Extensions
from rowlock.flow.enqueue.producer import Producer
from rowlock.flow.enqueue.wake import Waker
from rowlock.flow.kinds.codec import Codec
from rowlock.flow.kinds.declare import kind_of
from rowlock.flow.kinds.handler import Handler, find
from rowlock.flow.kinds.import_origin import NO_ORIGIN, importable, origin_of
from rowlock.flow.locks.context_managers import Locking
from rowlock.flow.progress.context import Context
from rowlock.flow.progress.sync_context import SyncContext
from rowlock.flow.run.inject import planned
from rowlock.flow.run.middleware import inside
from rowlock.flow.worker.registration import WorkerOptions
from rowlock.flow.worker.worker import Worker
from rowlock.flow.worker.worker_thread import WorkerThread
from rowlock.model import ids
from rowlock.model.kind import checked_name
from rowlock.model.lane import first_lanes
from rowlock.model.state import State
from rowlock.settings import Settings
from rowlock.store.caller_transaction import url_of
from rowlock.store.database import Database
from rowlock.store.schema import migrate
from rowlock.tasks import Declared, Submitter, SyncTask, Task
from rowlock.upkeep.caretaker import Caretaker
from rowlock.upkeep.cron import declaring

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from rowlock.decorator import Decorator, Nobody
    from rowlock.flow.enqueue.producer import Watcher
    from rowlock.flow.kinds.import_origin import Origin
    from rowlock.flow.worker.successor import Successor
    from rowlock.model.access import Principal
    from rowlock.model.approval import Approval
    from rowlock.model.hook import HookEvent
    from rowlock.model.job import Job
    from rowlock.model.kind import Executor, Gate, OnWorkerLost, UnknownArgs
    from rowlock.model.options import Span
    from rowlock.model.rate import Rated
    from rowlock.model.retry import Retry
    from rowlock.model.size import Size
    from rowlock.store.embedded import Embedded

logger = logging.getLogger("rowlock")
P = ParamSpec("P")
R = TypeVar("R")


class Rowlock(Extensions, Locking, Own):
    """Jobs on one PostgreSQL database. Without a URL (ROWLOCK_DATABASE_URL), an embedded PostgreSQL is started."""

    def __init__(
        self,
        database_url: str | None = None,
        *,
        engine: object | None = None,
        schema: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        """engine: a SQLAlchemy engine whose URL is used; Rowlock makes connections of its own."""
        if engine is not None:
            if database_url is not None:
                message = "database_url and engine were both given. Pass one of them."
                raise ConfigurationError(message)
            database_url = url_of(engine)
        given = Settings.from_env(os.environ) if settings is None else settings
        self.settings = replace(given, database_url=database_url or given.database_url, schema=schema or given.schema)
        Extensions.__init__(self)
        self.tasks: dict[str, Declared[..., object]] = {}
        self._bridge, self._lock = Bridge(), threading.Lock()
        self._database: Database | None = None
        self._embedded: Embedded | None = None
        self._producer = Producer(self.database, self._bridge, self._enqueue_middleware, self._events)
        self.submit = Submitter(self.task, self._producer, self.settings.args_limit, self.handlers)
        Own.__init__(self, Backing(self.database, self._producer.wake, self.submit), self._bridge)

    # --- the desk ----------------------------------------------------------------------------------------------------

    def desk(
        self,
        principal: Principal,
        *,
        read_only: bool = False,
        request_id: str | None = None,
        address: str | None = None,
    ) -> Desk:
        """The desk for one principal: .jobs, .lanes, … check their permissions; app.jobs etc. act as the library.

        read_only: refuses every change. request_id and address go to the audit.
        """
        return Desk(self._backing, Guard(principal, read_only, request_id, address))

    # --- declaring jobs ----------------------------------------------------------------------------------------------

    @overload
    def job(self, function: Callable[Concatenate[Nobody, ...], Any], /) -> SyncTask[..., Any]: ...
    @overload
    def job(self, function: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Task[P, R]: ...  # type: ignore[overload-overlap]  # the exact ones come first
    @overload
    def job(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...  # type: ignore[overload-overlap]  # as above
    @overload
    def job(self, function: Callable[Concatenate[SyncContext, P], R], /) -> SyncTask[P, R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def job(
        self,
        kind: str | None = None,
        /,
        *,
        lane: str | None = None,
        priority: int = 0,
        retry: Retry | None = None,
        timeout: Span | None = None,
        executor: Executor | None = None,
        memory: Size | None = None,
        expires_in: Span | None = None,
        max_age: Span | None = None,
        on_worker_lost: OnWorkerLost = "retry",
        approval: bool | Approval = False,
        gate: Gate | Callable[..., Gate | str] | str | None = None,
        refs: Callable[..., Mapping[str, object]] | None = None,
        retention: Span | Mapping[str, Span] | None = None,
        version: int = 1,
        unknown_args: UnknownArgs = "refuse",
        aliases: Sequence[str] = (),
        logs: str | int | None = None,
        rate: Rated | Callable[..., Rated] | None = None,
        weight: int = 1,
        fair: bool = False,
    ) -> Decorator: ...
    def job(self, kind: str | Callable[..., object] | None = None, /, **says: object) -> object:
        """Declare a kind of job: @app.job, @app.job("name") or @app.job(lane=…, retry=…).

        The kind's name is the function's unless given: it is stored with every job, so keep it when renaming functions.
        """
        if callable(kind):
            return self._declare(kind, None, says)
        return functools.partial(self._declare, name=kind, says=says)

    def _declare(
        self, function: Callable[..., object], name: str | None, says: dict[str, object]
    ) -> Declared[..., object]:
        is_async = inspect.iscoroutinefunction(function)
        definition = kind_of(checked_name(name or function.__name__), says, is_async=is_async)
        limits = {"limit": self.settings.args_limit, "result_limit": self.settings.result_limit}
        context_type = Context if is_async else SyncContext
        codec = Codec.of(function, context_types=(context_type,), kind=definition, **limits)
        given = frozenset({"Context", "SyncContext", "Job"})
        plan = planned(codec.signature.injected, definition.name, is_async=is_async, given=given)
        called = inside(function) if plan and not is_async else function
        handler = Handler(definition, codec, called)
        if definition.executor == "process" and not importable(handler):
            message = (
                f"{definition.name}: executor='process' needs a function at the top level of a module, which a child "
                f"process can import; {function.__qualname__} is not one."
            )
            raise ConfigurationError(message)
        handler = self._place(handler, plan)
        add_hook = functools.partial(self._hook, definition.name)
        make = Task if is_async else SyncTask
        task: Declared[..., object] = make(handler, self._producer, self, add_hook)
        self.tasks[definition.name] = task
        return task

    def _hook(
        self, kind: str, event: HookEvent, function: Callable[..., object], retry: Retry | None, timeout: Span | None
    ) -> None:
        self._add_hook(kind, event, function, retry, timeout, load=self.jobs.get)

    def task(self, kind: str) -> Declared[..., object]:
        """The task of a kind; UnknownKind says which ones there are."""
        name = find({name: known for name, known in self.handlers.items() if known.name in self.tasks}, kind).name
        if name != kind:
            logger.warning("the kind %s is called %s now, and its jobs are stored under that name", kind, name)
        return self.tasks[name]

    # --- the database ------------------------------------------------------------------------------------------------

    def database(self) -> Database:
        """The database, opened at first use; the embedded one is started and gets its schema."""
        with self._lock:
            if self._database is None:
                url = self.settings.database_url or self._start_embedded()
                self._database = Database(
                    url, schema=self.settings.schema, direct_url=self.settings.direct_url, pooled=self.settings.pooled
                )
            return self._database

    def _start_embedded(self) -> str:
        from rowlock.store import embedded  # noqa: PLC0415 - for those without a server of their own

        self._embedded = embedded.start(Path(self.settings.data_dir))
        url = self._embedded.url
        logger.warning("no ROWLOCK_DATABASE_URL: using the embedded PostgreSQL in %s", self._embedded.directory)
        # Blocking on purpose: nothing can be done before the tables are there, and only this development mode waits.
        in_thread(lambda: asyncio.run(migrate.upgrade(url, self.settings.schema)))
        return url

    async def upgrade(self) -> list[int]:
        """Bring the schema to the version this code needs; returns the steps applied."""
        return await migrate.upgrade(self.database().url, self.settings.schema)

    def repoint(self, settings: Settings) -> Callable[[], None]:
        """Use other settings, and the database they name, until what is returned is called: for tests.

        What was open before stays open and is used again afterwards.
        """
        before = self._point_at(settings, None, None)

        def back() -> None:
            self._point_at(*before)

        return back

    def _point_at(
        self, settings: Settings, database: Database | None, server: Embedded | None
    ) -> tuple[Settings, Database | None, Embedded | None]:
        with self._lock:
            before = self.settings, self._database, self._embedded
            self.settings, self._database, self._embedded = settings, database, server
        self._producer.forget()
        return before

    def watch(self, watcher: Watcher | None) -> Watcher | None:
        """Have a watcher told of every job right after it was enqueued; returns the one before. For tests."""
        before, self._producer.watcher = self._producer.watcher, watcher
        return before

    async def close(self) -> None:
        """Close this loop's connections and leave the embedded server, which stops with its last user."""
        await self._leave_loop()
        if self._bridge.started:
            await asyncio.to_thread(self._bridge.run, self._leave_loop())
            self._bridge.close()
        if self._embedded is not None:
            self._embedded.close()
            self._embedded = self._database = None

    async def _leave_loop(self) -> None:
        if self._database is not None:
            await asyncio.gather(self._producer.flush(), self._backing.leave())
            await self._leave_locks()
            await self._database.close()

    async def __aenter__(self) -> Self:
        """Open the database."""
        self.database()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    # --- running jobs ------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def worker(
        self, lanes: Sequence[str] | Mapping[str, int] | None = None, *, name: str | None = None
    ) -> AsyncIterator[Worker | None]:
        """A worker on this event loop. lanes: names, or name to slots. None when ROWLOCK_WORKER is off."""
        if not self.settings.worker:
            logger.info("ROWLOCK_WORKER is off: no worker in this process")
            yield None
            return
        worker = self.make_worker(lanes, name=name)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """For FastAPI(lifespan=app.lifespan): a worker inside the web process; ROWLOCK_WORKER=off disables it."""
        async with self.worker():
            yield
        await self.close()

    def start_worker(
        self, lanes: Sequence[str] | Mapping[str, int] | None = None, *, name: str | None = None
    ) -> WorkerThread:
        """A worker in a thread of this process, for blocking applications; stop it with .stop()."""
        return WorkerThread(lambda: self.make_worker(lanes, name=name), enabled=self.settings.worker)

    def make_worker(
        self,
        lanes: Sequence[str] | Mapping[str, int] | None = None,
        *,
        name: str | None = None,
        claims: bool = True,
        handlers: Mapping[str, Handler] | None = None,
        successor: Successor | None = None,
        supervisor: int | None = None,
    ) -> Worker:
        """A worker that is not started yet; needs a running event loop. claims=False: runs only what run_by_id names.

        handlers: a test's, instead of the declared ones. Then no child is started and, without claims, nothing beats.
        """
        slots = dict(lanes) if isinstance(lanes, Mapping) else None
        chosen = None if lanes is None else list(lanes)
        tested = handlers is not None
        if not tested:
            self._check_executors()
        origin = None if tested else self._origin()
        options = WorkerOptions(
            name,
            chosen,
            slots,
            rowlock.__version__,
            claims,
            origin,
            alone=tested and not claims,
            supervisor=supervisor,
        )
        database = self.database()
        upkeep = Caretaker(database, self.settings, Waker(database), self._events, self.submit)
        return Worker(
            database,
            self.handlers if handlers is None else handlers,
            replace(self.settings, lanes=first_lanes(self.settings.lanes, self.declared_lanes())),
            options,
            upkeep=upkeep if claims else None,
            scope=declaring(self.declared_schedules, self.worker_scope) if claims else self.worker_scope,
            events=self._events,
            successor=successor,
        )

    def _origin(self) -> Origin | None:
        return origin_of(self, self.handlers.values())

    def _check_executors(self) -> None:
        """Say before the first job what an executor cannot do for a kind."""
        kinds = [handler.kind for handler in self.handlers.values()]
        asking = [kind.name for kind in kinds if kind.executor == "process"]
        if asking and self._origin() is None:
            message = f"{asking[0]} has executor='process'. {NO_ORIGIN}"
            raise ConfigurationError(message)
        for kind in kinds:
            if kind.executor == "thread" and kind.timeout is not None:
                logger.warning(
                    "%s: a timeout cannot stop a thread. The handler is told at its next ctx call; if it goes on, its "
                    "job ends without it and its slot stays taken. With executor='process' it would be killed.",
                    kind.name,
                )

    async def run_job(self, job_id: int | str) -> Job:
        """Claim this job here and now and run it to its end: the boundary a carrier or a test calls."""
        number = ids.parse(job_id)
        job = await self.jobs.get(number)
        find(self.handlers, job.kind)
        worker = self.make_worker(claims=False)
        await worker.start()
        try:
            ran = await worker.run_by_id(number)
        finally:
            await worker.stop()
        after = await self.jobs.get(number)
        if not ran:
            why = "it is not due yet" if after.state is State.QUEUED else "only a queued job can be run"
            message = f"Job {after.public_id} was not run: it is {after.state}; {why}."
            raise WrongState(message)
        return after
