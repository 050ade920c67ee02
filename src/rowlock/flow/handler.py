"""Handler: a kind with the function that does it and the codec of its arguments."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowlock.errors import UnknownKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from rowlock.flow.args import Codec
    from rowlock.model.kind import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """What a worker needs to run a kind and a producer to enqueue it."""

    kind: Kind
    codec: Codec
    function: Callable[..., Awaitable[object]]

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
