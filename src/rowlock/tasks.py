"""Task: what the decorator makes of a function. Still callable; enqueue() takes the same arguments, checked by type."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, cast

from typing_extensions import override

from rowlock.compose.handle_origin import Origin
from rowlock.errors import ConfigurationError, InvalidOption, JobFailed, UnknownKind
from rowlock.flow.enqueue import prepare, remote_kind
from rowlock.flow.enqueue.middleware import Enqueuing, passing
from rowlock.flow.run.hooks import HookDecorator
from rowlock.model import ids
from rowlock.model.approval import Approval
from rowlock.model.kind import Gate
from rowlock.model.options import Options
from rowlock.model.rate import rates_of
from rowlock.model.state import SUCCESS
from rowlock.model.stored_args import Encoded
from rowlock.telemetry import JobEnqueued

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable
    from contextlib import AbstractContextManager
    from datetime import datetime

    from rowlock.compose.handle_origin import Desks
    from rowlock.compose.step import Alone, Step, Stepper, Takes
    from rowlock.flow.enqueue.prepare import Batch, Prepared, Receipt, Written
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.kinds.args_upgrade import U
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.run.hooks import AddHook
    from rowlock.model.job import Job
    from rowlock.model.kind import OnConflict, Scope
    from rowlock.model.options import Span
    from rowlock.model.rate import Rated
    from rowlock.model.workflow import Needs

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
_OPTIONS: Final = tuple(option.name for option in fields(Options))
Args = Mapping[str, object] | Sequence[object]
"""The arguments of a call: by name, or in their order."""
_NOTHING: Final = prepare.Written((), ())


# Not frozen: a bulk makes thousands, and frozen ones take four times as long to make.
@dataclass(slots=True, unsafe_hash=True)
class Enqueued(Generic[R_co]):
    """A job that was enqueued. what: created, kept (the key was taken) or replaced."""

    id: int
    what: str
    _origin: Origin = field(repr=False)

    @property
    def public_id(self) -> str:
        """The id to show to people."""
        return ids.encode(self.id)

    async def wait(self, timeout: float | None = None) -> R_co:
        """Wait for the result, in seconds at most; JobFailed unless it completed, WaitTimeout leaves the job alone."""
        desk = self._origin.desk.jobs
        job = await desk.wait(self.id, timeout=timeout)
        if job.state not in SUCCESS:
            about = dict(job.errors or {})
            reason = about.get("message") or about.get("reason") or "no reason was recorded"
            message = f"Job {self.public_id} ({job.kind}) ended {job.state}: {reason}"
            raise JobFailed(message)
        return cast("R_co", self._origin.handler.codec.decode_result(await desk.result(self.id)))

    def wait_sync(self, timeout: float | None = None) -> R_co:
        """wait() for blocking code."""
        return self._origin.bridge.run(self.wait(timeout))

    async def job(self) -> Job:
        """Read the job as it stands now."""
        return await self._origin.desk.jobs.get(self.id)

    def job_sync(self) -> Job:
        """job() for blocking code."""
        return self._origin.bridge.run(self.job())

    async def then(
        self, step: Step[S] | Takes[R_co, S] | Alone[S], *, when: Needs = "success", name: str | None = None
    ) -> Enqueued[S]:
        """Enqueue a task or step that waits for this job, also when it has ended already: the two are a workflow then.

        It gets the job's result as its first open parameter. when: as of Workflow.add(). name: of the step; one that is
        there already is kept.
        """
        from rowlock.compose.follow_up import follow  # noqa: PLC0415 - as in stepper()
        from rowlock.compose.step import step_of  # noqa: PLC0415 - as in stepper()

        made = step_of(step)
        return Enqueued(*await follow(self.id, self._origin, made, when, name), made.origin)

    def then_sync(
        self, step: Step[S] | Takes[R_co, S] | Alone[S], *, when: Needs = "success", name: str | None = None
    ) -> Enqueued[S]:
        """then() for blocking code."""
        return self._origin.bridge.run(self.then(step, when=when, name=name))


class Bound(Generic[P, R]):
    """A task with options: enqueues, and nothing else."""

    def __init__(self, origin: Origin, producer: Producer, options: Options, connection: object | None) -> None:
        self._origin, self._producer, self._handler = origin, producer, origin.handler
        self._options, self._connection = options, connection
        self._ready: Prepared | None = None
        self._stepper: Stepper | None = None

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[R]:
        """A step with these arguments, checked now and enqueued with the chain, workflow or group it becomes part of.

        An argument may be the output of another step; in a chain the first one left open is the result before.
        """
        return self.stepper().step(args, kwargs)

    def stepper(self) -> Stepper:
        """Makes the steps."""
        if self._stepper is None:
            from rowlock.compose.step import Stepper  # noqa: PLC0415 - for those who compose jobs; many never do

            self._stepper = Stepper(self._origin, self._producer, self._options, self._connection)
        return self._stepper

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueue one job; returns when it is written (in the caller's transaction, if one was given)."""
        if not self._producer.middleware:
            text = self._handler.codec.encode(args, kwargs)
            ready = self._ready or self._prepared(self._options, args, kwargs)
            return self._handle(await self._producer.enqueue(ready, text, self._connection))
        with self._passing([self._handler.codec.named(args, kwargs)]) as passed:
            text = self._handler.codec.encode(args, kwargs)
            ready = self._prepared(passed.options, args, kwargs)
            return self._passed(passed, await self._producer.enqueue(ready, text, self._connection))

    def args(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, object]:
        """The arguments of one call by name, for enqueue_many(): so that a type checker sees them."""
        return self._handler.codec.call(args, kwargs)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """enqueue() for blocking code."""
        if not self._producer.middleware:
            text = self._handler.codec.encode(args, kwargs)
            ready = self._ready or self._prepared(self._options, args, kwargs)
            return self._handle(self._producer.enqueue_sync(ready, text, self._connection))
        with self._passing([self._handler.codec.named(args, kwargs)]) as passed:
            text = self._handler.codec.encode(args, kwargs)
            ready = self._prepared(passed.options, args, kwargs)
            return self._passed(passed, self._producer.enqueue_sync(ready, text, self._connection))

    async def enqueue_many(self, items: Iterable[Mapping[str, object]]) -> list[Enqueued[R]]:
        """Enqueue one job per mapping of arguments, all or none; in the order given."""
        items = list(items)
        with self._passing(items) as passed:
            batch = self._batch(passed.options, items)
            written = await self._producer.enqueue_many(batch, self._connection) if items else _NOTHING
            return self._handles(passed, written)

    def enqueue_many_sync(self, items: Iterable[Mapping[str, object]]) -> list[Enqueued[R]]:
        """enqueue_many() for blocking code."""
        items = list(items)
        with self._passing(items) as passed:
            batch = self._batch(passed.options, items)
            written = self._producer.enqueue_many_sync(batch, self._connection) if items else _NOTHING
            return self._handles(passed, written)

    def _passing(self, calls: Sequence[Mapping[str, object]]) -> AbstractContextManager[Enqueuing]:
        return passing(self._producer.middleware, Enqueuing(self._handler.name, calls, self._options))

    def _passed(self, passed: Enqueuing, receipt: Receipt) -> Enqueued[R]:
        passed.ids = (receipt.id,)
        return self._handle(receipt)

    def _handle(self, receipt: Receipt) -> Enqueued[R]:
        if self._producer.events.active:
            self._producer.events.emit(JobEnqueued(receipt.id, self._handler.name, receipt.what))
        return Enqueued(receipt.id, receipt.what, self._origin)

    def _handles(self, passed: Enqueuing, written: Written) -> list[Enqueued[R]]:
        passed.ids = tuple(written.ids)
        if self._producer.events.active:
            for number, what in zip(*written, strict=True):
                self._producer.events.emit(JobEnqueued(number, self._handler.name, what))
        return list(map(Enqueued, *written, repeat(self._origin)))

    def _prepared(self, options: Options, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Prepared:
        if self._looks_at_args(options):
            return prepare.prepare(self._handler.kind, options, self._handler.codec.named(args, kwargs))
        ready = prepare.prepare(self._handler.kind, options, {})
        # What the caller may still change, dicts and lists, is read anew by every call.
        if options is self._options and not (options.refs or options.tags or options.meta):
            self._ready = ready
        return ready

    def _batch(self, options: Options, items: Sequence[Mapping[str, object]]) -> Batch:
        both = options.idempotency_key is not None and options.unique_key is not None
        if both or isinstance(options.idempotency_key, str) or options.on_conflict not in ("reject", "keep"):
            message = (
                'enqueue_many() takes unique_key with on_conflict "reject" or "keep", or an idempotency_key that a '
                "function makes of the arguments, not both. Enqueue one by one instead."
            )
            raise InvalidOption(message)
        texts = self._handler.codec.encode_many(items)
        differ = self._looks_at_args(options)
        if not differ:
            return prepare.Batch(texts, [self._prepared(options, (), {})])
        return prepare.Batch(texts, [self._prepared_item(options, n, item) for n, item in enumerate(items)])

    def _prepared_item(self, options: Options, index: int, item: Mapping[str, object]) -> Prepared:
        try:
            return self._prepared(options, (), item)
        except (InvalidOption, ConfigurationError) as error:
            message = f"Item {index}: {error}"
            raise InvalidOption(message) from error

    def _looks_at_args(self, options: Options) -> bool:
        kind = self._handler.kind
        made = (options.unique_key, options.idempotency_key, options.gate, kind.gate, options.rate, kind.rate)
        return kind.refs is not None or any(map(callable, made))


class Declared(Bound[P, R]):
    """A kind in the hands of its users."""

    def __init__(self, handler: Handler, producer: Producer, desk: Desks, add_hook: AddHook) -> None:
        super().__init__(Origin(handler, desk, producer.bridge), producer, Options(), None)
        self.on_success = HookDecorator("on_success", add_hook)
        """Decorates a function that runs after the job completed, with errors or without."""
        self.on_failure = HookDecorator("on_failure", add_hook)
        """Decorates a function that runs after an attempt that failed and is followed by another."""
        self.on_exhausted = HookDecorator("on_exhausted", add_hook)
        """Decorates a function that runs after the job ended failed or expired, whatever the reason."""
        function = handler.function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", handler.name)
        self.__wrapped__ = function

    @property
    def kind(self) -> str:
        """The kind's name."""
        return self._handler.name

    async def submit(self, args: Args, options: Options, connection: object | None) -> Enqueued[R]:
        """Enqueue with decoded JSON: a list is positional, and so is what can be passed by position only."""
        positional, named = self._call(args)
        bound: Bound[..., R] = Bound(self._origin, self._producer, options, connection)
        return await bound.enqueue(*positional, **named)

    def encoded(self, args: Args) -> Encoded:
        """Decoded JSON as a job of this kind has it stored, with what the kind makes of it."""
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
        """Declare how arguments of one version become those of the next: a plain dict in, a plain dict out."""
        return functools.partial(self._handler.codec.upgrades.add, from_version)

    @override
    def __repr__(self) -> str:
        return f"<task {self.kind}>"

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
    ) -> Bound[P, R]:
        """The same task, enqueued with these options. connection or session: join that transaction."""
        if connection is not None and session is not None:
            message = "connection and session were both given. Pass the one whose transaction the job is to join."
            raise InvalidOption(message)
        given = locals()
        options = Options(**{name: given[name] for name in _OPTIONS})
        return Bound(self._origin, self._producer, options, connection if session is None else session)


class Submitter:
    """Submits by the name of a kind, for the desk: through its task, or without its code where that is possible."""

    def __init__(
        self,
        task: Callable[[str], Declared[..., object]],
        producer: Producer,
        limit: int,
        kinds: Collection[str] = (),
    ) -> None:
        """kinds: the names of those whose code is here."""
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

    async def encoded(self, kind: str, args: Args) -> Encoded:
        """Arguments as they are stored: checked where the kind's code is, else if they need no code."""
        try:
            task = self._task(kind)
        except UnknownKind as unknown:
            found = await remote_kind.find(self._producer.database(), kind, unknown)
            return Encoded(remote_kind.encode(found, args, self._limit), scope=found.scope)
        return task.encoded(args)

    async def _without_code(
        self, name: str, args: Args, options: Options, connection: object | None, unknown: UnknownKind
    ) -> tuple[int, str]:
        kind = await remote_kind.find(self._producer.database(), name, unknown)
        text = remote_kind.encode(kind, args, self._limit)
        with passing(self._producer.middleware, Enqueuing(name, [args], options)) as passed:  # type: ignore[list-item]  # a mapping, or encode() had refused it
            ready = prepare.prepare(kind, passed.options, {})
            receipt = await self._producer.enqueue(ready, text, connection)
            passed.ids = (receipt.id,)
        return receipt.id, receipt.what


class Task(Declared[P, R]):
    """A kind whose handler is a coroutine function. Still callable."""

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[R]:  # noqa: ANN401 - the function's own, context included
        """Call the function itself; nothing is enqueued."""
        return cast("Awaitable[R]", self._handler.function(*args, **kwargs))


class SyncTask(Declared[P, R]):
    """A kind whose handler is a blocking function. Still callable."""

    def __call__(self, *args: Any, **kwargs: Any) -> R:  # noqa: ANN401 - the function's own, context included
        """Call the function itself; nothing is enqueued."""
        return cast("R", self._handler.function(*args, **kwargs))
