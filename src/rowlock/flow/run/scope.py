"""WorkerScope: values that live as long as a worker: what lifespans yield, and dependencies of scope "worker"."""

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
from rowlock.flow.run.inject import Resolution, ResolvedDependency, named

if TYPE_CHECKING:
    from rowlock.flow.run.inject import Function, Provider

logger = logging.getLogger("rowlock.worker")
T = TypeVar("T")
Lifespan: TypeAlias = Callable[[], Any]
"""A generator function with one yield, async or not, or a function that returns a context manager."""


class OneTask:
    """Runs awaitables in turn in one task: a task group or a timeout must be left by the task that entered it."""

    def __init__(self) -> None:
        self._steps: asyncio.Queue[tuple[Awaitable[Any], asyncio.Future[Any]] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def run(self, step: Awaitable[T]) -> T:
        """Run it in the task and return its value; it goes on when the caller is cancelled."""
        loop = asyncio.get_running_loop()
        if self._task is not None and self._task.done():
            # The task was cancelled: the next best place is here.
            return await step
        if self._task is None:
            self._task = loop.create_task(self._serve(), name="rowlock-scope")
        answer: asyncio.Future[T] = loop.create_future()
        self._steps.put_nowait((step, answer))
        return await answer

    def interrupt(self) -> None:
        """Cancel the task and the awaitable it runs."""
        if self._task is not None:
            self._task.cancel()

    async def end(self) -> None:
        """Run the steps that are queued already, then end the task."""
        if self._task is not None:
            self._steps.put_nowait(None)
            await asyncio.wait({self._task})
            self._task = None

    async def _serve(self) -> None:
        while (queued := await self._steps.get()) is not None:
            step, answer = queued
            try:
                value = await step
            except BaseException as error:  # noqa: BLE001 - raised in run()
                if not answer.done():
                    answer.set_exception(_for_future(error))
                if isinstance(error, asyncio.CancelledError):
                    return
            else:
                if not answer.done():
                    answer.set_result(value)


def _for_future(error: BaseException) -> BaseException:
    """The error as a future can hold it: StopIteration cannot be set on one."""
    if not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError("a provider raised StopIteration")
    wrapped.__cause__ = error
    return wrapped


class WorkerScope:
    """The values of one event loop that runs jobs; all workers on the loop share them."""

    def __init__(self, overrides: Mapping[Function, Provider]) -> None:
        self.state: Mapping[str, Any] = NO_STATE
        self.users = 0
        self._task = OneTask()
        self._overrides = overrides
        self._resolution = Resolution({}, overrides, None)
        self._stack = contextlib.AsyncExitStack()

    async def enter(self, lifespans: Iterable[Lifespan], dependencies: Iterable[ResolvedDependency]) -> None:
        """Enter the lifespans in order, then make the dependencies of the worker's kinds."""
        try:
            await self._task.run(self._enter(list(lifespans), list(dependencies)))
        except asyncio.CancelledError:
            self._task.interrupt()
            await self._task.end()
            raise

    async def make(self, dependencies: Iterable[ResolvedDependency]) -> None:
        """Make the dependencies of more kinds."""
        for dependency in dependencies:
            await self.value(dependency)

    async def value(self, dependency: ResolvedDependency, hidden: frozenset[Function] = frozenset()) -> object:
        """The value of a dependency of scope "worker", made at first use. hidden: see Resolution.value."""
        function = dependency.provider.function
        if not self._overrides and function in self._resolution.made:
            return self._resolution.made[function]
        return await self._task.run(self._resolution.value(dependency, hidden))

    async def leave(self) -> None:
        """Close the providers, then the lifespans, last first."""
        try:
            await self._task.run(self._leave())
        finally:
            await self._task.end()

    async def _enter(self, lifespans: list[Lifespan], dependencies: list[ResolvedDependency]) -> None:
        name = ""
        try:
            state: dict[str, Any] = {}
            for lifespan in lifespans:
                name = named(lifespan)
                state |= _disjoint(state, await self._entered(lifespan), name)
            self.state = MappingProxyType(state)
            for dependency in dependencies:
                name = dependency.provider.name
                await self._resolution.value(dependency)
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
            await self._resolution.close(None)
        finally:
            await self._stack.aclose()


def _manager(lifespan: Lifespan) -> object:
    if inspect.isasyncgenfunction(lifespan):
        return contextlib.asynccontextmanager(lifespan)()
    if inspect.isgeneratorfunction(lifespan):
        return contextlib.contextmanager(lifespan)()
    return lifespan()


def _disjoint(state: Mapping[str, Any], more: object, name: str) -> Mapping[str, Any]:
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


class WorkerScopes:
    """The worker scopes of one application, one per event loop: their values are mostly bound to a loop."""

    def __init__(self) -> None:
        self.lifespans: list[Lifespan] = []
        self.overrides: dict[Function, Provider] = {}
        self._open: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, WorkerScope] = weakref.WeakKeyDictionary()
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()

    def here(self) -> WorkerScope | None:
        """The scope of the running loop; None: no worker runs on it."""
        return self._open.get(asyncio.get_running_loop())

    @contextlib.asynccontextmanager
    async def open(self, dependencies: Iterable[ResolvedDependency]) -> AsyncIterator[Mapping[str, Any]]:
        """Enter the scope of this loop, or share it with the workers that have; the last one to leave closes it."""
        loop = asyncio.get_running_loop()
        lock = self._locks.setdefault(loop, asyncio.Lock())
        async with lock:
            scope = self._open.get(loop)
            if scope is None:
                scope = WorkerScope(self.overrides)
                await scope.enter(self.lifespans, dependencies)
                self._open[loop] = scope
            else:
                await scope.make(dependencies)
            scope.users += 1
        try:
            yield scope.state
        finally:
            async with lock:
                scope.users -= 1
                if not scope.users:
                    del self._open[loop]
                    await scope.leave()
