"""Middleware: what surrounds a handler's call and an enqueue. The first that was registered is outermost."""

from __future__ import annotations

import asyncio
import functools
import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rowlock.errors import ConfigurationError
from rowlock.flow.progress.sync_context import SyncContext
from rowlock.flow.run.inject import NOTHING, Resolution, named
from rowlock.flow.run.scope import Host, Scopes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rowlock.flow.kinds.handler import Call, Handler
    from rowlock.flow.progress.context import Context
    from rowlock.flow.run.inject import Function, Need, Plan

Middleware: TypeAlias = "Callable[[Context, Callable[[], Awaitable[object]]], Awaitable[object]]"
"""async def timing(ctx, call): … return await call()"""
_INSIDE: Final = "rowlock:inside"
"""The keyword that carries the resolution into a blocking handler's thread; no parameter can be called so."""


# --- around the run --------------------------------------------------------------------------------------------------


class Surround:
    """Middleware, then providers, then the function."""

    def __init__(self, scopes: Scopes, middleware: Sequence[Middleware], plan: Plan, *, is_async: bool) -> None:
        self._scopes, self._middleware, self._plan, self._is_async = scopes, tuple(middleware), plan, is_async

    async def __call__(
        self, context: Context, args: tuple[object, ...], kwargs: Mapping[str, object], call: Call
    ) -> object:
        """Run the handler inside of all that."""
        scope = self._scopes.here()
        if scope is not None:
            context.state = scope.state

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
            given["SyncContext"] = SyncContext(context, asyncio.get_running_loop())
        return given

    async def _filled(
        self, given: dict[str, object], args: tuple[object, ...], kwargs: Mapping[str, object], call: Call
    ) -> object:
        if not self._plan:
            return await call(args, kwargs)
        keeper = self._scopes.here() or _NoWorker()
        if not self._is_async:
            inside = _Inside(self._plan, given, self._scopes, keeper, asyncio.get_running_loop())
            try:
                return await call(args, {**kwargs, _INSIDE: inside})
            finally:
                await inside.host.end()
        resolution = Resolution(given, self._scopes.overrides, keeper)
        try:
            value = await call(args, {**kwargs, **await resolution.fill(self._plan)})
        except BaseException as error:
            await resolution.leave(error)
            raise
        await resolution.leave(None)
        return value


class _NoWorker:
    async def value(self, need: Need, hidden: frozenset[Function]) -> object:
        del hidden
        message = (
            f'{need.provider.name} has the scope "worker", but no worker runs on this event loop. '
            "Run the job inside of: async with app.worker_scope()"
        )
        raise ConfigurationError(message)


@dataclass(slots=True, eq=False)
class _Inside:
    """What a blocking handler's thread needs to fill its parameters there."""

    plan: Plan
    given: Mapping[str, object]
    scopes: Scopes
    keeper: Any
    loop: asyncio.AbstractEventLoop
    host: Host

    def __init__(
        self, plan: Plan, given: Mapping[str, object], scopes: Scopes, keeper: object, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.plan, self.given, self.scopes, self.keeper, self.loop = plan, given, scopes, keeper, loop
        self.host = Host()

    def run(self, function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Fill, call, run the tails: all in the handler's own thread but for what has to be awaited."""
        resolution = Resolution(self.given, self.scopes.overrides, self.keeper, self._wait)
        try:
            value = function(*args, **kwargs, **_at_once(resolution.fill(self.plan)))
        except BaseException as error:
            _at_once(resolution.leave(error))
            raise
        _at_once(resolution.leave(None))
        return value

    async def _wait(self, awaitable: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever it is
        """Never suspends: it blocks this thread until the loop has done it."""
        return asyncio.run_coroutine_threadsafe(self.host.do(awaitable), self.loop).result()


def _at_once(coroutine: Any) -> Any:  # noqa: ANN401 - a coroutine that never suspends, and its value
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    coroutine.close()
    raise AssertionError  # pragma: no cover - every wait of a thread's resolution blocks


def inside(function: Function) -> Function:
    """A blocking function that fills its marked parameters in its own thread; called by hand it is itself."""

    @functools.wraps(function)
    def filled(*args: object, **kwargs: Any) -> object:  # noqa: ANN401 - the function's own
        scene = kwargs.pop(_INSIDE, None)
        return function(*args, **kwargs) if scene is None else scene.run(function, args, kwargs)

    return filled


def surrounded(handler: Handler, scopes: Scopes, middleware: Sequence[Middleware], plan: Plan = NOTHING) -> Handler:
    """The handler with what surrounds it, or with nothing when there is nothing."""
    needed = bool(plan or middleware or scopes.lifespans)
    around = Surround(scopes, middleware, plan, is_async=handler.is_async) if needed else None
    return replace(handler, around=around)


def checked_middleware(function: Function) -> None:
    """Refuse what could never be called as middleware."""
    if not inspect.iscoroutinefunction(function):
        message = f"Middleware is an async function: async def {named(function)}(ctx, call): return await call()"
        raise ConfigurationError(message)


# --- around an enqueue -----------------------------------------------------------------------------------------------


def checked_enqueue_middleware(function: Function) -> None:
    """Refuse what blocking callers could not call."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        message = (
            f"{named(function)}: enqueue middleware is a plain function or a generator, not async: "
            "it surrounds enqueue_sync() too."
        )
        raise ConfigurationError(message)
