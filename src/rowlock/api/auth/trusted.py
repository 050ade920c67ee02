"""Authentication by the host application, which knows its users already."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import HTTPConnection

    from rowlock.model.access import Principal


class TrustedAuth:
    """Authenticates by a function of the host: it returns a Principal, or None for an unknown caller."""

    def __init__(
        self, authenticate: Callable[[HTTPConnection], Principal | Awaitable[Principal | None] | None]
    ) -> None:
        self._ask = authenticate

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        """The principal that the host returns."""
        answer = self._ask(connection)
        return await answer if inspect.isawaitable(answer) else answer
