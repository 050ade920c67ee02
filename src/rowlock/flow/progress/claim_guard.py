"""Statements that check an attempt's claim, and hold it, inside the user's own transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.errors import ClaimLost, InvalidOption
from rowlock.model import ids
from rowlock.store.caller_transaction import AsyncCaller, caller_errors, join

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rowlock.store.caller_transaction import Caller
    from rowlock.store.queries import Statements


class GuardedBlock:
    """`async with ctx.guarded(session)`: checks the claim in the session's transaction, which then holds it."""

    __slots__ = ("_check",)

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        self._check = check

    async def __aenter__(self) -> None:
        """Check the claim."""
        await self._check()

    async def __aexit__(self, *_: object) -> None:
        """Nothing to do: the end of the transaction releases the claim."""


async def run_guarded(
    session: object, statements: Statements, name: str, values: Mapping[str, object], what: str
) -> None:
    """Run the statement in the session's transaction; ClaimLost if it finds no row. what: the call, for messages."""
    caller = join(session)
    with caller_errors(statements):
        if isinstance(caller, AsyncCaller):
            _check(caller, await caller.run_async(statements[name], values), values, what)
        else:
            _check(caller, caller.run(statements[name], values), values, what)


def run_guarded_sync(
    session: object, statements: Statements, name: str, values: Mapping[str, object], what: str
) -> None:
    """run_guarded() for blocking code."""
    caller = join(session)
    if isinstance(caller, AsyncCaller):
        message = f"{what} in a blocking handler needs a blocking session or connection; got an async one."
        raise InvalidOption(message)
    with caller_errors(statements):
        _check(caller, caller.run(statements[name], values), values, what)


def _check(caller: Caller, rows: Sequence[object], values: Mapping[str, object], what: str) -> None:
    if not caller.in_transaction:
        message = f"{what} needs a session or connection with an open transaction: the claim is held until its commit."
        raise InvalidOption(message)
    if not rows:
        job = ids.encode(int(str(values["id"])))
        message = f"This attempt does not hold job {job} any more. Roll back: nothing it writes is accepted."
        raise ClaimLost(message)
