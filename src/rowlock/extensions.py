"""Extend: what an application adds around its jobs; inherited by Rowlock, which composes the rooms."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from rowlock.errors import ConfigurationError
from rowlock.flow.enqueue.middleware import EnqueueMiddleware, Enqueuing
from rowlock.flow.kinds.handler import register
from rowlock.flow.run.hooks import HookWrapper, hook_of
from rowlock.flow.run.inject import NO_INJECTION, named, read_provider, worker_dependencies
from rowlock.flow.run.middleware import (
    Middleware,
    checked_enqueue_middleware,
    checked_middleware,
    wrapped,
)
from rowlock.flow.run.scope import WorkerScopes
from rowlock.model.hook import HOOK_EVENTS, hook_kind
from rowlock.model.options import span
from rowlock.telemetry import Event, Events

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.run.hooks import Load
    from rowlock.flow.run.inject import Function, InjectionPlan
    from rowlock.model.hook import HookEvent
    from rowlock.model.options import Span
    from rowlock.model.retry import Retry

E = TypeVar("E", bound=Event)
L = TypeVar("L", bound=Callable[[], object])
M = TypeVar("M", bound=Middleware)
N = TypeVar("N", bound=Callable[[Enqueuing], Iterator[None]] | Callable[[Enqueuing], None])


class Extensions:
    """Lifespans, dependencies, middleware, hooks and listeners of one application, and the handlers they surround."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self._plans: dict[str, InjectionPlan] = {}
        self._loads: dict[str, Load] = {}
        """Of hooks: how they read the job they follow."""
        self._scopes = WorkerScopes()
        self._middleware: list[Middleware] = []
        self._enqueue_middleware: list[EnqueueMiddleware] = []
        self._events = Events()

    # --- for applications --------------------------------------------------------------------------------------------

    def worker_lifespan(self, function: L, /) -> L:
        """Decorate a generator, async or not: what stands before its yield runs before a worker's first claim, the
        rest after its last job. A mapping that it yields is ctx.state. If it fails, the worker does not start.

        Several are entered in the order of their declaration and left in reverse.
        """  # noqa: D205 - two sentences that belong together
        if inspect.iscoroutinefunction(function):
            message = f"{named(function)}: a lifespan yields once, between start and end; this one only returns."
            raise ConfigurationError(message)
        _append(self._scopes.lifespans, function)
        self._surround_all()
        return function

    def middleware(self, function: M, /) -> M:
        """Decorate `async def f(ctx, call)`: runs around every job, the first outermost; `await call()` goes on."""
        checked_middleware(function)
        _append(self._middleware, function)
        self._surround_all()
        return function

    def enqueue_middleware(self, function: N, /) -> N:
        """Decorate a function of an Enqueuing, called before jobs are written: it may change their options or raise.

        Of a generator the rest runs after its yield, when they are. Once per call, also of enqueue_many().
        """
        checked_enqueue_middleware(function)
        _append(self._enqueue_middleware, function)
        return function

    @contextlib.contextmanager
    def override(self, provider: Function, replacement: Function) -> Iterator[None]:
        """For tests: let another provider fill the parameters that Depends(provider) marks, inside the block.

        The replacement may depend on what it replaces.
        """
        overrides = self._scopes.overrides
        before = overrides.get(provider)
        overrides[provider] = read_provider(replacement, f"override of {named(provider)}")
        try:
            yield
        finally:
            if before is None:
                del overrides[provider]
            else:
                overrides[provider] = before

    def on_event(self, callback: Callable[[Event], object], /) -> None:
        """Call back at every event of this process. Quick, please: jobs wait meanwhile. What it raises is logged."""
        self._events.listen(callback, Event)

    def listen(self, *events: type[E]) -> Callable[[Callable[[E], None]], Callable[[E], None]]:
        """Decorate a function to be called at these events: @app.listen(JobFinished)."""

        def add(callback: Callable[[E], None]) -> Callable[[E], None]:
            self._events.listen(callback, *events)
            return callback

        return add

    def worker_scope(self, kinds: Collection[str] | None = None) -> AbstractAsyncContextManager[Mapping[str, Any]]:
        """Enter the lifespans and make what Depends(…, scope="worker") asks for; workers do it themselves.

        kinds: those whose dependencies are made at once, None for all; the others' are made at first need.
        """
        return self._open_scope(kinds)

    @contextlib.asynccontextmanager
    async def _open_scope(self, kinds: Collection[str] | None) -> AsyncIterator[Mapping[str, Any]]:
        plans = (plan for kind, plan in self._plans.items() if kinds is None or kind in kinds)
        async with self._scopes.open([one for plan in plans for one in worker_dependencies(plan)]) as state:
            yield state

    # --- for declarations --------------------------------------------------------------------------------------------

    def _place(self, handler: Handler, plan: InjectionPlan = NO_INJECTION) -> Handler:
        """Take over a handler and what fills its parameters; returns it with its surroundings."""
        for event in HOOK_EVENTS:  # of a module that was imported before
            self.handlers.pop(hook_kind(handler.name, event), None)
        self._plans[handler.name] = plan
        register(self.handlers, handler)
        self._surround(handler.name)
        return self.handlers[handler.name]

    def _add_hook(
        self,
        kind: str,
        event: HookEvent,
        function: Function,
        retry: Retry | None,
        timeout: Span | None,
        *,
        load: Load,
    ) -> None:
        handler = self.handlers[kind]
        if event in handler.kind.hooks:
            message = f"{kind} has a function for {event} already. Call the second one from the first."
            raise ConfigurationError(message)
        hook, own, plan = hook_of(handler.kind, event, function, retry, span(timeout, "timeout"))
        self._put(replace(handler, kind=replace(handler.kind, hooks={**handler.kind.hooks, event: hook})))
        self._plans[hook.kind], self._loads[hook.kind] = plan, load
        self._put(own)
        self._surround(hook.kind)

    def _surround_all(self) -> None:
        for name in {handler.name for handler in self.handlers.values()}:
            self._surround(name)

    def _surround(self, name: str) -> None:
        handler, plan = self.handlers[name], self._plans[name]
        if name in self._loads:
            wrapper = HookWrapper(self._scopes, self._middleware, plan, self._loads[name], is_async=handler.is_async)
            self._put(replace(handler, wrapper=wrapper))
        else:
            self._put(wrapped(handler, self._scopes, self._middleware, plan))

    def _put(self, handler: Handler) -> None:
        """Replace a handler under all its names."""
        self.handlers.update(dict.fromkeys((handler.name, *handler.kind.aliases), handler))


def _append(known: list[Any], function: Function) -> None:
    """Add a function, in place of itself if its module was imported again (reload, or run as __main__)."""
    place = _place_of(function)
    again = [n for n, item in enumerate(known) if place is not None and _place_of(item) == place]
    if again:
        known[again[0]] = function
    else:
        known.append(function)


def _place_of(function: Function) -> tuple[str, int] | None:
    """Where a module's own function is written; None: another function made it, perhaps not for the last time."""
    code = getattr(function, "__code__", None)
    if code is None or "<locals>" in code.co_qualname:
        return None
    return code.co_filename, code.co_firstlineno
