"""Tasks: what @app.job makes of a function. A task can still be called; enqueue() takes the function's arguments."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, cast

from typing_extensions import override

from rowlock.compose.task_services import TaskServices
from rowlock.errors import ConfigurationError, InvalidOption, JobFailed, UnknownKind
from rowlock.flow.enqueue import prepare, remote_kind
from rowlock.flow.enqueue.insert import BulkInsert, BulkReceipt, SingleInsert
from rowlock.flow.enqueue.middleware import EnqueueCall, run_middleware
from rowlock.flow.run.hooks import HookDecorator
from rowlock.model import ids
from rowlock.model.approval import Approval
from rowlock.model.kind import Gate
from rowlock.model.options import Options
from rowlock.model.rate import rates_of
from rowlock.model.spelling.keyword_options import suggests_options
from rowlock.model.spelling.other_queues import OF_A_TASK, unknown_member
from rowlock.model.state import SUCCESS
from rowlock.model.stored_args import Encoded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable
    from contextlib import AbstractContextManager
    from datetime import datetime

    from rowlock.compose.step import Step, StepFactory, TakesNothing, TakesOne
    from rowlock.compose.task_services import DeskLookup
    from rowlock.flow.enqueue.prepare import PreparedJob
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.kinds.args_upgrade import U
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.run.hooks import AddHook
    from rowlock.model.job import Job
    from rowlock.model.kind import OnConflict, Scope
    from rowlock.model.options import Span
    from rowlock.model.rate import Rated
    from rowlock.model.workflow import Needs
    from rowlock.store.jobs.enqueue import Receipt

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
_OPTIONS: Final = tuple(option.name for option in fields(Options))
Args = Mapping[str, object] | Sequence[object]
"""The arguments of a call: by name, or in their order."""
_EMPTY_BULK: Final = BulkReceipt((), ())
_OPTIONS_OF_THE_KIND: Final = (
    "delivery",
    "lane",
    "retry",
    "timeout",
    "executor",
    "memory",
    "on_worker_lost",
    "retention",
    "version",
    "unknown_args",
    "aliases",
    "logs",
    "fair",
)
_HINTS: Final = {name: f"It is an option of the kind: @app.job({name}=…)." for name in _OPTIONS_OF_THE_KIND}


# Not frozen: a bulk makes thousands, and frozen ones take four times as long to make.
@dataclass(slots=True, unsafe_hash=True)
class Enqueued(Generic[R_co]):
    """A job that was enqueued. what: created, kept (its key was taken) or replaced."""

    id: int
    what: str
    _services: TaskServices = field(repr=False)

    @property
    def public_id(self) -> str:
        """The id to show to people."""
        return ids.encode(self.id)

    async def wait(self, timeout: float | None = None) -> R_co:
        """Wait for the result. timeout: in seconds; WaitTimeout leaves the job alone. JobFailed unless it completed."""
        desk = self._services.desk.jobs
        job = await desk.wait(self.id, timeout=timeout)
        if job.state not in SUCCESS:
            about = dict(job.errors or {})
            reason = about.get("message") or about.get("reason") or "no reason was recorded"
            message = f"Job {self.public_id} ({job.kind}) ended {job.state}: {reason}"
            raise JobFailed(message)
        return cast("R_co", self._services.handler.codec.decode_result(await desk.result(self.id)))

    def wait_sync(self, timeout: float | None = None) -> R_co:
        """wait() for blocking code."""
        return self._services.bridge.run(self.wait(timeout))

    async def job(self) -> Job:
        """Read the job as it stands now."""
        return await self._services.desk.jobs.get(self.id)

    def job_sync(self) -> Job:
        """job() for blocking code."""
        return self._services.bridge.run(self.job())

    async def then(
        self, step: Step[S] | TakesOne[R_co, S] | TakesNothing[S], *, when: Needs = "success", name: str | None = None
    ) -> Enqueued[S]:
        """Enqueue a task or step that waits for this job, which may have ended already; the two become a workflow.

        It gets the job's result as its first open parameter. when: as of Workflow.add(). name: of the step; a step that
        has the name already is kept.
        """
        from rowlock.compose.follow_up import add_follow_up  # noqa: PLC0415 - as in step_factory()
        from rowlock.compose.step import step_of  # noqa: PLC0415 - as in step_factory()

        made = step_of(step)
        return Enqueued(*await add_follow_up(self.id, self._services, made, when, name), made.services)

    def then_sync(
        self, step: Step[S] | TakesOne[R_co, S] | TakesNothing[S], *, when: Needs = "success", name: str | None = None
    ) -> Enqueued[S]:
        """then() for blocking code."""
        return self._services.bridge.run(self.then(step, when=when, name=name))


class BoundTask(Generic[P, R]):
    """A task with its options bound: enqueues jobs, and makes steps."""

    def __init__(self, services: TaskServices, producer: Producer, options: Options, connection: object | None) -> None:
        self._services, self._producer, self._handler = services, producer, services.handler
        self._options, self._connection = options, connection
        self._shared: PreparedJob | None = None
        """The job without arguments, if it is the same for every call."""
        self._step_factory: StepFactory | None = None

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[R]:
        """A step with these arguments, checked now, and enqueued with the chain, workflow or group that it is added to.

        An argument may be the output of another step; in a chain the first open one becomes the result of the step
        before.
        """
        return self.step_factory().step(args, kwargs)

    def step_factory(self) -> StepFactory:
        """Makes the steps of this task."""
        if self._step_factory is None:
            from rowlock.compose.step import StepFactory  # noqa: PLC0415 - most programs never compose jobs

            self._step_factory = StepFactory(self._services, self._producer, self._options, self._connection)
        return self._step_factory

    if not TYPE_CHECKING:  # a checker that sees this method believes in any name

        def __getattr__(self, name: str) -> object:
            handler = vars(self).get("_handler")  # not there yet in a copy that is being made
            task = getattr(handler and handler.function, "__name__", "my_task")
            raise AttributeError(unknown_member(f"The task {task}", name, OF_A_TASK, task))

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueue one job; returns when it is written (in the caller's transaction, if one was given)."""
        if not self._producer.middleware:
            receipt = await self._producer.enqueue(self._insert(self._options, args, kwargs), self._connection)
            return Enqueued(receipt.id, receipt.what, self._services)
        with self._middleware([self._handler.codec.named(args, kwargs)]) as call:
            receipt = await self._producer.enqueue(self._insert(call.options, args, kwargs), self._connection)
            return self._handle(call, receipt)

    def args(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, object]:
        """The arguments of one call by name, for enqueue_many(), checked by type checkers."""
        return self._handler.codec.call(args, kwargs)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """enqueue() for blocking code."""
        if not self._producer.middleware:
            receipt = self._producer.enqueue_sync(self._insert(self._options, args, kwargs), self._connection)
            return Enqueued(receipt.id, receipt.what, self._services)
        with self._middleware([self._handler.codec.named(args, kwargs)]) as call:
            receipt = self._producer.enqueue_sync(self._insert(call.options, args, kwargs), self._connection)
            return self._handle(call, receipt)

    async def enqueue_many(self, items: Iterable[Mapping[str, object]]) -> list[Enqueued[R]]:
        """Enqueue one job per mapping of arguments, all or none; in the order given."""
        items = list(items)
        with self._middleware(items) as call:
            bulk = self._bulk(call.options, items)
            receipt = await self._producer.enqueue(bulk, self._connection) if items else _EMPTY_BULK
            return self._handles(call, receipt)

    def enqueue_many_sync(self, items: Iterable[Mapping[str, object]]) -> list[Enqueued[R]]:
        """enqueue_many() for blocking code."""
        items = list(items)
        with self._middleware(items) as call:
            bulk = self._bulk(call.options, items)
            receipt = self._producer.enqueue_sync(bulk, self._connection) if items else _EMPTY_BULK
            return self._handles(call, receipt)

    def _middleware(self, calls: Sequence[Mapping[str, object]]) -> AbstractContextManager[EnqueueCall]:
        return run_middleware(self._producer.middleware, EnqueueCall(self._handler.name, calls, self._options))

    def _handle(self, call: EnqueueCall, receipt: Receipt) -> Enqueued[R]:
        call.ids = (receipt.id,)
        return Enqueued(receipt.id, receipt.what, self._services)

    def _handles(self, call: EnqueueCall, receipt: BulkReceipt) -> list[Enqueued[R]]:
        call.ids = tuple(receipt.ids)
        return list(map(Enqueued, receipt.ids, receipt.whats, repeat(self._services)))

    def _insert(self, options: Options, args: tuple[object, ...], kwargs: Mapping[str, object]) -> SingleInsert:
        text = self._handler.codec.encode(args, kwargs)
        if self._shared is not None and options is self._options:
            return SingleInsert(self._shared, text)
        return SingleInsert(self._prepared(options, args, kwargs), text)

    def _prepared(self, options: Options, args: tuple[object, ...], kwargs: Mapping[str, object]) -> PreparedJob:
        if prepare.depends_on_arguments(self._handler.kind, options):
            return prepare.prepare(self._handler.kind, options, self._handler.codec.named(args, kwargs))
        job = prepare.prepare(self._handler.kind, options, {})
        # Dicts and lists may be changed by the caller, so they are read again by every call.
        if options is self._options and not (options.refs or options.tags or options.meta):
            self._shared = job
        return job

    def _bulk(self, options: Options, items: Sequence[Mapping[str, object]]) -> BulkInsert:
        both = options.idempotency_key is not None and options.unique_key is not None
        if both or isinstance(options.idempotency_key, str) or options.on_conflict not in ("reject", "keep"):
            message = (
                'enqueue_many() takes unique_key with on_conflict "reject" or "keep", or an idempotency_key that a '
                "function makes of the arguments, not both. Enqueue one by one instead."
            )
            raise InvalidOption(message)
        texts = self._handler.codec.encode_many(items)
        if not prepare.depends_on_arguments(self._handler.kind, options):
            return BulkInsert(texts, [self._prepared(options, (), {})])
        return BulkInsert(texts, [self._prepared_item(options, n, item) for n, item in enumerate(items)])

    def _prepared_item(self, options: Options, index: int, item: Mapping[str, object]) -> PreparedJob:
        try:
            return self._prepared(options, (), item)
        except (InvalidOption, ConfigurationError) as error:
            message = f"Item {index}: {error}"
            raise InvalidOption(message) from error


Bound: TypeAlias = BoundTask
"""The old name of BoundTask."""


class BaseTask(BoundTask[P, R]):
    """What tasks of coroutine functions and of blocking functions share."""

    def __init__(self, handler: Handler, producer: Producer, desk: DeskLookup, add_hook: AddHook) -> None:
        super().__init__(TaskServices(handler, desk, producer.bridge), producer, Options(), None)
        self.on_success = HookDecorator("on_success", add_hook)
        """Decorates a function that runs after the job completed, with errors or without."""
        self.on_failure = HookDecorator("on_failure", add_hook)
        """Decorates a function that runs after each failed attempt that is followed by another one."""
        self.on_exhausted = HookDecorator("on_exhausted", add_hook)
        """Decorates a function that runs after the job ended failed or expired, for whatever reason."""
        function = handler.function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", handler.name)
        self.__wrapped__ = function

    @property
    def kind(self) -> str:
        """The kind's name."""
        return self._handler.name

    def handle(self, job_id: int | str) -> Enqueued[R]:
        """The handle of a job of this kind that was enqueued before, by its id; nothing is read."""
        return Enqueued(ids.parse(job_id), "kept", self._services)

    async def submit(self, args: Args, options: Options, connection: object | None) -> Enqueued[R]:
        """Enqueue with decoded JSON: a list holds positional arguments, a mapping arguments by name."""
        positional, named = self._call(args)
        bound: BoundTask[..., R] = BoundTask(self._services, self._producer, options, connection)
        return await bound.enqueue(*positional, **named)

    def encoded(self, args: Args) -> Encoded:
        """Decoded JSON as a job of this kind stores it, with the refs, gate and rates computed from it."""
        positional, named = self._call(args)
        codec, kind = self._handler.codec, self._handler.kind
        text = codec.encode(tuple(positional), named)
        call = codec.named(tuple(positional), named)
        gate = kind.gate(**call) if callable(kind.gate) else None
        return Encoded(
            text,
            refs=dict(kind.refs(**call)) if kind.refs is not None else {},
            gate_key=gate.key if isinstance(gate, Gate) else gate,
            rate_keys=tuple(str(r.key) for r in rates_of(kind.rate, call, kind.scope)) if callable(kind.rate) else (),
            answer_in=kind.approval.answer_in if isinstance(kind.approval, Approval) else None,
            scope=kind.scope,
        )

    def _call(self, args: Args) -> tuple[list[object], dict[str, object]]:
        named = dict(args) if isinstance(args, Mapping) else {}
        by_position = [item.name for item in self._handler.codec.signature.positional_only]
        positional = list(args) if not isinstance(args, Mapping) else [named.pop(x) for x in by_position if x in named]
        return positional, named

    def upgrade(self, *, from_version: int) -> Callable[[U], U]:
        """Declare how arguments of one version become arguments of the next: a function from dict to dict."""
        return functools.partial(self._handler.codec.upgrades.add, from_version)

    @override
    def __repr__(self) -> str:
        return f"<task {self.kind}>"

    @suggests_options("options()", hints=_HINTS)
    def options(
        self,
        *,
        priority: int | None = None,
        run_at: datetime | None = None,
        run_in: Span | None = None,
        expires_in: Span | None = None,
        max_age: Span | None = None,
        max_attempts: int | None = None,
        unique_key: str | Callable[..., str] | None = None,
        unique_scope: Scope = "live",
        unique_across_kinds: bool = False,
        on_conflict: OnConflict = "reject",
        max_wait: Span | None = None,
        idempotency_key: str | Callable[..., str] | None = None,
        keep_key: Span = "30 days",
        gate: Gate | Callable[..., Gate | str] | str | None = None,
        tenant: str | None = None,
        submitted_by: str | None = None,
        refs: Mapping[str, object] | None = None,
        tags: Sequence[str] | None = None,
        meta: Mapping[str, object] | None = None,
        approval: bool | Approval = False,
        rate: Rated | Callable[..., Rated] | None = None,
        weight: int | None = None,
        connection: object | None = None,
        session: object | None = None,
    ) -> BoundTask[P, R]:
        """The same task, enqueued with these options; an option left out keeps the kind's own.

        priority             -100 to 100; higher runs first
        run_at               earliest start: a datetime with a time zone
        run_in               earliest start: so long after the enqueue
        expires_in           the job expires if it has not started so long after its earliest start
        max_age              the job ends as failed, waiting or running, so long after the enqueue
        max_attempts         attempts in all, the first included
        unique_key           one live job per key and kind; a function makes the key of the arguments
        unique_scope         "live": waiting and running jobs hold the key; "waiting": only waiting ones do
        unique_across_kinds  the key is shared with other kinds that say so too
        on_conflict          when the key is taken: "reject", "keep", "replace" or "debounce"
        max_wait             "debounce" pushes a job back so long at most after its first call
        idempotency_key      one job per key, also after it has ended; a function makes the key of the arguments
        keep_key             how long the idempotency key is kept
        gate                 the concurrency key, or Gate(key, limit); a function makes it of the arguments
        tenant               the tenant that the job belongs to
        submitted_by         the person or program that submits the job
        refs                 names and values to find the job by, added to the kind's
        tags                 labels to find the job by
        meta                 JSON values that are stored with the job and shown
        approval             True or Approval(…): the job waits for approval; a call cannot waive the kind's
        rate                 the rate, or rates, that limit how often such jobs start
        weight               how much of its rates the job uses
        connection           an asyncpg, psycopg, SQLAlchemy or Django connection whose transaction the job joins
        session              a SQLAlchemy session whose transaction the job joins
        """
        if connection is not None and session is not None:
            message = "connection and session were both given. Pass the one whose transaction the job is to join."
            raise InvalidOption(message)
        given = locals()
        options = Options(**{name: given[name] for name in _OPTIONS})
        return BoundTask(self._services, self._producer, options, connection if session is None else session)


class KindSubmitter:
    """Enqueues by the name of a kind, for the desk: through its task, or without its code where that is possible."""

    def __init__(
        self,
        task: Callable[[str], BaseTask[..., object]],
        producer: Producer,
        limit: int,
        kinds: Collection[str] = (),
    ) -> None:
        """kinds: the names of the kinds whose code is here."""
        self._task, self._producer, self._limit = task, producer, limit
        self.kinds = kinds

    async def __call__(self, kind: str, args: Args, options: Options, connection: object | None) -> tuple[int, str]:
        """The job's id, and whether it was created, kept or replaced."""
        try:
            task = self._task(kind)
        except UnknownKind as unknown:
            return await self._without_code(kind, args, options, connection, unknown)
        made = await task.submit(args, options, connection)
        return made.id, made.what

    @property
    def runs_at_once(self) -> bool:
        """Whether rowlock.testing runs jobs on the spot, as soon as they are committed."""
        return self._producer.observer is not None

    async def encoded(self, kind: str, args: Args) -> Encoded:
        """Arguments as they are stored, checked by the kind's code if it is here."""
        try:
            task = self._task(kind)
        except UnknownKind as unknown:
            found = await remote_kind.find(self._producer.database(), kind, unknown, self.kinds)
            return Encoded(remote_kind.encode(found, args, self._limit), scope=found.scope)
        return task.encoded(args)

    async def _without_code(
        self, name: str, args: Args, options: Options, connection: object | None, unknown: UnknownKind
    ) -> tuple[int, str]:
        kind = await remote_kind.find(self._producer.database(), name, unknown, self.kinds)
        text = remote_kind.encode(kind, args, self._limit)
        calls = [cast("Mapping[str, object]", args)]  # encode() refuses anything else
        with run_middleware(self._producer.middleware, EnqueueCall(name, calls, options)) as call:
            insert = SingleInsert(prepare.prepare(kind, call.options, {}), text)
            receipt = await self._producer.enqueue(insert, connection)
            call.ids = (receipt.id,)
        return receipt.id, receipt.what


class Task(BaseTask[P, R]):
    """A kind whose handler is a coroutine function. Still callable."""

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[R]:  # noqa: ANN401 - the function's own, context included
        """Call the function itself; nothing is enqueued."""
        return cast("Awaitable[R]", self._handler.function(*args, **kwargs))


class SyncTask(BaseTask[P, R]):
    """A kind whose handler is a blocking function. Still callable."""

    def __call__(self, *args: Any, **kwargs: Any) -> R:  # noqa: ANN401 - the function's own, context included
        """Call the function itself; nothing is enqueued."""
        return cast("R", self._handler.function(*args, **kwargs))
