"""The addresses that a webhook is sent to: the endpoint's name is resolved once, and a checked address is connected to.

A check of the name alone would be worth nothing: the owner of the name can let it point elsewhere a moment later.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.model.webhook_rules import refused

if TYPE_CHECKING:
    from rowlock.model.webhook_rules import WebhookRules

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host name, as texts."""
_MOST_ADDRESSES: Final = 4


async def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a host name, by the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def allowed_addresses(host: str, port: int, rules: WebhookRules, resolve: Resolve = resolved) -> Sequence[str]:
    """The addresses to connect to; WebhookRefused when the host has none that is allowed."""
    found = await resolve(host, port)
    allowed = [address for address in found if rules.allows(address)]
    if not allowed:
        raise refused(host)
    return allowed[:_MOST_ADDRESSES]
