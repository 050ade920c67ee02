"""The application: the only place where the rooms are put together.

Rowlock holds its parts (extensions, producer, locks, desk) as plain attributes and passes its public calls on to them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import os
import threading
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar, overload

import rowlock
from rowlock.bridge import Bridge, in_thread
from rowlock.delivery.reception import Reception
from rowlock.delivery.routes import Routes
from rowlock.desk.access import Desk, DeskResources
from rowlock.desk.app_desk import AppDesk
from rowlock.desk.guard import Guard
from rowlock.errors import ConfigurationError, WrongState
from rowlock.extensions import Extensions, L, M, N
from rowlock.flow.enqueue.producer import Producer
from rowlock.flow.kinds.codec import Codec
from rowlock.flow.kinds.declare import kind_of
from rowlock.flow.kinds.handler import Handler, find_handler
from rowlock.flow.kinds.import_origin import NO_ORIGIN, importable, origin_of
from rowlock.flow.locks.context_managers import AppLocks
from rowlock.flow.progress.context import Context
from rowlock.flow.progress.sync_context import SyncContext
from rowlock.flow.run.inject import plan_injection
from rowlock.flow.run.middleware import fills_in_thread
from rowlock.model import ids, webhook
from rowlock.model.kind import checked_name
from rowlock.model.lane import first_lanes
from rowlock.model.spelling.keyword_options import suggests_options
from rowlock.model.spelling.other_queues import DECORATED_WITH_TASK, OF_AN_APPLICATION, unknown_member
from rowlock.model.state import State
from rowlock.settings import Settings
from rowlock.store.caller_transaction import url_of
from rowlock.store.database import Database
from rowlock.store.driver import password as passwords
from rowlock.tasks import BaseTask, KindSubmitter, SyncTask, Task
from rowlock.telemetry import Event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from rowlock.decorator import JobDecorator, NoContext
    from rowlock.delivery.backend import Delivery
    from rowlock.delivery.outbox import Outbox
    from rowlock.delivery.routes import Carrier
    from rowlock.desk.approvals import Approvals
    from rowlock.desk.audit import Audit
    from rowlock.desk.failures import FailuresByCause
    from rowlock.desk.follow.stream import Streams
    from rowlock.desk.identity import Identity
    from rowlock.desk.jobs import Jobs
    from rowlock.desk.lanes import Lanes
    from rowlock.desk.limits import Limits
    from rowlock.desk.locks import Locks
    from rowlock.desk.operations import Operations
    from rowlock.desk.retention import Retention
    from rowlock.desk.roles import Roles
    from rowlock.desk.schedules import ScheduleDecorator, Schedules
    from rowlock.desk.stats import Stats
    from rowlock.desk.sync import SyncDesk
    from rowlock.desk.system import System
    from rowlock.desk.tokens import Tokens
    from rowlock.desk.views import SavedViews
    from rowlock.desk.webhooks import Webhooks
    from rowlock.desk.workers import Workers
    from rowlock.desk.workflows import Workflows
    from rowlock.flow.enqueue.producer import EnqueueObserver
    from rowlock.flow.kinds.import_origin import Origin
    from rowlock.flow.locks.context_managers import Lock, SyncLock
    from rowlock.flow.run.inject import Function
    from rowlock.flow.worker.job_runner import JobRunner
    from rowlock.flow.worker.process_replacement import ProcessReplacement
    from rowlock.flow.worker.worker import Worker
    from rowlock.flow.worker.worker_thread import WorkerThread
    from rowlock.model.access import Principal
    from rowlock.model.approval import Approval
    from rowlock.model.hook import HookEvent
    from rowlock.model.job import Job
    from rowlock.model.kind import Executor, Gate, OnWorkerLost, UnknownArgs
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.model.rate import Rated
    from rowlock.model.retry import Retry
    from rowlock.model.size import Size
    from rowlock.model.webhook_rules import WebhookRules
    from rowlock.store.driver.password import Password
    from rowlock.store.embedded import Embedded
    from rowlock.store.replica import ReadReplica

logger = logging.getLogger("rowlock")
P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=Event)
_OPTIONS_OF_ONE_CALL: Final = (
    "connection",
    "idempotency_key",
    "keep_key",
    "max_attempts",
    "max_wait",
    "meta",
    "on_conflict",
    "run_at",
    "run_in",
    "session",
    "submitted_by",
    "tags",
    "tenant",
    "unique_across_kinds",
    "unique_key",
    "unique_scope",
)
_HINTS: Final = {name: f"It is an option of one call: task.options({name}=…)." for name in _OPTIONS_OF_ONE_CALL} | {
    "max_attempts": "Use retry=Retry(attempts=…), or for one call task.options(max_attempts=…).",
    "name": 'Pass the name of the kind first: @app.job("name").',
    "kind": 'Pass the name of the kind first: @app.job("name").',
    "cron": "Declare a schedule: app.schedule(…).",
}
_DECLARES: Final = dict.fromkeys(("bind", "name", "queue", "max_retries", "retry"), DECORATED_WITH_TASK)


class Rowlock:
    """Jobs on one PostgreSQL database. Without a URL (ROWLOCK_DATABASE_URL), an embedded PostgreSQL is started."""

    def __init__(
        self,
        database_url: str | None = None,
        *,
        engine: object | None = None,
        schema: str | None = None,
        settings: Settings | None = None,
        password: Password | None = None,
        delivery: Carrier | Mapping[str, Carrier] | None = None,
    ) -> None:
        """engine: a SQLAlchemy engine whose URL is used; Rowlock makes connections of its own.

        password: a function, async or not, that is called for every new connection: for tokens of a cloud and
        passwords that are rotated.
        delivery: the carrier that brings jobs to the processes that run them, such as ArqDelivery(…); or one for each
        lane, with "*" for all others. By default workers hear of jobs from PostgreSQL.
        """
        passwords.checked(password)
        self._password = password
        if engine is not None:
            if database_url is not None:
                message = "database_url and engine were both given. Pass one of them."
                raise ConfigurationError(message)
            database_url = url_of(engine)
        given = Settings.from_env(os.environ) if settings is None else settings
        self.settings = replace(given, database_url=database_url or given.database_url, schema=schema or given.schema)
        self.tasks: dict[str, BaseTask[..., object]] = {}
        self.origin: Origin | None = None
        """Where child processes import the application; None: Rowlock looks for the module that names it."""
        self._database: Database | None = None
        self._replica: ReadReplica | None = None
        self._embedded: Embedded | None = None
        self._opening = threading.Lock()
        self._bridge = Bridge(warns=True)
        self._extensions = extensions = Extensions()
        self.handlers = extensions.handlers
        self._events = extensions.events
        reception = Reception(self.database, self.job_runner, self._read_job, self._bridge, self.close)
        self._reception, self._routes = reception, Routes(delivery, reception, self.handlers)
        self._producer = Producer(
            self.database,
            self._bridge,
            extensions.enqueue_middleware,
            self._events,
            outbox=self._outbox,
            may_carry=self._routes.may_carry,
        )
        self._locks = AppLocks(self.database, self._bridge)
        self.submit = KindSubmitter(self.task, self._producer, self.settings.args_limit, self.handlers)
        self._resources = DeskResources(
            self.database, self._producer.wakers.wake, self.submit, self._reads, self._webhook_rules
        )
        self._own_desk = AppDesk(self._resources, self._bridge)
        self._runner: JobRunner | None = None

    if not TYPE_CHECKING:  # a checker that sees this method believes in any name

        def __getattr__(self, name: str) -> object:
            raise AttributeError(unknown_member("Rowlock", name, OF_AN_APPLICATION))

    # --- the desk: what a person may ask or order; these parts act as the application itself -------------------------

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
        return Desk(self._resources, Guard(principal, read_only, request_id, address))

    @property
    def jobs(self) -> Jobs:
        """Look up, search, explain, submit, cancel, retry and edit jobs."""
        return self._own_desk.jobs

    @property
    def workflows(self) -> Workflows:
        """Look up, wait for, cancel and retry workflows."""
        return self._own_desk.workflows

    @property
    def lanes(self) -> Lanes:
        """Look up, define, edit, drain and resume lanes."""
        return self._own_desk.lanes

    @property
    def limits(self) -> Limits:
        """Look up and edit gates and rates."""
        return self._own_desk.limits

    @property
    def retention(self) -> Retention:
        """How long finished jobs stay in this deployment."""
        return self._own_desk.retention

    @property
    def workers(self) -> Workers:
        """Look up and drain workers."""
        return self._own_desk.workers

    @property
    def schedules(self) -> Schedules:
        """Look up, pause, resume and run schedules."""
        return self._own_desk.schedules

    @property
    def schedule(self) -> ScheduleDecorator:
        """app.schedule(…) declares a schedule beside its task."""
        return self._own_desk.schedule

    @property
    def approvals(self) -> Approvals:
        """Look up, approve and reject jobs that wait for approval; manage approval rules."""
        return self._own_desk.approvals

    @property
    def operations(self) -> Operations:
        """Run and look up bulk operations on jobs."""
        return self._own_desk.operations

    @property
    def locks(self) -> Locks:
        """Look up the holders of locks and the jobs that wait for them."""
        return self._own_desk.locks

    @property
    def failures(self) -> FailuresByCause:
        """Look up failures by cause, and mute known ones."""
        return self._own_desk.failures

    @property
    def views(self) -> SavedViews:
        """Look up, keep, change and delete saved searches."""
        return self._own_desk.views

    @property
    def webhooks(self) -> Webhooks:
        """Look up, add, change, remove and test the endpoints that get webhooks."""
        return self._own_desk.webhooks

    @property
    def system(self) -> System:
        """Look up sizes, transactions and upkeep of the database, deploys and changes."""
        return self._own_desk.system

    @property
    def stats(self) -> Stats:
        """Counts, rates and latencies of the whole."""
        return self._own_desk.stats

    @property
    def streams(self) -> Streams:
        """Follow events as they happen."""
        return self._own_desk.streams

    @property
    def tokens(self) -> Tokens:
        """Create, list and revoke API tokens."""
        return self._own_desk.tokens

    @property
    def roles(self) -> Roles:
        """Look up and edit roles, and who has them."""
        return self._own_desk.roles

    @property
    def audit(self) -> Audit:
        """Look up who ordered what, and when."""
        return self._own_desk.audit

    @property
    def identity(self) -> Identity:
        """Permissions of a principal, for authenticators."""
        return self._own_desk.identity

    @property
    def sync(self) -> SyncDesk:
        """app.sync.jobs, app.sync.lanes, …: the same parts for blocking code."""
        return self._own_desk.sync

    # --- declaring jobs ----------------------------------------------------------------------------------------------

    @overload
    def job(self, function: Callable[Concatenate[NoContext, ...], Any], /) -> SyncTask[..., Any]: ...
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
        delivery: Carrier | None = None,
    ) -> JobDecorator: ...
    @suggests_options("app.job()", error=ConfigurationError, hints=_HINTS)
    def job(
        self,
        kind: str | Callable[..., object] | None = None,
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
        delivery: Carrier | None = None,
    ) -> object:
        """Declare a kind of job: @app.job, @app.job("name") or @app.job(lane=…, retry=…).

        The kind is named after the function unless a name is given. The name is stored with every job, so keep it when
        the function is renamed. Options:

        lane            the lane that runs the kind; creates the lane if it is missing, an existing lane row decides
        priority        -100 to 100; higher runs first
        retry           Retry(…): how often and how fast a failed job is tried again; 5 attempts by default
        timeout         the longest time one attempt may run; by default there is no limit
        executor        "loop" for coroutines, "thread" for functions (the defaults), "process" for a child process
        memory          the most memory an attempt in a child process may use, for example "512MB"
        expires_in      a job expires if it has not started so long after its earliest start
        max_age         a job ends as failed, waiting or running, so long after its enqueue
        on_worker_lost  when the worker dies: "retry" the job, "fail" it, or "hold" it for a person
        approval        True or Approval(…): jobs wait for approval before they run
        gate            the concurrency key, or Gate(key, limit); a function makes it of the arguments
        refs            a function that makes of the arguments the names and values to find a job by
        retention       how long finished jobs are kept, or a mapping of final states (or "*") to durations; 7 days
        version         the version of the arguments; raise it when they change, and declare @task.upgrade
        unknown_args    stored arguments that the code does not know: "refuse" to run the job, or "ignore" them
        aliases         former names of the kind, the oldest first
        logs            the level from which log lines are kept with the job; by default the worker's
        rate            the rate, or rates, that limit how often jobs start; a function makes them of the arguments
        weight          how much of its rates one job uses
        fair            tenants take turns in a fair lane
        delivery        the carrier of the kind and its hooks; by default that of its lane, or of Rowlock(delivery=…)
        """
        options = {name: value for name, value in locals().items() if name not in ("self", "kind", "delivery")}
        if callable(kind):
            return self._declare(kind, None, options)
        return functools.partial(self._declare, name=kind, options=options, delivery=delivery)

    def _declare(
        self,
        function: Callable[..., object],
        name: str | None,
        options: Mapping[str, object],
        delivery: Carrier | None = None,
    ) -> BaseTask[..., object]:
        is_async = inspect.iscoroutinefunction(function)
        if name == webhook.KIND:
            message = f"The kind {name!r} is Rowlock's own: it sends webhooks. Choose another name."
            raise ConfigurationError(message)
        definition = kind_of(checked_name(name or function.__name__), dict(options), is_async=is_async)
        limits = {"limit": self.settings.args_limit, "result_limit": self.settings.result_limit}
        context_type = Context if is_async else SyncContext
        codec = Codec.of(function, context_types=(context_type,), kind=definition, **limits)
        given = frozenset({"Context", "SyncContext", "Job"})
        plan = plan_injection(codec.signature.injected, definition.name, is_async=is_async, given=given)
        called = fills_in_thread(function) if plan and not is_async else function
        handler = Handler(definition, codec, called)
        if definition.executor == "process" and not importable(handler):
            message = (
                f"{definition.name}: executor='process' needs a function at the top level of a module, which a child "
                f"process can import; {function.__qualname__} is not one."
            )
            raise ConfigurationError(message)
        handler = self._extensions.add_handler(handler, plan)
        add_hook = functools.partial(self._hook, definition.name)
        make = Task if is_async else SyncTask
        task: BaseTask[..., object] = make(handler, self._producer, self._own_desk, add_hook)
        self.tasks[definition.name] = task
        if delivery is not None:
            self._routes.add_kind(definition.name, delivery)
        return task

    def _hook(
        self, kind: str, event: HookEvent, function: Callable[..., object], retry: Retry | None, timeout: Span | None
    ) -> None:
        self._extensions.add_hook(kind, event, function, retry, timeout, load=self.jobs.get)

    @suggests_options("app.task()", error=ConfigurationError, hints=_DECLARES)
    def task(self, kind: str) -> BaseTask[..., object]:
        """The task of a kind; UnknownKind lists the known ones."""
        if callable(kind):
            raise ConfigurationError(DECORATED_WITH_TASK)
        name = find_handler(
            {name: known for name, known in self.handlers.items() if known.name in self.tasks}, kind
        ).name
        if name != kind:
            logger.warning("the kind %s is called %s now, and its jobs are stored under that name", kind, name)
        return self.tasks[name]

    # --- around jobs: what the application adds ----------------------------------------------------------------------

    def worker_lifespan(self, function: L, /) -> L:
        """Decorate a generator, async or not: what stands before its yield runs before a worker's first claim, the
        rest after its last job. A mapping that it yields is ctx.state. If it fails, the worker does not start.

        Several are entered in the order of their declaration and left in reverse.
        """  # noqa: D205 - two sentences that belong together
        return self._extensions.add_lifespan(function)

    def middleware(self, function: M, /) -> M:
        """Decorate `async def f(ctx, call)`: runs around every job, the first outermost; `await call()` goes on."""
        return self._extensions.add_middleware(function)

    def enqueue_middleware(self, function: N, /) -> N:
        """Decorate a function of an EnqueueCall, called before jobs are written: it may change their options or raise.

        The part of a generator after its yield runs when they are written. Runs once per call, also of enqueue_many().
        """
        return self._extensions.add_enqueue_middleware(function)

    def extend_once(self, name: str, /) -> None:
        """For integrations: note that this one surrounds the application's jobs; ConfigurationError the second time."""
        self._extensions.add_once(name)

    def override(self, provider: Function, replacement: Function) -> AbstractContextManager[None]:
        """For tests: let another provider fill the parameters that Depends(provider) marks, inside the block.

        The replacement may depend on the provider that it replaces.
        """
        return self._extensions.override(provider, replacement)

    def on_event(self, callback: Callable[[Event], object], /) -> None:
        """Call back at every event of this process. Jobs wait meanwhile, so be quick. An exception is logged."""
        self._events.listen(callback, Event)

    def listen(self, *events: type[E]) -> Callable[[Callable[[E], None]], Callable[[E], None]]:
        """Decorate a function to be called at these events: @app.listen(JobFinished)."""

        def add(callback: Callable[[E], None]) -> Callable[[E], None]:
            self._events.listen(callback, *events)
            return callback

        return add

    def worker_scope(self, kinds: Collection[str] | None = None) -> AbstractAsyncContextManager[Mapping[str, Any]]:
        """Enter the lifespans and make the dependencies of Depends(…, scope="worker"); workers do it themselves.

        kinds: the kinds whose dependencies are made at once, None for all; other dependencies are made at first use.
        """
        return self._extensions.open_scope(kinds)

    def lock(self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None) -> Lock:
        """`async with app.lock("edition", 7):` one holder at a time for this key, over all processes, jobs included.

        wait=False: LockTaken at once if it is held. timeout: LockTimeout after that long; None: wait without limit.
        """
        return self._locks.lock(namespace, key, wait=wait, timeout=timeout)

    def lock_sync(
        self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None
    ) -> AbstractContextManager[SyncLock]:
        """lock() for blocking code: `with app.lock_sync("edition", 7):`."""
        return self._locks.lock_sync(namespace, key, wait=wait, timeout=timeout)

    # --- the database ------------------------------------------------------------------------------------------------

    def database(self) -> Database:
        """The database, opened at first use; the embedded one is started and gets its schema."""
        with self._opening:
            if self._database is None:
                url = self.settings.database_url or self._start_embedded()
                self._database = Database(
                    url,
                    schema=self.settings.schema,
                    direct_url=self.settings.direct_url,
                    pooled=self.settings.pooled,
                    password=None if self._embedded else self._password,
                )
            return self._database

    @property
    def database_url(self) -> str:
        """URL of the database, for engines and connections of the application's own; opens it like database().

        It has the password of the embedded server, and of a database the one that its URL has.
        """
        return self.database().url

    def _reads(self) -> Database:
        """Where searches and statistics are read: on ROWLOCK_REPLICA_URL, if there is one."""
        database = self.database()
        if self.settings.replica_url is None:
            return database
        with self._opening:
            if self._replica is None or self._replica.primary is not database:
                from rowlock.store.replica import ReadReplica

                self._replica = ReadReplica(database, self.settings.replica_url, max_lag=self.settings.replica_lag)
            return self._replica

    def _start_embedded(self) -> str:
        from rowlock.store import embedded
        from rowlock.store.schema import migrate

        self._embedded = embedded.start(Path(self.settings.data_dir))
        url = self._embedded.url
        logger.warning("no ROWLOCK_DATABASE_URL: using the embedded PostgreSQL in %s", self._embedded.directory)
        if self._embedded.warning:
            logger.warning("%s", self._embedded.warning)
        # Blocking on purpose: nothing can be done before the tables are there, and only this development mode waits.
        in_thread(lambda: asyncio.run(migrate.upgrade(url, self.settings.schema)))
        return url

    async def upgrade(self) -> list[int]:
        """Upgrade the schema to the version that this code needs; returns the migrations applied."""
        from rowlock.store.schema import migrate

        return await migrate.upgrade(self.database())

    def repoint(self, settings: Settings) -> Callable[[], None]:
        """For tests: use other settings, and the database they name, until the returned function is called.

        The database of before stays open and is used again afterwards.
        """
        before, password = self._point_at(settings, None, None), self._password
        self._password = None  # that of another server
        # Jobs of a test reach no broker: the test drains them.
        delivered, self._routes.enabled = self._routes.enabled, False

        def back() -> None:
            self._routes.enabled = delivered
            self._point_at(*before)
            self._password = password

        return back

    def _point_at(
        self, settings: Settings, database: Database | None, server: Embedded | None
    ) -> tuple[Settings, Database | None, Embedded | None]:
        with self._opening:
            before = self.settings, self._database, self._embedded
            self.settings, self._database, self._embedded = settings, database, server
        self._producer.forget()
        return before

    def watch(self, observer: EnqueueObserver | None) -> EnqueueObserver | None:
        """For tests: call the observer right after every enqueue; returns the observer of before."""
        before, self._producer.observer = self._producer.observer, observer
        return before

    async def close(self) -> None:
        """Close the connections of this loop, and leave the embedded server, which stops with its last user."""
        await self._leave_loop()
        if self._bridge.started:
            await asyncio.to_thread(self._bridge.run, self._leave_loop())
            self._bridge.close()
        if self._embedded is not None:
            self._embedded.close()
            self._embedded = self._database = None

    async def _leave_loop(self) -> None:
        if self._database is not None:
            if self._runner is not None:
                await self._runner.close(after=None)
            await asyncio.gather(self._producer.wakers.flush(), self._resources.leave())
            await asyncio.gather(*(carrier.close() for carrier in self._routes.carriers))
            await self._locks.close()
            await self._database.close()
        if self._replica is not None:
            await self._replica.close()

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
        """For FastAPI(lifespan=app.lifespan): a worker inside the web process; ROWLOCK_WORKER=off disables it.

        With a lifespan of the host's own, or several applications: rowlock.contrib.asgi.lifespans().
        """
        try:
            async with self.worker():
                yield
        finally:
            await self.close()

    def start_worker(
        self, lanes: Sequence[str] | Mapping[str, int] | None = None, *, name: str | None = None
    ) -> WorkerThread:
        """A worker in a thread of this process, for blocking applications; stop it with .stop()."""
        from rowlock.flow.worker.worker_thread import WorkerThread

        return WorkerThread(lambda: self.make_worker(lanes, name=name), enabled=self.settings.worker)

    def make_worker(
        self,
        lanes: Sequence[str] | Mapping[str, int] | None = None,
        *,
        name: str | None = None,
        claims: bool = True,
        upkeep_only: bool = False,
        handlers: Mapping[str, Handler] | None = None,
        replacement: ProcessReplacement | None = None,
        supervisor: int | None = None,
    ) -> Worker:
        """A worker that is not started yet; needs a running event loop. claims=False: runs only jobs for run_by_id().

        upkeep_only: runs no job at all and does the upkeep for processes that do.
        handlers: a test's own, instead of the declared ones. Then no child process is started and, without claims, no
        heartbeat is sent.
        """
        from rowlock.flow.enqueue.wake import Waker
        from rowlock.flow.worker.registration import WorkerOptions
        from rowlock.flow.worker.worker import Worker
        from rowlock.set_aside import SetAside
        from rowlock.upkeep.duty_runner import DutyRunner
        from rowlock.upkeep.schedule_runner import declaring

        slots = dict(lanes) if isinstance(lanes, Mapping) else None
        chosen = None if lanes is None else list(lanes)
        tested = handlers is not None
        if not tested:
            self._check_executors()
        origin = None if tested else self._origin()
        claims = claims and not upkeep_only
        options = WorkerOptions(
            name,
            chosen,
            slots,
            self.settings.app_version or rowlock.__version__,
            claims,
            upkeep_only,
            origin,
            alone=tested and not claims,
            supervisor=supervisor,
            carriers=None if tested else self._routes.stored,
        )
        database, outbox = self.database(), self._outbox()
        # A process that runs what a carrier brings is a worker like any other, upkeep included.
        keeps_up = claims or upkeep_only or (outbox is not None and not tested)
        set_aside = SetAside(logging.getLogger("rowlock.worker"))
        scope = _empty_scope if upkeep_only else self.worker_scope
        upkeep = DutyRunner(
            database,
            self.settings,
            Waker(database, outbox),
            self._events,
            self.submit,
            set_aside=set_aside,
            deliver=None if outbox is None else outbox.look_if_elected,
        )
        return Worker(
            database,
            self._worker_handlers if handlers is None else handlers,
            replace(self.settings, lanes=first_lanes(self.settings.lanes, self._own_desk.declared_lanes())),
            options,
            producer=lambda: self._producer,
            upkeep=upkeep if keeps_up else None,
            scope=declaring(self._own_desk.declared_schedules, scope) if keeps_up else scope,
            events=self._events,
            replacement=replacement,
            set_aside=set_aside,
            outbox=outbox,
            carried=self._routes.carries,
        )

    def _outbox(self) -> Outbox | None:
        """What tells carriers of jobs, for one event loop; None: PostgreSQL delivers every job."""
        if not self._routes.active:
            return None
        from rowlock.delivery.outbox import Outbox

        # Deliveries of webhooks are jobs, too: a carrier that brings every job has to bring them.
        return Outbox(self.database, self._routes, self._worker_handlers)

    def _webhook_rules(self) -> WebhookRules:
        from rowlock.model.webhook_rules import WebhookRules

        return WebhookRules(self.settings.webhook_networks, self.settings.webhook_http)

    @functools.cached_property
    def _worker_handlers(self) -> Mapping[str, Handler]:
        """The declared handlers, as they are at any time, and the one of webhooks, which no middleware surrounds."""
        from rowlock.webhooks.handler import delivery_handler

        own = delivery_handler(self.database, self._webhook_rules, user_agent=f"rowlock/{rowlock.__version__}")
        return ChainMap(self.handlers, {own.name: own})

    def _origin(self) -> Origin | None:
        return self.origin or origin_of(self, self.handlers.values())

    def _check_executors(self) -> None:
        """Refuse or warn before the first job if an executor cannot do what its kind needs."""
        kinds = [handler.kind for handler in self.handlers.values()]
        asking = [kind.name for kind in kinds if kind.executor == "process"]
        if asking and self._origin() is None:
            message = f"{asking[0]} has executor='process'. {NO_ORIGIN}"
            raise ConfigurationError(message)
        for kind in kinds:
            if kind.executor == "thread" and kind.timeout is not None:
                logger.warning(
                    "%s: a timeout cannot stop a thread. The handler gets an error at its next ctx call; without one, "
                    "its job ends without it and its slot stays taken. With executor='process' it would be killed.",
                    kind.name,
                )

    def job_runner(self) -> JobRunner:
        """What run_job() runs jobs with: one worker per event loop of this process."""
        from rowlock.flow.worker.job_runner import JobRunner

        with self._opening:
            if self._runner is None:
                self._runner = JobRunner(lambda: self.make_worker(claims=False))
            return self._runner

    async def run_job(self, job_id: int | str) -> Job:
        """Claim this job here and now and run it to its end; for carriers and tests.

        All calls of a process share one worker, which is started by the first of them and stopped by close().
        """
        number = ids.parse(job_id)
        ran = await self.job_runner().run(number)
        after = await self.jobs.get(number)
        if not ran:
            why = (
                "it is not due yet, or a limit holds it back"
                if after.state is State.QUEUED
                else "only a queued job can be run"
            )
            message = f"Job {after.public_id} was not run: it is {after.state}; {why}."
            raise WrongState(message)
        return after

    async def run_delivered(self, job_id: int | str) -> Job | None:
        """For the process behind a QueueBackend: run the job that a message names.

        None: the job has ended, runs elsewhere or cannot start now; then another message follows when it can.
        """
        return await self._reception.run(job_id)

    def run_delivered_sync(self, job_id: int | str) -> Job | None:
        """run_delivered() for blocking code, from any thread."""
        return self._reception.run_sync(job_id)

    @property
    def carriers(self) -> list[Delivery]:
        """The carriers of this application, that of PostgreSQL left out unless it was named."""
        return list(self._routes.carriers)

    async def _read_job(self, number: int) -> Job:
        return await self.jobs.get(number)

    def run_job_sync(self, job_id: int | str) -> Job:
        """run_job() for blocking code, from any thread: the job runs on Rowlock's own event loop."""
        return self._bridge.run(self.run_job(job_id))


@contextlib.asynccontextmanager
async def _empty_scope(_kinds: Collection[str] | None) -> AsyncIterator[Mapping[str, Any]]:
    """The scope of a worker that runs no job: without lifespans and dependencies of the application."""
    yield {}
