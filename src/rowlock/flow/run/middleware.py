"""HandlerWrapper: middleware and injected dependencies around a handler's call. The first middleware is outermost."""

from __future__ import annotations

import asyncio
import functools
import inspect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rowlock.errors import ConfigurationError
from rowlock.flow.progress.base_context import io_of
from rowlock.flow.progress.sync_context import sync_context_of
from rowlock.flow.run.inject import NO_INJECTION, Resolution, named
from rowlock.flow.run.scope import OneTask, WorkerScopes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rowlock.flow.kinds.handler import Call, Handler
    from rowlock.flow.progress.context import Context
    from rowlock.flow.run.inject import Function, InjectionPlan, ResolvedDependency, WorkerValues

Middleware: TypeAlias = "Callable[[Context, Callable[[], Awaitable[object]]], Awaitable[object]]"
"""async def timing(ctx, call): … return await call()"""
_INJECTION: Final = "rowlock:injection"
"""The keyword that carries the injection into a blocking handler's thread; no parameter can have that name."""


# --- around the run --------------------------------------------------------------------------------------------------


class HandlerWrapper:
    """Calls middleware, then providers, then the function."""

    def __init__(
        self, scopes: WorkerScopes, middleware: Sequence[Middleware], plan: InjectionPlan, *, is_async: bool
    ) -> None:
        self._scopes, self._middleware, self._plan, self._is_async = scopes, tuple(middleware), plan, is_async

    async def __call__(
        self, context: Context, args: tuple[object, ...], kwargs: Mapping[str, object], call: Call
    ) -> object:
        """Call the handler inside its middleware, with its dependencies."""
        scope = self._scopes.here()
        if scope is not None:
            io_of(context).state = scope.state

        async def inner() -> object:
            return await self._innermost(context, args, kwargs, call)

        for item in reversed(self._middleware):
            inner = functools.partial(item, context, inner)  # type: ignore[assignment]  # both are called without arguments
        return await inner()

    async def _innermost(
        self, context: Context, args: tuple[object, ...], kwargs: Mapping[str, object], call: Call
    ) -> object:
        return await self._filled(self._given(context), args, kwargs, call)

    def _given(self, context: Context) -> dict[str, object]:
        given: dict[str, object] = {"Context": context}
        if self._plan:
            given["Job"] = context.job
        if not self._is_async:
            given["SyncContext"] = sync_context_of(io_of(context), asyncio.get_running_loop())
        return given

    async def _filled(
        self, given: dict[str, object], args: tuple[object, ...], kwargs: Mapping[str, object], call: Call
    ) -> object:
        if not self._plan:
            return await call(args, kwargs)
        worker_values = self._scopes.here() or _NoWorkerValues()
        if not self._is_async:
            injection = _ThreadInjection(self._plan, given, self._scopes, worker_values, asyncio.get_running_loop())
            try:
                return await call(args, {**kwargs, _INJECTION: injection})
            finally:
                await injection.task.end()
        resolution = Resolution(given, self._scopes.overrides, worker_values)
        try:
            value = await call(args, {**kwargs, **await resolution.fill(self._plan)})
        except BaseException as error:
            await resolution.close(error)
            raise
        await resolution.close(None)
        return value


class _NoWorkerValues:
    """Stands in where no worker runs on the loop."""

    async def value(self, dependency: ResolvedDependency, hidden: frozenset[Function]) -> object:
        del hidden
        message = (
            f'{dependency.provider.name} has the scope "worker", but no worker runs on this event loop. '
            "Run the job inside of: async with app.worker_scope()"
        )
        raise ConfigurationError(message)


@dataclass(slots=True, eq=False)
class _ThreadInjection:
    """Fills the parameters of a blocking handler in its own thread."""

    plan: InjectionPlan
    given: Mapping[str, object]
    scopes: WorkerScopes
    worker_values: WorkerValues
    loop: asyncio.AbstractEventLoop
    task: OneTask = field(default_factory=OneTask)

    def run(self, function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Fill the parameters, call the function, close the providers; only coroutines run on the loop."""
        resolution = Resolution(self.given, self.scopes.overrides, self.worker_values, self._wait)
        try:
            value = function(*args, **kwargs, **_at_once(resolution.fill(self.plan)))
        except BaseException as error:
            _at_once(resolution.close(error))
            raise
        _at_once(resolution.close(None))
        return value

    async def _wait(self, awaitable: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever it is
        """Block this thread until the loop has run it; so the resolution never suspends here."""
        return asyncio.run_coroutine_threadsafe(self.task.run(awaitable), self.loop).result()


def _at_once(coroutine: Any) -> Any:  # noqa: ANN401 - a coroutine that never suspends, and its value
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    coroutine.close()
    raise AssertionError  # pragma: no cover - every wait of a thread's resolution blocks


def fills_in_thread(function: Function) -> Function:
    """Wrap a blocking function: when a worker calls it, its marked parameters are filled in its own thread."""

    @functools.wraps(function)
    def filled(*args: object, **kwargs: Any) -> object:  # noqa: ANN401 - the function's own
        injection = kwargs.pop(_INJECTION, None)
        return function(*args, **kwargs) if injection is None else injection.run(function, args, kwargs)

    return filled


def wrapped(
    handler: Handler, scopes: WorkerScopes, middleware: Sequence[Middleware], plan: InjectionPlan = NO_INJECTION
) -> Handler:
    """The handler with its wrapper; without one if there is nothing to wrap around it."""
    needed = bool(plan or middleware or scopes.lifespans)
    wrapper = HandlerWrapper(scopes, middleware, plan, is_async=handler.is_async) if needed else None
    return replace(handler, wrapper=wrapper)


def checked_middleware(function: Function) -> None:
    """Refuse a function that cannot be called as middleware."""
    if not inspect.iscoroutinefunction(function):
        message = f"Middleware is an async function: async def {named(function)}(ctx, call): return await call()"
        raise ConfigurationError(message)


# --- around an enqueue -----------------------------------------------------------------------------------------------


def checked_enqueue_middleware(function: Function) -> None:
    """Refuse a function that blocking callers could not call."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        message = (
            f"{named(function)}: enqueue middleware is a plain function or a generator, not async: "
            "it surrounds enqueue_sync() too."
        )
        raise ConfigurationError(message)
