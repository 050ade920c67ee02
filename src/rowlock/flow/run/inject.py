"""Inject: providers -> the values of a handler's marked parameters, and their tails after it.

Everything that can be known at declaration is worked out then: who needs what, cycles, what nobody could fill. The same
resolution serves both kinds of handlers: on the loop it awaits, in a blocking handler's own thread it waits for the
loop, so that blocking providers run where their handler runs and never hold up the loop.
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
"""How a resolution waits for what belongs on the loop."""
Form = Literal["value", "coroutine", "generator", "async generator"]
GIVEN: Final[dict[str, type]] = {"Context": Context, "SyncContext": SyncContext, "Job": Job, "Failure": Failure}
_NOBODY: Final[frozenset[Function]] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Provider:
    """A provider that was understood: how it is called and what it needs; a text is a key of GIVEN."""

    function: Function
    form: Form
    needs: Mapping[str, Need | str]

    @property
    def name(self) -> str:
        """How messages call it."""
        return named(self.function)


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """One parameter's wish."""

    provider: Provider
    scope: Scope
    cached: bool


Plan: TypeAlias = Mapping[str, Need | str]
"""What fills which parameter: a provider, or something given."""
NOTHING: Final[Plan] = {}


def named(function: Function) -> str:
    """A function's name for messages."""
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__qualname__", None) or type(inner).__qualname__).rpartition("<locals>.")[2]


# --- at declaration --------------------------------------------------------------------------------------------------


def planned(injected: Mapping[str, Dependency], owner: str, *, is_async: bool, given: frozenset[str]) -> Plan:
    """What fills the marked parameters of a handler; ConfigurationError when something never could."""
    reader = _Reader(owner, given - ({"SyncContext"} if is_async else set()), is_async=is_async)
    return {name: reader.need(mark, (), "job") for name, mark in injected.items()}


def understood(function: Function, owner: str) -> Provider:
    """A provider by itself, for an override: who will use it is not known yet."""
    return _Reader(owner, frozenset(GIVEN), is_async=False).provider(function, (), "job")


def given_or_needed(function: Function, owner: str, *, is_async: bool, given: frozenset[str]) -> Plan:
    """What fills every parameter of a function that takes no arguments of its own, such as a hook."""
    reader = _Reader(owner, given - ({"SyncContext"} if is_async else set()), is_async=is_async)
    return reader.parameters(function, (), "job", owner)


def worker_needs(plan: Plan) -> Iterator[Need]:
    """The providers of scope "worker" that a plan reaches."""
    for need in plan.values():
        if not isinstance(need, str):
            if need.scope == "worker":
                yield need
            else:
                yield from worker_needs(need.provider.needs)


def asks_for(plan: Plan, given: str) -> bool:
    """Whether a plan, or a provider that it reaches, asks for something given."""
    return any(
        need == given if isinstance(need, str) else asks_for(need.provider.needs, given) for need in plan.values()
    )


class _Reader:
    """Reads providers on behalf of one owner."""

    def __init__(self, owner: str, given: frozenset[str], *, is_async: bool) -> None:
        self._owner, self._given, self._is_async = owner, given, is_async

    def need(self, mark: Dependency, path: tuple[Function, ...], asked_by: Scope) -> Need:
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
        return Need(self.provider(function, path, mark.scope), mark.scope, mark.use_cache)

    def provider(self, function: Function, path: tuple[Function, ...], scope: Scope) -> Provider:
        try:
            hash(function)
        except TypeError:
            message = f"{self._owner}: the provider {function!r} must be hashable. Wrap it in a function."
            raise ConfigurationError(message) from None
        return Provider(function, form_of(function), self.parameters(function, (*path, function), scope, None))

    def parameters(self, function: Function, path: tuple[Function, ...], scope: Scope, who: str | None) -> Plan:
        """Who None: a provider's, whose parameters may keep their defaults."""
        owner = who or f"{self._owner}: provider {named(function)}"
        plan: dict[str, Need | str] = {}
        for item in _parameters(function, owner):
            mark = marked(item, owner)
            if mark is not None:
                plan[item.name] = self.need(mark, path, scope)
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
            message = f"{owner}: {item.name} asks for {kind}, which there is none of here."
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
    except ValueError:  # a built-in class that does not tell: called without arguments
        return []
    hints = hints_of(target, tuple(GIVEN.values()), owner) if target is not None else {}
    return [
        item.replace(annotation=hints.get(item.name, item.annotation))
        for item in signature.parameters.values()
        if item.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]


def _annotated(function: Function) -> Function | None:
    """Where the annotations of a callable are; None: nowhere."""
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


def form_of(function: Function) -> Form:
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


class Keeper(Protocol):
    """What keeps the values that live as long as the worker."""

    async def value(self, need: Need, hidden: frozenset[Function]) -> object:
        """The value, made at first need."""


async def on_loop(awaitable: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever it is
    """Wait the ordinary way."""
    return await awaitable


class Resolution:
    """The values made for one job (or one worker), and the tails of the generators that made them."""

    __slots__ = ("_given", "_keeper", "_leave", "_overrides", "_wait", "made")

    def __init__(
        self,
        given: Mapping[str, object],
        overrides: Mapping[Function, Provider],
        keeper: Keeper | None,
        wait: Wait = on_loop,
    ) -> None:
        """Keeper None: this resolution is the worker's own."""
        self._given, self._overrides, self._keeper, self._wait = given, overrides, keeper, wait
        self.made: dict[Function, object] = {}
        self._leave: list[Callable[[BaseException | None], Coroutine[Any, Any, object]]] = []

    async def fill(self, plan: Plan, hidden: frozenset[Function] = _NOBODY) -> dict[str, object]:
        """The values of a plan, by parameter."""
        return {
            name: self._one_given(need) if isinstance(need, str) else await self.value(need, hidden)
            for name, need in plan.items()
        }

    def _one_given(self, name: str) -> object:
        if name not in self._given:
            # Only a replacement comes here: whose place it takes was not known when it was read.
            message = f"A replacement asks for {name}, which there is none of where it is used."
            raise ConfigurationError(message)
        return self._given[name]

    async def value(self, need: Need, hidden: frozenset[Function] = _NOBODY) -> object:
        """One value. hidden: providers whose replacement is being made; to it they mean the original."""
        if need.scope == "worker" and self._keeper is not None:
            return await self._wait(self._keeper.value(need, hidden))
        provider = need.provider
        if self._overrides and provider.function in self._overrides and provider.function not in hidden:
            hidden |= {provider.function}
            provider = self._overrides[provider.function]
        cached = need.cached or need.scope == "worker"
        if cached and provider.function in self.made:
            return self.made[provider.function]
        value = await self._make(provider, await self.fill(provider.needs, hidden))
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
            self._leave.append(lambda error: _left(manager, error))
            return value
        return await self._make_async(contextlib.asynccontextmanager(function)(**values))

    async def _make_async(self, manager: contextlib.AbstractAsyncContextManager[object]) -> object:
        value = await self._wait(manager.__aenter__())
        self._leave.append(lambda error: self._left_async(manager, error))
        return value

    async def _left_async(
        self, manager: contextlib.AbstractAsyncContextManager[object], error: BaseException | None
    ) -> None:
        await self._wait(manager.__aexit__(type(error) if error else None, error, _trace(error)))

    async def leave(self, error: BaseException | None) -> None:
        """Run the tails, last made first; each is told the error so far and may replace it, but not undo it."""
        while self._leave:
            try:
                await self._leave.pop()(error)
            except BaseException as raised:  # noqa: BLE001 - thrown on below
                error = raised
        if error is not None:
            raise error


async def _left(manager: contextlib.AbstractContextManager[object], error: BaseException | None) -> None:
    manager.__exit__(type(error) if error else None, error, _trace(error))


def _trace(error: BaseException | None) -> Any:  # noqa: ANN401 - a traceback
    return None if error is None else error.__traceback__
