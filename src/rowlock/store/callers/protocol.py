"""What the adapter of a caller's connection can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowlock.store.queries import Statement


class CallerTransaction(Protocol):
    """What an adapter knows of the caller's transaction."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, so that statements already run are not committed yet."""

    @property
    def commits_unseen(self) -> bool:
        """Whether it is known, before a statement is run, that on_commit() will return False after it."""

    @property
    def may_notify(self) -> bool:
        """Whether the transaction may contain a NOTIFY; a transaction that is prepared (two phases) must not."""

    def on_commit(self, callback: Callable[[], None]) -> bool:
        """Call back after the caller's commit; False: the commit cannot be observed, so the transaction must notify."""


@runtime_checkable
class SyncCaller(CallerTransaction, Protocol):
    """A connection that blocks."""

    def run(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""


@runtime_checkable
class AsyncCaller(CallerTransaction, Protocol):
    """A connection that is awaited."""

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""


Caller = SyncCaller | AsyncCaller
