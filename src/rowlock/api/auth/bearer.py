"""API tokens in the Authorization header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.api.auth.proxies import parse_address
from rowlock.model.token_text import PREFIX

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from rowlock.app import Rowlock
    from rowlock.model.access import Principal


def bearer(connection: HTTPConnection) -> str | None:
    """The text after `Authorization: Bearer`; None: there is none."""
    scheme, _, text = connection.headers.get("authorization", "").partition(" ")
    return text.strip() or None if scheme.lower() == "bearer" else None


def address_of(connection: HTTPConnection) -> str | None:
    """The address of the client; None: unknown. A server that trusts any proxy may have put another text there."""
    address = parse_address(connection.client.host) if connection.client else None
    return None if address is None else str(address)


class TokenAuth:
    """Authenticates by the API tokens of `rowlock tokens create`."""

    def __init__(self, app: Rowlock) -> None:
        self._app = app

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        """The principal of the token; None without a Rowlock token, NotAuthenticated when it is invalid."""
        text = bearer(connection)
        if text is None or not text.startswith(f"{PREFIX}_"):
            return None
        return await self._app.identity.by_token(text, address=address_of(connection))
