"""SyncContext.items(): named parts of a blocking handler's work, done in threads of their own."""

from __future__ import annotations

import contextvars
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from rowlock.errors import ClaimLost, Stopped
from rowlock.flow.progress.base_context import BaseContext
from rowlock.flow.progress.items import ItemTracker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from rowlock.flow.locks.context_managers import SyncLock
    from rowlock.flow.progress.items import ItemResults
    from rowlock.flow.progress.sync_io import SyncAttemptIO
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span

T = TypeVar("T")
R = TypeVar("R")
_CHECK_EVERY: Final = 0.2
"""Seconds between two checks, while items run, whether one of them has failed the whole call."""


class SyncItemContext(BaseContext):
    """Passed to the function that SyncContext.items() calls for each thing, in a thread, together with the thing."""

    __slots__ = ("_sync", "name")

    def __init__(self, sync: SyncAttemptIO, name: str) -> None:
        super().__init__(sync.io)
        self._sync = sync
        self.name = name
        """The item's name."""

    def check(self) -> None:
        """Raise if the attempt has to stop here."""
        self._sync.check()

    def lock(
        self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None
    ) -> AbstractContextManager[SyncLock]:
        """`with ctx.lock("edition", 7):` one holder at a time for this key, over items and processes."""
        request = self._io.lock_request(namespace, key, self.name, wait=wait, timeout=timeout)
        return self._sync.locked(request, threading.get_ident())

    def guarded(self, session: object) -> AbstractContextManager[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit."""
        self._sync.check()
        return self._sync.guarded(session)


class ItemThreads(Generic[T, R]):
    """The threads of one SyncContext.items() call; each works on one thing after the other."""

    def __init__(
        self,
        sync: SyncAttemptIO,
        things: Iterable[T],
        do: Callable[[SyncItemContext, T], R],
        results: ItemResults[T, R],
    ) -> None:
        self._sync, self._do, self._source, self._results = sync, do, iter(things), results
        self._next_lock, self._ending = threading.Lock(), threading.Event()

    def run(self, threads: int) -> None:
        """Work until nothing is left or the attempt has to stop; then wait for the items under way."""
        with ThreadPoolExecutor(threads, thread_name_prefix="rowlock-item") as pool:
            futures = [pool.submit(contextvars.copy_context().run, self._work) for _ in range(threads)]
            try:
                while wait_for(futures, _CHECK_EVERY, FIRST_EXCEPTION).not_done:
                    if any(future.done() and future.exception() for future in futures):
                        break
            finally:
                # Stopped by a signal during the wait, or by a thread that raised: the others begin nothing more.
                self._ending.set()
        for future in futures:
            future.result()

    def _work(self) -> None:
        sync, results = self._sync, self._results
        while not self._ending.is_set() and (found := self._next()) is not None:
            name, thing = found
            tracker = ItemTracker(results.io, name)
            sync.report(tracker.begin)
            error: Exception | None = None
            try:
                results.results[name] = self._do(SyncItemContext(sync, name), thing)
            except ClaimLost:
                raise
            except Exception as raised:  # noqa: BLE001 - reported with the item; the others go on
                error = raised
            except BaseException as raised:
                self._report_base_exception(tracker, raised)
                raise
            self._report_end(tracker, error)

    def _report_end(self, tracker: ItemTracker, error: Exception | None) -> None:
        self._sync.report(lambda: self._results.end(tracker, error))

    def _report_base_exception(self, tracker: ItemTracker, error: BaseException) -> None:
        """Report an item that raised a BaseException, such as KeyboardInterrupt: the attempt ends with it."""
        if not isinstance(error, Stopped):
            self._sync.report(lambda: tracker.end(error))

    def _next(self) -> tuple[str, T] | None:
        with self._next_lock:
            for thing in self._source:
                name = self._results.name_of(thing)
                if not self._results.is_kept(name):
                    return name, thing
                self._sync.report(lambda: self._results.io.advance(1))
        return None
