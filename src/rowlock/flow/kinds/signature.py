"""Signature: which parameter of a handler receives the context, which are injected, which are stored as arguments."""

from __future__ import annotations

import inspect
import itertools
import types
import typing
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, Final

from rowlock.errors import ConfigurationError
from rowlock.flow.kinds.depends import Dependency, marked

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EMPTY: Final = inspect.Parameter.empty
ARGUMENTS_TITLE: Final = "Arguments"
"""The name of the arguments in pydantic's own messages."""
_CONTEXT_SHELF: Final = "rowlock.flow.progress."
_CONTEXT_TYPES: Final = frozenset({"Context", "SyncContext", "ItemContext", "SyncItemContext"})
_CONTEXT_NAMES: Final = frozenset({"ctx", "context"})


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters that a caller fills, in order, and how the worker passes them to the function."""

    arguments: Mapping[str, Parameter]  # without the context; annotations resolved, Any where there was none
    context: str | None  # the parameter that receives the context
    injected: Mapping[str, Dependency]  # parameters that providers fill
    positional: tuple[str, ...]  # arguments a caller may pass by position: those before the first injected one
    positional_only: tuple[Parameter, ...]  # the context among them, if it stands there
    returns: object  # EMPTY without annotation
    text: str  # how a caller reads it, e.g. "(org_id: int, full: bool = False)"


def read(function: Callable[..., object], context_types: tuple[type, ...], kind: str) -> Signature:
    """Read the signature of a handler; ConfigurationError for parameters that could never be stored."""
    target = inspect.unwrap(function)
    if not (inspect.isfunction(target) or inspect.ismethod(target)):
        message = f"{kind}: expected a function written with def or async def, not {function!r}. Wrap it in one."
        raise ConfigurationError(message)
    hints = hints_of(target, context_types, kind)
    parameters = [_typed(parameter, hints, kind) for parameter in inspect.signature(target).parameters.values()]
    injected = {item.name: mark for item in parameters if (mark := marked(item, kind)) is not None}
    contexts = [
        parameter.name
        for parameter in parameters
        if parameter.name not in injected and is_one_of(parameter.annotation, context_types)
    ]
    if len(contexts) > 1:
        message = f"{kind}: {' and '.join(contexts)} both ask for the context. Keep one of them."
        raise ConfigurationError(message)
    arguments = {item.name: item for item in parameters if item.name not in contexts and item.name not in injected}
    for name, item in arguments.items():
        if name in _CONTEXT_NAMES and name not in hints:
            message = f"{kind}: parameter {name} has no annotation. Write {name}: {context_types[0].__name__}."
            raise ConfigurationError(message)
        if _is_context(item.annotation):
            which = "an async def" if inspect.iscoroutinefunction(target) else "a blocking"
            message = (
                f"{kind}: {name} is annotated with {item.annotation.__name__}, but {which} handler is given "
                f"a {context_types[0].__name__}. Write {name}: {context_types[0].__name__}."
            )
            raise ConfigurationError(message)
    return Signature(
        arguments=arguments,
        context=contexts[0] if contexts else None,
        injected=injected,
        positional=_positional(parameters, arguments, injected),
        positional_only=tuple(item for item in parameters if item.kind is Parameter.POSITIONAL_ONLY),
        returns=hints.get("return", EMPTY),
        text=str(inspect.Signature(list(arguments.values()))),
    )


def _is_context(annotation: object) -> bool:
    """Whether it is one of Rowlock's contexts, by name: this shelf is below theirs."""
    module, name = getattr(annotation, "__module__", None), getattr(annotation, "__name__", None)
    return str(module).startswith(_CONTEXT_SHELF) and name in _CONTEXT_TYPES


def _positional(
    parameters: list[Parameter], arguments: Mapping[str, Parameter], injected: Mapping[str, Dependency]
) -> tuple[str, ...]:
    """Arguments that may be passed by position; none behind an injected one, which only type checkers would count."""
    before = itertools.takewhile(lambda item: item.name not in injected, parameters)
    return tuple(item.name for item in before if item.name in arguments and item.kind is not Parameter.KEYWORD_ONLY)


def _typed(parameter: Parameter, hints: Mapping[str, object], kind: str) -> Parameter:
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is Parameter.VAR_POSITIONAL else "**"
        message = (
            f"{kind}: {stars}{parameter.name} cannot be stored under a name of its own. Name every argument; "
            f"for a varying number take one parameter such as {parameter.name}: "
            + ("list[int]." if stars == "*" else "dict[str, int].")
        )
        raise ConfigurationError(message)
    return parameter.replace(annotation=hints.get(parameter.name, Any))


def is_one_of(annotation: object, context_types: tuple[type, ...]) -> bool:
    """Recognise Context, Annotated[Context, …], Context[T] and Context | None."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return is_one_of(typing.get_args(annotation)[0], context_types)
    if origin in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(annotation) if member is not types.NoneType]
        return len(members) == 1 and is_one_of(members[0], context_types)
    return annotation in context_types or origin in context_types


def hints_of(
    target: Callable[..., object], context_types: tuple[type, ...], kind: str, *, returns: bool = True
) -> dict[str, Any]:
    """The annotations of a function as objects; kind: named in the error when they cannot be read.

    returns: also that of its result, which may be of use to type checkers alone.
    """
    known: dict[str, object] = getattr(target, "__globals__", {})
    # Linters move an import used only in annotations under TYPE_CHECKING; the context's name is clear even so.
    names = {item.__name__: item for item in context_types if item.__name__ not in known}
    try:
        annotated = target if returns else _without_return(target)
        return typing.get_type_hints(annotated, localns={**names, **_enclosing_names(target)}, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        message = (
            f"{kind}: the annotations of {target.__qualname__} cannot be read: {error}. They are needed at run time: "
            "import the name outside of `if TYPE_CHECKING:`, and define classes at module level."
        )
        raise ConfigurationError(message) from error


def _without_return(target: Callable[..., object]) -> object:
    """What get_type_hints() reads of a function, without the annotation of its result."""
    parameters = {name: hint for name, hint in target.__annotations__.items() if name != "return"}
    return types.SimpleNamespace(__annotations__=parameters, __globals__=getattr(target, "__globals__", {}))


def _enclosing_names(target: Callable[..., object]) -> dict[str, object]:
    """Collect the locals of the functions around a nested handler, while they are still running.

    Annotations kept as text forget the scope they were written in, and handlers inside tests use classes of the test.
    """
    scopes = target.__qualname__.split(".<locals>.")[:-1]
    enclosing = {".<locals>.".join(scopes[: depth + 1]): depth for depth in range(len(scopes))}
    found: dict[int, dict[str, object]] = {}
    frame = inspect.currentframe() if enclosing else None
    while frame is not None:
        depth = enclosing.get(frame.f_code.co_qualname)
        if depth is not None and frame.f_globals is getattr(target, "__globals__", None):
            found.setdefault(depth, dict(frame.f_locals))
        frame = frame.f_back
    return {name: value for depth in sorted(found) for name, value in found[depth].items()}
