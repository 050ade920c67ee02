"""The password of a connection, from a function that is asked for every connection anew: cloud tokens, rotation."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from rowlock.errors import ConfigurationError, DatabaseUnreachable

Password: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A password, or a function that gives the one of now; a blocking function is called in a thread."""


async def current(password: Password) -> str:
    """The password of now; DatabaseUnreachable while the function fails, as the next try may succeed."""
    if isinstance(password, str):
        return password
    try:
        # A function that blocks for as long as a token service takes must not block the event loop.
        found = await (password() if inspect.iscoroutinefunction(password) else asyncio.to_thread(password))
        if inspect.isawaitable(found):
            found = await found
    except Exception as error:
        message = f"The function that gives the database password failed: {type(error).__name__}: {error}."
        raise DatabaseUnreachable(message) from error
    if not isinstance(found, str):
        # Not its value: it may hold the secret.
        message = f"The function that gives the database password must return a string; it returned a {type(found)}."
        raise ConfigurationError(message)
    return found


def checked(password: object) -> None:
    """Refuse what is neither a string nor a function."""
    if password is not None and not isinstance(password, str) and not callable(password):
        message = f"password= takes a string, or a function that returns one; got a {type(password)}."
        raise ConfigurationError(message)
