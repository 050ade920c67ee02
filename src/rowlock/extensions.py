"""Extensions: everything an application adds around its jobs, and the handlers wrapped in it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from rowlock.errors import ConfigurationError
from rowlock.flow.enqueue.middleware import EnqueueCall, EnqueueMiddleware
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
from rowlock.telemetry import Events

if TYPE_CHECKING:
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.run.hooks import Load
    from rowlock.flow.run.inject import Function, InjectionPlan
    from rowlock.model.hook import HookEvent
    from rowlock.model.options import Span
    from rowlock.model.retry import Retry

L = TypeVar("L", bound=Callable[[], object])
M = TypeVar("M", bound=Middleware)
N = TypeVar("N", bound=Callable[[EnqueueCall], Iterator[None]] | Callable[[EnqueueCall], None])


class Extensions:
    """Lifespans, dependencies, middleware, hooks and listeners of one application, and its handlers inside of them."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        """By name of the kind and by its aliases."""
        self.middleware: list[Middleware] = []
        self.enqueue_middleware: list[EnqueueMiddleware] = []
        self.events = Events()
        self.scopes = WorkerScopes()
        self._once: set[str] = set()
        self._plans: dict[str, InjectionPlan] = {}
        """By kind: how the parameters of its handler are filled."""
        self._loads: dict[str, Load] = {}
        """By kind of a hook: how it reads the job that it follows."""

    # --- for applications --------------------------------------------------------------------------------------------

    def add_lifespan(self, function: L) -> L:
        """Enter this generator before a worker's first claim, and leave it after its last job."""
        if inspect.iscoroutinefunction(function):
            message = f"{named(function)}: a lifespan yields once, between start and end; this one only returns."
            raise ConfigurationError(message)
        _append(self.scopes.lifespans, function)
        self._wrap_all()
        return function

    def add_middleware(self, function: M) -> M:
        """Run this function around every job."""
        checked_middleware(function)
        _append(self.middleware, function)
        self._wrap_all()
        return function

    def add_enqueue_middleware(self, function: N) -> N:
        """Run this function around every enqueue."""
        checked_enqueue_middleware(function)
        _append(self.enqueue_middleware, function)
        return function

    def add_once(self, name: str) -> None:
        """Refuse to be extended by the same function twice: every job would be traced or reported twice."""
        if name in self._once:
            message = f"{name}() was called for this application before. Call it once, where the application is made."
            raise ConfigurationError(message)
        self._once.add(name)

    @contextlib.contextmanager
    def override(self, provider: Function, replacement: Function) -> Iterator[None]:
        """Fill the parameters marked with Depends(provider) by another provider, inside the block."""
        overrides = self.scopes.overrides
        before = overrides.get(provider)
        overrides[provider] = read_provider(replacement, f"override of {named(provider)}")
        try:
            yield
        finally:
            if before is None:
                del overrides[provider]
            else:
                overrides[provider] = before

    @contextlib.asynccontextmanager
    async def open_scope(self, kinds: Collection[str] | None = None) -> AsyncIterator[Mapping[str, Any]]:
        """Enter the lifespans, and make the worker-scoped dependencies of these kinds; None: of all."""
        plans = (plan for kind, plan in self._plans.items() if kinds is None or kind in kinds)
        async with self.scopes.open([need for plan in plans for need in worker_dependencies(plan)]) as state:
            yield state

    # --- for declarations --------------------------------------------------------------------------------------------

    def add_handler(self, handler: Handler, plan: InjectionPlan = NO_INJECTION) -> Handler:
        """Register a handler; returns it wrapped in middleware. plan: how its other parameters are filled."""
        for event in HOOK_EVENTS:  # of a module that was imported before
            self.handlers.pop(hook_kind(handler.name, event), None)
        self._plans[handler.name] = plan
        register(self.handlers, handler)
        self._wrap(handler.name)
        return self.handlers[handler.name]

    def add_hook(
        self,
        kind: str,
        event: HookEvent,
        function: Function,
        retry: Retry | None,
        timeout: Span | None,
        *,
        load: Load,
    ) -> None:
        """Run this function, as a job of its own, after that event of a job of the kind. load: reads the job."""
        handler = self.handlers[kind]
        if event in handler.kind.hooks:
            message = f"{kind} has a function for {event} already. Call the second one from the first."
            raise ConfigurationError(message)
        hook, own, plan = hook_of(handler.kind, event, function, retry, span(timeout, "timeout"))
        self._replace(replace(handler, kind=replace(handler.kind, hooks={**handler.kind.hooks, event: hook})))
        self._plans[hook.kind], self._loads[hook.kind] = plan, load
        self._replace(own)
        self._wrap(hook.kind)

    def _wrap_all(self) -> None:
        for name in {handler.name for handler in self.handlers.values()}:
            self._wrap(name)

    def _wrap(self, name: str) -> None:
        handler, plan = self.handlers[name], self._plans[name]
        if name in self._loads:
            wrapper = HookWrapper(self.scopes, self.middleware, plan, self._loads[name], is_async=handler.is_async)
            self._replace(replace(handler, wrapper=wrapper))
        else:
            self._replace(wrapped(handler, self.scopes, self.middleware, plan))

    def _replace(self, handler: Handler) -> None:
        """Replace a handler under all its names."""
        self.handlers.update(dict.fromkeys((handler.name, *handler.kind.aliases), handler))


def _append(functions: list[Any], function: Function) -> None:
    """Add a function, or replace it if its module was imported again (reload, or run as __main__)."""
    place = _place_of(function)
    again = [n for n, item in enumerate(functions) if place is not None and _place_of(item) == place]
    if again:
        functions[again[0]] = function
    else:
        functions.append(function)


def _place_of(function: Function) -> tuple[str, int] | None:
    """File and line of a module's own function; None for one made by another function, which may make many."""
    code = getattr(function, "__code__", None)
    if code is None or "<locals>" in code.co_qualname:
        return None
    return code.co_filename, code.co_firstlineno
