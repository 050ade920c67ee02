"""Lifespans side by side, for frameworks that take a single one, such as Starlette and FastAPI.

from rowlock.contrib.asgi import lifespans

host = FastAPI(lifespan=lifespans(own_lifespan, app.lifespan))
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from rowlock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
