"""The type of the decorator that app.job(…) returns, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowlock.flow.progress.context import Context
    from rowlock.flow.progress.sync_context import SyncContext
    from rowlock.tasks import SyncTask, Task

P = ParamSpec("P")
R = TypeVar("R")


class NoContext:
    """For type checkers: a parameter that accepts this accepts anything, so it must not be taken for the context."""


class JobDecorator(Protocol):
    """Makes a task of a function. A context as the function's first parameter is no argument of the job."""

    @overload
    def __call__(self, function: Callable[Concatenate[NoContext, ...], Any], /) -> SyncTask[..., Any]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Task[P, R]: ...  # type: ignore[overload-overlap]  # the exact ones come first
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...  # type: ignore[overload-overlap]  # as above
    @overload
    def __call__(self, function: Callable[Concatenate[SyncContext, P], R], /) -> SyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
