"""For ASGI hosts: lifespans side by side, and mounts in frameworks that do not say where they are.

Starlette and FastAPI take a single lifespan:

from rowlock.contrib.asgi import lifespans

host = FastAPI(lifespan=lifespans(own_lifespan, app.lifespan))
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from rowlock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ASGIApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
Lifespan: TypeAlias = Callable[[Any], contextlib.AbstractAsyncContextManager[Any]]
"""A function of the host application that opens and closes something around its life."""


def lifespans(*each: Lifespan) -> Callable[[Any], contextlib.AbstractAsyncContextManager[dict[str, Any]]]:
    """One lifespan of several: entered in this order, left in reverse, also when one of them fails.

    Mappings that they yield are the state of the host; a later one's names win.
    """
    wrong = next((one for one in each if not callable(one)), None)
    if not each or wrong is not None:
        message = f"lifespans() takes functions such as app.lifespan, got {wrong!r}."
        raise ConfigurationError(message)

    @contextlib.asynccontextmanager
    async def together(host: Any) -> AsyncIterator[dict[str, Any]]:  # noqa: ANN401 - whatever the framework passes
        state: dict[str, Any] = {}
        async with contextlib.AsyncExitStack() as stack:
            for one in each:
                yielded = await stack.enter_async_context(one(host))
                if isinstance(yielded, Mapping):
                    state.update(yielded)
            yield state

    return together


def mounted(application: ASGIApp, at: str) -> ASGIApp:
    """The application for a host that does not say where it has mounted it, such as Litestar.

    at: the path of the mount, such as /ops. Such a host passes a path without it, and without root_path.
    """
    if not at.startswith("/") or at.endswith("/"):
        message = f"The path of a mount begins with a slash and does not end with one; got {at!r}."
        raise ConfigurationError(message)

    # Litestar wants to know the types of the three.
    async def serve(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - of ASGI
        if "path" in scope:
            outer = scope.get("root_path", "")
            # The path as the client sent it: Litestar appends a slash to the other one.
            sent = unquote(scope.get("raw_path", b"").partition(b"?")[0].decode("ascii"))
            path = sent or f"{outer}{at}{scope['path']}"
            scope = {**scope, "root_path": f"{outer}{at}", "path": path}
        await application(scope, receive, send)

    return serve
