"""Depends(): marks a parameter that a provider fills instead of the caller."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, overload

from rowlock.errors import ConfigurationError

if typing.TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

T = TypeVar("T")
Scope = Literal["job", "worker"]


@dataclass(frozen=True, slots=True, eq=False)
class Dependency:
    """The mark that Depends() returns. provider None: the annotated class."""

    provider: Callable[..., object] | None
    scope: Scope
    use_cache: bool

    def __getattr__(self, name: str) -> object:
        """Reached only when the function is called directly without this argument: say so."""
        message = (
            f"This is {self!r}, not what it provides, so it has no {name!r}. Only a worker fills it in: "
            "who calls the function directly passes that argument."
        )
        raise AttributeError(message)


# The overloads let `service: Service = Depends(make_service)` be checked: the default has the type of what is provided.
@overload
def Depends(provider: None = None, *, scope: Scope = "job", use_cache: bool = True) -> Any: ...  # noqa: ANN401 - the annotation's
@overload
def Depends(provider: Callable[..., AsyncIterator[T]], *, scope: Scope = "job", use_cache: bool = True) -> T: ...
@overload
def Depends(provider: Callable[..., Awaitable[T]], *, scope: Scope = "job", use_cache: bool = True) -> T: ...
@overload
def Depends(provider: Callable[..., Iterator[T]], *, scope: Scope = "job", use_cache: bool = True) -> T: ...
@overload
def Depends(provider: Callable[..., T], *, scope: Scope = "job", use_cache: bool = True) -> T: ...
def Depends(  # noqa: N802 - the name users of FastAPI know
    provider: Callable[..., object] | None = None, *, scope: Scope = "job", use_cache: bool = True
) -> Any:
    """Have a parameter filled by a provider: a function, a class or a generator, blocking or not.

    Annotated[Service, Depends(make_service)], or service: Service = Depends(make_service), which type checkers let
    enqueue() leave out. Without a provider the annotated class is called.
    scope       "job": made for each job; "worker": made once, lives as long as the worker
    use_cache   False: made anew for each parameter that asks, instead of once per job
    """
    if scope not in ("job", "worker"):
        message = f'Depends: scope is "job" or "worker"; got {scope!r}.'
        raise ConfigurationError(message)
    if provider is not None and not callable(provider):
        message = f"Depends: expected a function or a class that makes the value; got {provider!r}."
        raise ConfigurationError(message)
    return Dependency(provider, scope, use_cache)


def marked(parameter: Parameter, owner: str) -> Dependency | None:
    """The mark of a parameter, whose annotation is resolved; None: it has none."""
    found = [parameter.default, *_metadata(parameter.annotation)]
    if any(item is Depends for item in found):
        message = f"{owner}: parameter {parameter.name} is marked with Depends itself. Call it: Depends(…)."
        raise ConfigurationError(message)
    marks = [item for item in found if isinstance(item, Dependency)]
    if not marks:
        return None
    if len(marks) > 1:
        message = f"{owner}: parameter {parameter.name} has more than one Depends(). Keep one of them."
        raise ConfigurationError(message)
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        message = f"{owner}: parameter {parameter.name} is filled by name. Move it behind the `/`."
        raise ConfigurationError(message)
    if marks[0].provider is not None:
        return marks[0]
    made = bare(parameter.annotation)
    if not isinstance(made, type):
        message = (
            f"{owner}: Depends() of parameter {parameter.name} names no provider, and its annotation "
            f"{made!r} is no class that could be called. Write Depends(provider)."
        )
        raise ConfigurationError(message)
    return Dependency(made, marks[0].scope, marks[0].use_cache)


def bare(annotation: object) -> object:
    """The annotation without Annotated."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _metadata(annotation: object) -> tuple[Any, ...]:
    return typing.get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
