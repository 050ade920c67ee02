"""Dependency injection: fills the parameters of a handler that Depends() marks, and cleans up after it.

At declaration, `plan_injection` reads the providers and refuses cycles and parameters that no provider could fill. At
run time, a `Resolution` calls the providers. On the loop it awaits them; in a blocking handler's thread it waits for
the loop, so that blocking providers run in the thread of their handler and never block the loop.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

from rowlock.errors import ConfigurationError
from rowlock.flow.kinds.depends import bare, marked
from rowlock.flow.kinds.signature import hints_of, is_one_of
from rowlock.flow.progress.context import Context
from rowlock.flow.progress.sync_context import SyncContext
from rowlock.model.failure import Failure
from rowlock.model.job import Job

if TYPE_CHECKING:
    from rowlock.flow.kinds.depends import Dependency, Scope

Function: TypeAlias = Callable[..., object]
Wait: TypeAlias = Callable[[Awaitable[Any]], Awaitable[Any]]
"""How a resolution waits for a coroutine that has to run on the loop."""
ProviderForm = Literal["value", "coroutine", "generator", "async generator"]
GIVEN: Final[dict[str, type]] = {"Context": Context, "SyncContext": SyncContext, "Job": Job, "Failure": Failure}
_NONE_HIDDEN: Final[frozenset[Function]] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Provider:
    """A provider, read: how it is called and what fills its parameters."""

    function: Function
    form: ProviderForm
    parameters: Mapping[str, ResolvedDependency | str]
    """By parameter; a text is a key of GIVEN."""

    @property
    def name(self) -> str:
        """Its name for messages."""
        return named(self.function)


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedDependency:
    """A parameter's Depends() mark together with its provider, read."""

    provider: Provider
    scope: Scope
    cached: bool


InjectionPlan: TypeAlias = Mapping[str, ResolvedDependency | str]
"""By parameter: the provider that fills it, or a key of GIVEN."""
NO_INJECTION: Final[InjectionPlan] = {}


def named(function: Function) -> str:
    """A function's name for messages."""
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__qualname__", None) or type(inner).__qualname__).rpartition("<locals>.")[2]


# --- at declaration --------------------------------------------------------------------------------------------------


def plan_injection(
    injected: Mapping[str, Dependency], owner: str, *, is_async: bool, given: frozenset[str]
) -> InjectionPlan:
    """Plan the marked parameters of a handler; ConfigurationError if one can never be filled."""
    reader = _ProviderReader(owner, given - ({"SyncContext"} if is_async else set()), is_async=is_async)
    return {name: reader.resolve(mark, (), "job") for name, mark in injected.items()}


def read_provider(function: Function, owner: str) -> Provider:
    """Read a provider by itself, for an override: which handlers will use it is not known yet."""
    return _ProviderReader(owner, frozenset(GIVEN), is_async=False).provider(function, (), "job")


def plan_function(function: Function, owner: str, *, is_async: bool, given: frozenset[str]) -> InjectionPlan:
    """Plan every parameter of a function that takes no stored arguments, such as a hook."""
    reader = _ProviderReader(owner, given - ({"SyncContext"} if is_async else set()), is_async=is_async)
    return reader.parameters(function, (), "job", owner)


def worker_dependencies(plan: InjectionPlan) -> Iterator[ResolvedDependency]:
    """The dependencies of scope "worker" that a plan reaches."""
    for dependency in plan.values():
        if not isinstance(dependency, str):
            if dependency.scope == "worker":
                yield dependency
            else:
                yield from worker_dependencies(dependency.provider.parameters)


def asks_for(plan: InjectionPlan, given: str) -> bool:
    """Whether a plan, or a provider that it reaches, asks for that key of GIVEN."""
    return any(
        dependency == given if isinstance(dependency, str) else asks_for(dependency.provider.parameters, given)
        for dependency in plan.values()
    )


class _ProviderReader:
    """Reads the providers of one owner, which messages name."""

    def __init__(self, owner: str, given: frozenset[str], *, is_async: bool) -> None:
        self._owner, self._given, self._is_async = owner, given, is_async

    def resolve(self, mark: Dependency, path: tuple[Function, ...], asked_by: Scope) -> ResolvedDependency:
        function = cast("Function", mark.provider)
        if asked_by == "worker" and mark.scope == "job":
            message = (
                f"{self._owner}: {named(path[-1])} lives as long as the worker and cannot depend on {named(function)}, "
                'which is made for each job. Write Depends(…, scope="worker") there too.'
            )
            raise ConfigurationError(message)
        if function in path:
            circle = " → ".join(named(item) for item in (*path[path.index(function) :], function))
            message = f"{self._owner}: these providers need each other, so none can be first: {circle}."
            raise ConfigurationError(message)
        return ResolvedDependency(self.provider(function, path, mark.scope), mark.scope, mark.use_cache)

    def provider(self, function: Function, path: tuple[Function, ...], scope: Scope) -> Provider:
        try:
            hash(function)
        except TypeError:
            message = f"{self._owner}: the provider {function!r} must be hashable. Wrap it in a function."
            raise ConfigurationError(message) from None
        return Provider(function, form_of(function), self.parameters(function, (*path, function), scope, None))

    def parameters(
        self, function: Function, path: tuple[Function, ...], scope: Scope, who: str | None
    ) -> InjectionPlan:
        """who: the owner of the function; None: it is a provider, whose parameters may keep their defaults."""
        owner = who or f"{self._owner}: provider {named(function)}"
        plan: dict[str, ResolvedDependency | str] = {}
        for item in _parameters(function, owner):
            mark = marked(item, owner)
            if mark is not None:
                plan[item.name] = self.resolve(mark, path, scope)
            elif (kind := _given_of(item.annotation)) is not None:
                plan[item.name] = self._checked(kind, item, owner, scope)
            elif who is not None or item.default is Parameter.empty:
                raise ConfigurationError(self._unfilled(item, owner))
        return plan

    def _checked(self, kind: str, item: Parameter, owner: str, scope: Scope) -> str:
        if scope == "worker":
            message = f"{owner}: {item.name} asks for {kind}, but it lives as long as the worker and belongs to no job."
        elif kind == "SyncContext" and self._is_async:
            message = (
                f"{owner}: {item.name} asks for SyncContext, which would block the event loop: {self._owner} is an "
                "async def function. Ask for Context."
            )
        elif kind not in self._given:
            message = f"{owner}: {item.name} asks for {kind}, which does not exist here."
        else:
            return kind
        raise ConfigurationError(message)

    def _unfilled(self, item: Parameter, owner: str) -> str:
        what = "has no annotation" if item.annotation is Parameter.empty else f"is {bare(item.annotation)!r}"
        allowed = ", ".join(sorted(self._given))
        return (
            f"{owner}: nothing says what to pass as {item.name}, which {what}. "
            f"Write {item.name}: Annotated[…, Depends(provider)], or ask for one of {allowed}."
        )


def _parameters(function: Function, owner: str) -> list[Parameter]:
    target = _annotated(function)
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in class without a signature: called without arguments
        return []
    hints = hints_of(target, tuple(GIVEN.values()), owner, returns=False) if target is not None else {}
    return [
        item.replace(annotation=hints.get(item.name, item.annotation))
        for item in signature.parameters.values()
        if item.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]


def _annotated(function: Function) -> Function | None:
    """The function that has the annotations of a callable; None: there is none."""
    if isinstance(function, functools.partial):
        return _annotated(function.func)
    if isinstance(function, type):
        function = function.__init__  # type: ignore[misc]  # read, never called
    elif not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = type(function).__call__
    target = inspect.unwrap(function)
    return target if inspect.isfunction(target) or inspect.ismethod(target) else None


def _given_of(annotation: object) -> str | None:
    return next((name for name, item in GIVEN.items() if is_one_of(annotation, (item,))), None)


def form_of(function: Function) -> ProviderForm:
    """How a provider is called."""
    inner = function.func if isinstance(function, functools.partial) else function
    if not (inspect.isfunction(inner) or inspect.ismethod(inner) or isinstance(inner, type)):
        inner = type(inner).__call__
    if inspect.isasyncgenfunction(inner):
        return "async generator"
    if inspect.isgeneratorfunction(inner):
        return "generator"
    return "coroutine" if inspect.iscoroutinefunction(inner) else "value"


# --- at run ----------------------------------------------------------------------------------------------------------


class WorkerValues(Protocol):
    """The values that live as long as the worker."""

    async def value(self, dependency: ResolvedDependency, hidden: frozenset[Function]) -> object:
        """The value, made at first use."""


async def on_loop(awaitable: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever it is
    """Wait as a coroutine does."""
    return await awaitable


class Resolution:
    """The values made for one job (or one worker), and the generators among their providers, to be closed after it."""

    __slots__ = ("_cleanups", "_given", "_overrides", "_wait", "_worker_values", "made")

    def __init__(
        self,
        given: Mapping[str, object],
        overrides: Mapping[Function, Provider],
        worker_values: WorkerValues | None,
        wait: Wait = on_loop,
    ) -> None:
        """worker_values None: this is the resolution that makes them."""
        self._given, self._overrides, self._worker_values, self._wait = given, overrides, worker_values, wait
        self.made: dict[Function, object] = {}
        self._cleanups: list[Callable[[BaseException | None], Coroutine[Any, Any, object]]] = []

    async def fill(self, plan: InjectionPlan, hidden: frozenset[Function] = _NONE_HIDDEN) -> dict[str, object]:
        """The values of a plan, by parameter. hidden: see value()."""
        return {
            name: self._one_given(dependency) if isinstance(dependency, str) else await self.value(dependency, hidden)
            for name, dependency in plan.items()
        }

    def _one_given(self, name: str) -> object:
        if name not in self._given:
            # Only an override comes here: what it replaces was not known when it was read.
            message = f"An override asks for {name}, which does not exist where it is used."
            raise ConfigurationError(message)
        return self._given[name]

    async def value(self, dependency: ResolvedDependency, hidden: frozenset[Function] = _NONE_HIDDEN) -> object:
        """One value. hidden: overridden providers whose override is being made; it may depend on the original."""
        if dependency.scope == "worker" and self._worker_values is not None:
            return await self._wait(self._worker_values.value(dependency, hidden))
        provider = dependency.provider
        if self._overrides and provider.function in self._overrides and provider.function not in hidden:
            hidden |= {provider.function}
            provider = self._overrides[provider.function]
        cached = dependency.cached or dependency.scope == "worker"
        if cached and provider.function in self.made:
            return self.made[provider.function]
        value = await self._make(provider, await self.fill(provider.parameters, hidden))
        if cached:
            self.made[provider.function] = value
        return value

    async def _make(self, provider: Provider, values: dict[str, object]) -> object:
        function: Callable[..., Any] = provider.function
        if provider.form == "value":
            return function(**values)
        if provider.form == "coroutine":
            return await self._wait(function(**values))
        if provider.form == "generator":
            manager = contextlib.contextmanager(function)(**values)
            value = manager.__enter__()
            self._cleanups.append(lambda error: _exit(manager, error))
            return value
        return await self._enter_async(contextlib.asynccontextmanager(function)(**values))

    async def _enter_async(self, manager: contextlib.AbstractAsyncContextManager[object]) -> object:
        value = await self._wait(manager.__aenter__())
        self._cleanups.append(lambda error: self._exit_async(manager, error))
        return value

    async def _exit_async(
        self, manager: contextlib.AbstractAsyncContextManager[object], error: BaseException | None
    ) -> None:
        await self._wait(manager.__aexit__(type(error) if error else None, error, _trace(error)))

    async def close(self, error: BaseException | None) -> None:
        """Close the generators, last made first. Each gets the error so far and may replace it, but not swallow it."""
        while self._cleanups:
            try:
                await self._cleanups.pop()(error)
            except BaseException as raised:  # noqa: BLE001 - thrown on below
                error = raised
        if error is not None:
            raise error


async def _exit(manager: contextlib.AbstractContextManager[object], error: BaseException | None) -> None:
    manager.__exit__(type(error) if error else None, error, _trace(error))


def _trace(error: BaseException | None) -> Any:  # noqa: ANN401 - a traceback
    return None if error is None else error.__traceback__
