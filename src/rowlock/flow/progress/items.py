"""ctx.items() and ctx.item(): many named parts of one job's work, each of which may fail without failing the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from rowlock.errors import ClaimLost, InvalidOption, Stopped
from rowlock.flow.locks.context_managers import Lock
from rowlock.flow.progress.base_context import BaseContext
from rowlock.flow.progress.claim_guard import GuardedBlock
from rowlock.flow.progress.report import ItemUpdate
from rowlock.model.failure import error_fields
from rowlock.model.progress import ItemRef, ItemState, Skip
from rowlock.model.redact import storable

if TYPE_CHECKING:
    import contextlib
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
    from types import TracebackType

    from rowlock.flow.progress.attempt_io import AttemptIO
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span

T = TypeVar("T")
R = TypeVar("R")
_LONGEST_NAME: Final = 300
_REASON_CHARACTERS: Final = 2000


@dataclass(frozen=True, slots=True)
class ItemsDone(Generic[R]):
    """The outcome of ctx.items(), by item name."""

    results: Mapping[str, R] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    """With the reasons."""
    failed: Mapping[str, Exception] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    """Items that an earlier attempt finished and this one left out."""


class ItemTracker:
    """Reports one item: in progress, then how it ended."""

    __slots__ = ("_started", "io", "item", "name")

    def __init__(self, io: AttemptIO, item: str | ItemRef) -> None:
        self.io, self._started = io, io.now()
        self.name = item if isinstance(item, str) else item.name
        """As the handler gave it; the stored one has no secrets."""
        self.item = io.item_ref(checked_name(item)) if isinstance(item, str) else item

    def begin(self) -> None:
        """Report it as in progress."""
        self.io.update_item(self.item, ItemUpdate(ItemState.IN_PROGRESS, self._started))

    def end(self, error: BaseException | None) -> None:
        """Report it as completed, skipped or failed. A cancellation or a lost claim leaves it in progress."""
        now = self.io.now()
        if error is None:
            self.io.update_item(self.item, ItemUpdate(ItemState.COMPLETED, self._started, now))
        elif isinstance(error, Skip):
            reason = storable(self.io.scrub(str(error)))[:_REASON_CHARACTERS]
            self.io.update_item(self.item, ItemUpdate(ItemState.SKIPPED, self._started, now, reason))
        elif not isinstance(error, (ClaimLost, Stopped, asyncio.CancelledError)):
            about = json.dumps(error_fields(error, self.io.secrets))
            self.io.update_item(self.item, ItemUpdate(ItemState.FAILED, self._started, now, None, about))

    def count_as_failure(self, error: Exception) -> None:
        """Have the job end with errors: it goes on although this item failed."""
        about = error_fields(error, self.io.secrets)
        self.io.add_failure(f"{self.item.name}: {about['type']}: {about['message']}")


class OpenItem:
    """`async with ctx.item(…)`."""

    __slots__ = ("_tracker",)

    def __init__(self, tracker: ItemTracker) -> None:
        self._tracker = tracker

    async def __aenter__(self) -> None:
        """Report it as in progress."""
        self._tracker.begin()

    async def __aexit__(self, _type: object, error: BaseException | None, _trace: TracebackType | None) -> bool:
        """Report how it ended; a Skip is not raised on."""
        self._tracker.end(error)
        if error is None:
            await self._tracker.io.loop_share.give_way()
        return isinstance(error, Skip)


class ItemContext(BaseContext):
    """Passed to the function that ctx.items() calls for each thing, together with the thing."""

    __slots__ = ("name",)

    def __init__(self, io: AttemptIO, name: str) -> None:
        super().__init__(io)
        self.name = name
        """The item's name."""

    def guarded(self, session: object) -> contextlib.AbstractAsyncContextManager[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit."""
        return GuardedBlock(lambda: self._io.guard(session))

    def lock(self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None) -> Lock:
        """`async with ctx.lock("edition", 7):` one holder at a time for this key, over items and processes."""
        channel = self._io.channel
        request = self._io.lock_request(namespace, key, self.name, wait=wait, timeout=timeout)
        return Lock(lambda: channel.locks, request)

    async def hand_over(self) -> ItemRef:
        """A reference to this item for another job; this job still ends it when its function returns."""
        return await hand_over(self._io, self.name)


async def hand_over(io: AttemptIO, name: str) -> ItemRef:
    """Report an item as in progress, wait until that is committed, and return a reference to it."""
    tracker = ItemTracker(io, name)
    tracker.begin()
    await io.save_items()
    return tracker.item


@dataclass(slots=True)
class ItemResults(Generic[T, R]):
    """The results of one ctx.items() call so far."""

    io: AttemptIO
    name: Callable[[T], str]
    kept: frozenset[str]
    seen: set[str] = field(default_factory=set)
    results: dict[str, R] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)

    def name_of(self, thing: T) -> str:
        """The thing's name; InvalidOption if another thing has the same one, or one that differs in a secret only."""
        name = checked_name(self.name(thing))
        stored = self.io.scrub(name)
        if stored in self.seen:
            message = f"Two items are called {stored!r}. Give each its own name with name=lambda thing: …."
            raise InvalidOption(message)
        self.seen.add(stored)
        return name

    def is_kept(self, name: str) -> bool:
        """Whether an earlier attempt finished the item of this name."""
        return self.io.scrub(name) in self.kept

    def end(self, tracker: ItemTracker, error: Exception | None) -> None:
        """Report and remember how an item ended, and advance the counter."""
        tracker.end(error)
        if isinstance(error, Skip):
            self.skipped[tracker.name] = str(error)
        elif error is not None:
            self.failed[tracker.name] = error
            tracker.count_as_failure(error)
        self.io.advance(1)

    def done(self) -> ItemsDone[R]:
        """All of them."""
        return ItemsDone(self.results, self.skipped, self.failed, self.kept & self.seen)


async def run_items(
    io: AttemptIO,
    things: Iterable[T] | AsyncIterable[T],
    do: Callable[[ItemContext, T], Awaitable[R]],
    *,
    name: Callable[[T], str],
    limit: int,
    resume: bool,
) -> ItemsDone[R]:
    """ctx.items(): `limit` tasks, each of which works on one thing after the other."""
    checked_limit(limit)
    io.expect_items(len(things) if isinstance(things, Sized) else None)
    results: ItemResults[T, R] = ItemResults(io, name, await io.kept_items(resume=resume))
    queue = _ItemQueue(results, things)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(limit):
                group.create_task(_work(io, queue, do))
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        raise first.error if isinstance(first, _AttemptEnds) else first from None
    return results.done()


class _ItemQueue(Generic[T, R]):
    """The things that are left to do, each with its name."""

    def __init__(self, results: ItemResults[T, R], things: Iterable[T] | AsyncIterable[T]) -> None:
        self.results, self._source, self._lock = results, each(things), asyncio.Lock()

    async def next(self) -> tuple[str, T] | None:
        """The next thing that no earlier attempt has finished; None: nothing is left."""
        async with self._lock:
            async for thing in self._source:
                name = self.results.name_of(thing)
                if not self.results.is_kept(name):
                    return name, thing
                self.results.io.advance(1)
        return None


async def _work(io: AttemptIO, queue: _ItemQueue[T, R], do: Callable[[ItemContext, T], Awaitable[R]]) -> None:
    while (found := await queue.next()) is not None:
        name, thing = found
        tracker = ItemTracker(io, name)
        tracker.begin()
        try:
            queue.results.results[name] = await do(ItemContext(io, name), thing)
        except ClaimLost:
            raise
        except Exception as error:  # noqa: BLE001 - reported with the item; the others go on
            queue.results.end(tracker, error)
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            tracker.end(error)
            raise _AttemptEnds(error) from error
        else:
            queue.results.end(tracker, None)
        await io.loop_share.give_way()


class _AttemptEnds(Exception):
    """Brings what is outside Exception from an item's task to its handler: asyncio ends the loop for some of it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


async def each(things: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """The elements of an iterable, async or not."""
    if isinstance(things, AsyncIterable):
        async for thing in things:
            yield thing
    else:
        for thing in things:
            yield thing


def checked_name(name: object) -> str:
    """Return an item's name if it can be stored and be part of a key."""
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        message = f"An item's name is a printable text of 1 to {_LONGEST_NAME} characters; got {name!r}."
        raise InvalidOption(message)
    return storable(name)


def checked_limit(limit: int) -> None:
    """Refuse a limit under which nothing would run."""
    if limit < 1:
        message = f"limit is how many items are done at once, 1 or more; got {limit}."
        raise InvalidOption(message)
