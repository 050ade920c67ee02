"""Handler: a kind together with its function and the codec of its arguments."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rowlock.errors import ConfigurationError, UnknownKind
from rowlock.model.spelling.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from rowlock.flow.kinds.codec import Codec
    from rowlock.model.kind import Kind

    Call = Callable[[tuple[object, ...], Mapping[str, object]], Awaitable[object]]
    """Calls the handler's function with these arguments on the loop, in a thread or in a child process."""


C_contra = TypeVar("C_contra", contravariant=True)


class CallWrapper(Protocol[C_contra]):
    """Middleware and injected dependencies around the function's call, on the worker's loop."""

    async def __call__(
        self, context: C_contra, args: tuple[object, ...], kwargs: Mapping[str, object], call: Call
    ) -> object:
        """Call the function through `call` and return its value; an exception fails the attempt."""


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """Everything a worker needs to run a kind, and a producer to enqueue it."""

    kind: Kind
    codec: Codec
    function: Callable[..., object]
    wrapper: CallWrapper[Any] | None = None
    """None: the function is called directly."""

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function; a blocking one needs a thread or a process."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def name(self) -> str:
        """The kind's name."""
        return self.kind.name


def register(handlers: dict[str, Handler], handler: Handler) -> None:
    """Add a handler under its kind's name and aliases; ConfigurationError if a name has another handler."""
    kind = handler.kind
    for name in (kind.name, *kind.aliases):
        other = handlers.get(name)
        if other is not None and not (other.name == kind.name and _same(other.function, handler.function)):
            here = f"an alias of {kind.name!r}" if name != kind.name else "the name of a kind"
            there = f"an alias of {other.name!r}" if name != other.name else "the name of another"
            message = (
                f"The kind {name!r} is declared twice: as {here} and as {there}. Give one of the functions another "
                'name, @app.job("…"), or take the alias away.'
            )
            raise ConfigurationError(message)
    for name in [name for name, other in handlers.items() if other.name == kind.name]:
        del handlers[name]
    handlers.update(dict.fromkeys((kind.name, *kind.aliases), handler))


def kinds_of(handlers: Mapping[str, Handler]) -> list[Kind]:
    """The kind of each name, present names first. An alias is a kind like its present one, lane included."""
    today = {handler.name: handler.kind for handler in handlers.values()}
    return [*today.values(), *(replace(k, name=name, aliases=(k.name,)) for k in today.values() for name in k.aliases)]


def _same(first: Callable[..., object], second: Callable[..., object]) -> bool:
    """Whether both are one function of a module that was imported again (reload, or run as __main__)."""
    first, second = inspect.unwrap(first), inspect.unwrap(second)
    return first.__qualname__ == second.__qualname__ and first.__code__.co_filename == second.__code__.co_filename


def find_handler(handlers: Mapping[str, Handler], name: str) -> Handler:
    """The handler of a kind; UnknownKind lists the kinds there are."""
    handler = handlers.get(name)
    if handler is None:
        near = closest(name, handlers, n=1)
        known = f"known are {', '.join(sorted(handlers))}" if handlers else "no kind is registered"
        hint = f" Did you mean {near[0]!r}?" if near else ""
        message = f"There is no kind {name!r}; {known}.{hint} Is the module that defines it imported?"
        raise UnknownKind(message)
    return handler
