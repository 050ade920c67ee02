"""Kinds of functions that another queue sends to named queues.

Elsewhere a call names its queue. Here the kind decides on the lane, so a function has one kind for its own queue, under
its plain name, and one for each other queue that workers know: name/queue.
"""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass, field
from datetime import timedelta
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import ConfigurationError, InvalidOption
from rowlock.flow.kinds.signature import hints_of
from rowlock.flow.progress.context import Context
from rowlock.flow.progress.sync_context import SyncContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from rowlock.app import Rowlock
    from rowlock.tasks import BaseTask

_CONTEXT: Final = "rowlock_context"


@dataclass(frozen=True, slots=True)
class QueueKinds:
    """Declares functions of one application under a kind for each queue.

    default: the queue that has no lane of its own. setting: how a queue is made known, for error messages.
    """

    app: Rowlock
    default: str
    queues: tuple[str, ...]
    setting: str
    _own: dict[str, str] = field(default_factory=dict)
    """By name of the function: the queue whose kind has the plain name."""

    def declare(
        self,
        function: Callable[..., object],
        name: str,
        queue: str | None,
        *,
        aliases: Sequence[str] = (),
        **options: Any,
    ) -> None:
        """Declare the function for its own queue and for every other known one. options: of app.job()."""
        own = self._own[name] = queue or self.default
        for each in dict.fromkeys((own, self.default, *self.queues)):
            suffix = "" if each == own else f"/{each}"
            lane = None if each == self.default else each
            former = tuple(f"{alias}{suffix}" for alias in aliases)
            self.app.job(f"{name}{suffix}", lane=lane, aliases=former, **options)(function)

    def task(self, name: str, queue: str | None = None) -> BaseTask[..., Any]:
        """The task of that name for a queue; None: its own. InvalidOption for a queue that workers do not know."""
        own = self._own.get(name)
        if own is None:
            return self.app.task(name)
        if queue is None or queue == own:
            return self.app.task(name)
        if queue != self.default and queue not in self.queues:
            known = ", ".join(repr(each) for each in dict.fromkeys((own, self.default, *self.queues)))
            message = (
                f"{name} cannot go to the queue {queue!r}: workers know {known}. A queue is a lane here, and a worker "
                f"must know before jobs come: {self.setting}."
            )
            raise InvalidOption(message)
        return self.app.task(f"{name}/{queue}")

    def queue_of(self, kind: str) -> str:
        """The queue that a kind stands for."""
        name, _, queue = kind.rpartition("/")
        return queue if name in self._own else self._own.get(kind, self.default)


def checked_app(app: object, called: str) -> Rowlock:
    """The application, or ConfigurationError: the other package takes a name, a URL or a connection in its place."""
    from rowlock.app import Rowlock

    if not isinstance(app, Rowlock):
        message = f"{called} takes the application: {called[: called.index('(')]}(Rowlock(…)); got {app!r}."
        raise ConfigurationError(message)
    return app


def expires_in(
    expires: float | timedelta | datetime | None,
    clock: Callable[[], datetime],
    *,
    run_at: datetime | None = None,
    run_in: float | timedelta | None = None,
) -> timedelta | None:
    """Other queues count from the call on, or name a moment; Rowlock counts from the job's earliest start on."""
    if expires is None:
        return None
    wait = run_in if isinstance(run_in, timedelta) else timedelta(seconds=run_in or 0)
    if isinstance(expires, (int, float, timedelta)):
        span = expires if isinstance(expires, timedelta) else timedelta(seconds=expires)
        left = span - wait if run_at is None else clock() + span - run_at
    elif expires.utcoffset() is None:
        raise InvalidOption(
            "The moment of expiry must be a datetime with a time zone such as datetime.now(UTC); a naive one is "
            f"ambiguous; got {expires!r}."
        )
    else:
        left = expires - (clock() + wait if run_at is None else run_at)
    return max(left, timedelta(0))


def dotted_path(function: Callable[..., object]) -> str:
    """The name that other queues give to a function: its module and its own name."""
    return f"{function.__module__}.{function.__qualname__.replace('.<locals>', '')}"


def handler_of(
    function: Callable[..., object],
    name: str,
    *,
    first: Callable[[Any], object] | None = None,
    keep_result: bool = True,
    on_error: Callable[[Any, Exception], None] | None = None,
) -> Callable[..., object]:
    """The function as a handler of Rowlock.

    first: makes the function's first argument (Celery's self, a context) of the context of the attempt. keep_result:
    otherwise what it returns is dropped. on_error: is called with the context and an exception before it goes on.
    """
    if first is None and keep_result and on_error is None:
        return function
    leading = [] if first is None else [first]

    @contextlib.contextmanager
    def watched(given: Mapping[str, Any]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if on_error is not None:
                on_error(given[_CONTEXT], error)
            raise

    def run(**given: Any) -> Any:
        positional, named = _call(given)
        with watched(given):
            value = function(*(make(given[_CONTEXT]) for make in leading), *positional, **named)
        return value if keep_result else None

    async def run_async(**given: Any) -> Any:
        positional, named = _call(given)
        with watched(given):
            returned: Any = function(*(make(given[_CONTEXT]) for make in leading), *positional, **named)
            value = await returned
        return value if keep_result else None

    is_async = inspect.iscoroutinefunction(function)
    handler: Any = run_async if is_async else run
    parameters = _parameters(function, name, skipped=len(leading))
    by_position = [item.name for item in parameters if item.kind is Parameter.POSITIONAL_ONLY]

    def _call(given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        named = {key: value for key, value in given.items() if key != _CONTEXT}
        return [named.pop(key) for key in by_position if key in named], named

    _describe(handler, function, parameters, Context if is_async else SyncContext, name)
    return handler  # type: ignore[no-any-return]  # either of the two above


def _parameters(function: Callable[..., object], name: str, *, skipped: int) -> list[Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) < skipped or (skipped and parameters[0].kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)):
        message = (
            f"{name}: the function is given an argument of its queue first, but takes none. Add a first parameter."
        )
        raise ConfigurationError(message)
    return parameters[skipped:]


def _describe(
    handler: Any,
    function: Callable[..., object],
    parameters: Sequence[Parameter],
    context: type,
    name: str,
) -> None:
    """Give the handler the signature that Rowlock reads, and the place at which child processes import it."""
    hints = hints_of(function, (context,), name)
    # By keyword from here on: the handler passes positional-only ones in their order.
    named = [
        item.replace(kind=Parameter.POSITIONAL_OR_KEYWORD) if item.kind is Parameter.POSITIONAL_ONLY else item
        for item in parameters
    ]
    own = Parameter(_CONTEXT, Parameter.KEYWORD_ONLY, annotation=context)
    # **kwargs stands last; the reader of signatures refuses it.
    last = [item for item in named if item.kind is Parameter.VAR_KEYWORD]
    handler.__signature__ = inspect.Signature([*(item for item in named if item not in last), own, *last])
    kept = {item.name for item in named} | {"return"}
    handler.__annotations__ = {key: hint for key, hint in hints.items() if key in kept} | {_CONTEXT: context}
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(handler, attribute, getattr(function, attribute))
