"""Scope: what lives as long as a worker: what its lifespans yield, and providers of scope "worker"."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rowlock.errors import ConfigurationError, StartFailed
from rowlock.flow.progress.attempt_io import NO_STATE
from rowlock.flow.run.inject import Need, Resolution, named

if TYPE_CHECKING:
    from rowlock.flow.run.inject import Function, Provider

logger = logging.getLogger("rowlock.worker")
T = TypeVar("T")
Lifespan: TypeAlias = Callable[[], Any]
"""A generator function with one yield, async or not, or a function that returns a context manager."""


class Host:
    """One task that does steps in turn: a task group or a timeout must be left by the task that entered it."""

    def __init__(self) -> None:
        self._steps: asyncio.Queue[tuple[Awaitable[Any], asyncio.Future[Any]] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def do(self, step: Awaitable[T]) -> T:
        """Have the step done; it goes on when the caller is cancelled."""
        loop = asyncio.get_running_loop()
        if self._task is not None and self._task.done():
            # Something cancelled the task: the next best place is here.
            return await step
        if self._task is None:
            self._task = loop.create_task(self._serve(), name="rowlock-scope")
        answer: asyncio.Future[T] = loop.create_future()
        self._steps.put_nowait((step, answer))
        return await answer

    def interrupt(self) -> None:
        """Cancel the step under way, and the task with it."""
        if self._task is not None:
            self._task.cancel()

    async def end(self) -> None:
        """End the task after its last step."""
        if self._task is not None:
            self._steps.put_nowait(None)
            await asyncio.wait({self._task})
            self._task = None

    async def _serve(self) -> None:
        while (asked := await self._steps.get()) is not None:
            step, answer = asked
            try:
                value = await step
            except BaseException as error:  # noqa: BLE001 - whoever asked gets it
                if not answer.done():
                    answer.set_exception(_bearable(error))
                if isinstance(error, asyncio.CancelledError):
                    return
            else:
                if not answer.done():
                    answer.set_result(value)


def _bearable(error: BaseException) -> BaseException:
    """StopIteration cannot pass a future."""
    if not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError("a provider raised StopIteration")
    wrapped.__cause__ = error
    return wrapped


class WorkerScope:
    """One per event loop that runs jobs, however many workers share it."""

    def __init__(self, overrides: Mapping[Function, Provider]) -> None:
        self.state: Mapping[str, Any] = NO_STATE
        self.users = 0
        self._host = Host()
        self._overrides = overrides
        self._resolution = Resolution({}, overrides, None)
        self._stack = contextlib.AsyncExitStack()

    async def enter(self, lifespans: Iterable[Lifespan], needs: Iterable[Need]) -> None:
        """Enter the lifespans in order, then make what the worker's kinds need."""
        try:
            await self._host.do(self._enter(list(lifespans), list(needs)))
        except asyncio.CancelledError:
            self._host.interrupt()
            await self._host.end()
            raise

    async def also(self, needs: Iterable[Need]) -> None:
        """Make more of what kinds need."""
        for need in needs:
            await self.value(need)

    async def value(self, need: Need, hidden: frozenset[Function] = frozenset()) -> object:
        """The value of a provider of scope "worker", made at first need."""
        if not self._overrides and need.provider.function in self._resolution.made:
            return self._resolution.made[need.provider.function]
        return await self._host.do(self._resolution.value(need, hidden))

    async def leave(self) -> None:
        """Run the tails of the providers, then those of the lifespans, last first."""
        try:
            await self._host.do(self._leave())
        finally:
            await self._host.end()

    async def _enter(self, lifespans: list[Lifespan], needs: list[Need]) -> None:
        name = ""
        try:
            state: dict[str, Any] = {}
            for lifespan in lifespans:
                name = named(lifespan)
                state |= _apart(state, await self._entered(lifespan), name)
            self.state = MappingProxyType(state)
            for need in needs:
                name = need.provider.name
                await self._resolution.value(need)
        except BaseException as error:
            with contextlib.suppress(Exception):
                await self._leave()
            if not isinstance(error, Exception):
                raise
            logger.exception("%s failed, so this worker does not start", name)
            message = f"The worker did not start: {name} failed with {type(error).__name__}: {error}"
            raise StartFailed(message) from error

    async def _entered(self, lifespan: Lifespan) -> object:
        manager = _manager(lifespan)
        if isinstance(manager, contextlib.AbstractAsyncContextManager):
            return await self._stack.enter_async_context(manager)
        if isinstance(manager, contextlib.AbstractContextManager):
            return self._stack.enter_context(manager)
        message = f"A lifespan yields once, or returns a context manager; it returned {manager!r}."
        raise ConfigurationError(message)

    async def _leave(self) -> None:
        try:
            await self._resolution.leave(None)
        finally:
            await self._stack.aclose()


def _manager(lifespan: Lifespan) -> object:
    if inspect.isasyncgenfunction(lifespan):
        return contextlib.asynccontextmanager(lifespan)()
    if inspect.isgeneratorfunction(lifespan):
        return contextlib.contextmanager(lifespan)()
    return lifespan()


def _apart(state: Mapping[str, Any], more: object, name: str) -> Mapping[str, Any]:
    if more is None:
        return {}
    if not isinstance(more, Mapping):
        message = f"A lifespan yields a mapping, which handlers find in ctx.state, or nothing; got {more!r}."
        raise ConfigurationError(message)
    twice = sorted(state.keys() & more.keys())
    if twice:
        message = f"{name} yields {', '.join(map(repr, twice))}, which another lifespan yields already. Rename one."
        raise ConfigurationError(message)
    return more


class Scopes:
    """The worker scopes of one application, one per event loop: what they hold is mostly bound to its loop."""

    def __init__(self) -> None:
        self.lifespans: list[Lifespan] = []
        self.overrides: dict[Function, Provider] = {}
        self._open: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, WorkerScope] = weakref.WeakKeyDictionary()
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()

    def here(self) -> WorkerScope | None:
        """The scope of the running loop; None: no worker runs on it."""
        return self._open.get(asyncio.get_running_loop())

    @contextlib.asynccontextmanager
    async def open(self, needs: Iterable[Need]) -> AsyncIterator[Mapping[str, Any]]:
        """Enter the scope of this loop, or share it with those who have; the last one to leave closes it."""
        loop = asyncio.get_running_loop()
        turn = self._turns.setdefault(loop, asyncio.Lock())
        async with turn:
            scope = self._open.get(loop)
            if scope is None:
                scope = WorkerScope(self.overrides)
                await scope.enter(self.lifespans, needs)
                self._open[loop] = scope
            else:
                await scope.also(needs)
            scope.users += 1
        try:
            yield scope.state
        finally:
            async with turn:
                scope.users -= 1
                if not scope.users:
                    del self._open[loop]
                    await scope.leave()
