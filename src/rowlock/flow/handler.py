"""Handler: a kind with the function that does it and the codec of its arguments."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rowlock.errors import UnknownKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from rowlock.flow.args import Codec
    from rowlock.flow.context import Context
    from rowlock.model.kind import Kind

    Call = Callable[[tuple[object, ...], Mapping[str, object]], Awaitable[object]]
    """Calls the handler's function with these arguments where it belongs: on the loop, in a thread, in a child."""


class Around(Protocol):
    """What surrounds the function's call on the worker's loop: middleware and injected dependencies."""

    async def __call__(
        self, context: Context, args: tuple[object, ...], kwargs: Mapping[str, object], call: Call
    ) -> object:
        """Call the function through `call` and return its value; whatever it raises is the attempt's failure."""


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """What a worker needs to run a kind and a producer to enqueue it."""

    kind: Kind
    codec: Codec
    function: Callable[..., object]
    around: Around | None = None
    """None: nothing, and nothing is paid."""

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function; a blocking one needs a thread or a process."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def name(self) -> str:
        """The kind's name."""
        return self.kind.name


def find(handlers: Mapping[str, Handler], name: str) -> Handler:
    """Return the handler of a kind, or say which ones there are."""
    handler = handlers.get(name)
    if handler is None:
        near = difflib.get_close_matches(name, handlers, n=1)
        known = f"known are {', '.join(sorted(handlers))}" if handlers else "no kind is registered"
        hint = f" Did you mean {near[0]!r}?" if near else ""
        message = f"There is no kind {name!r}; {known}.{hint} Is the module that defines it imported?"
        raise UnknownKind(message)
    return handler
