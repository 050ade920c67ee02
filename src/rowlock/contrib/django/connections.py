"""Django's connections around handlers: opened by the ORM when it is first used, closed when they are too old.

A blocking handler has the connections of its own thread, or of its child process. An async handler reaches the ORM in a
thread that asgiref keeps for it; as in a request over ASGI, every job has such a thread of its own.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowlock.flow.progress.context import Context


def closing_old_connections(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a blocking handler: connections that are broken, or older than CONN_MAX_AGE, are closed before and after."""

    @functools.wraps(function)
    def closing(*args: object, **kwargs: object) -> object:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return closing


async def own_orm_thread(_ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
    """Middleware: the ORM calls of an async handler run in a thread of this job, whose connections end with it."""
    # A blocking caller that waits for this job, such as a test, is not there for the job's own calls.
    AsyncToSync.executors.current = None
    async with ThreadSensitiveContext() as thread:
        try:
            return await call()
        finally:
            # Only a handler that called the ORM, or another blocking function, has such a thread.
            if thread in SyncToAsync.context_to_thread_executor:
                await sync_to_async(connections.close_all)()
