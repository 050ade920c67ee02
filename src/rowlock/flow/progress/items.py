"""Items: many named parts of one job's work, each on its own: what fails is told, and the others go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from rowlock.errors import ClaimLost, InvalidOption
from rowlock.flow.locks.context_managers import Lock
from rowlock.flow.progress.report import Moved
from rowlock.flow.run.verdict import described
from rowlock.model.progress import ItemRef, ItemState, Skip
from rowlock.model.redact import storable

if TYPE_CHECKING:
    import contextlib
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
    from types import TracebackType

    from rowlock.flow.progress.attempt_io import Voice
    from rowlock.flow.progress.context import Context
    from rowlock.model.job import Claim, Job
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.telemetry import JobLog

T = TypeVar("T")
R = TypeVar("R")
_LONGEST_NAME: Final = 300
_REASON_CHARACTERS: Final = 2000


@dataclass(frozen=True, slots=True)
class ItemsDone(Generic[R]):
    """What came of ctx.items(), by name."""

    results: Mapping[str, R] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    """With the reasons."""
    failed: Mapping[str, Exception] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    """Finished by an earlier attempt, and not done again."""


class Move:
    """One item of one attempt on its way: in progress, then at its end."""

    __slots__ = ("_since", "_voice", "item")

    def __init__(self, voice: Voice, item: str | ItemRef) -> None:
        self._voice, self._since = voice, voice.now()
        self.item = voice.reference(checked_name(item)) if isinstance(item, str) else item

    def begin(self) -> None:
        """It is in progress."""
        self._voice.move(self.item, Moved(ItemState.IN_PROGRESS, self._since))

    def end(self, error: BaseException | None) -> None:
        """It is completed, skipped or failed; whatever else interrupts it leaves it in progress."""
        now = self._voice.now()
        if error is None:
            self._voice.move(self.item, Moved(ItemState.COMPLETED, self._since, now))
        elif isinstance(error, Skip):
            reason = storable(self._voice.scrubbed(str(error)))[:_REASON_CHARACTERS]
            self._voice.move(self.item, Moved(ItemState.SKIPPED, self._since, now, reason))
        elif isinstance(error, Exception) and not isinstance(error, ClaimLost):
            about = json.dumps(described(error, self._voice.secrets))
            self._voice.move(self.item, Moved(ItemState.FAILED, self._since, now, None, about))

    def blame(self, error: Exception) -> None:
        """The job goes on past its failure, and ends with errors."""
        about = described(error, self._voice.secrets)
        self._voice.fail(f"{self.item.name}: {about['type']}: {about['message']}")


class OpenItem(Move):
    """`async with ctx.item(…)`."""

    __slots__ = ()

    async def __aenter__(self) -> None:
        """It is in progress."""
        self.begin()

    async def __aexit__(self, _type: object, error: BaseException | None, _trace: TracebackType | None) -> bool:
        """It has ended; a skip goes no further."""
        self.end(error)
        return isinstance(error, Skip)


class Whole(Protocol):
    """The context of a whole job, as far as its items see it."""

    @property
    def job(self) -> Job: ...  # noqa: D102 - see Context
    @property
    def claim(self) -> Claim: ...  # noqa: D102 - see Context
    @property
    def log(self) -> JobLog: ...  # noqa: D102 - see Context
    @property
    def state(self) -> Mapping[str, Any]: ...  # noqa: D102 - see Context
    @property
    def cancelled(self) -> bool: ...  # noqa: D102 - see Context


W = TypeVar("W", bound=Whole)


class ItemView(Generic[W]):
    """The job's context, as far as it concerns one item."""

    __slots__ = ("_context", "name")

    def __init__(self, context: W, name: str) -> None:
        self._context, self.name = context, name

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        return self._context.job

    @property
    def claim(self) -> Claim:
        """What every write of this attempt carries."""
        return self._context.claim

    @property
    def log(self) -> JobLog:
        """A logger whose records carry the job."""
        return self._context.log

    @property
    def state(self) -> Mapping[str, Any]:
        """What the worker's lifespans yielded."""
        return self._context.state

    @property
    def cancelled(self) -> bool:
        """Whether the worker is shutting down or this attempt was told to stop."""
        return self._context.cancelled


class ItemContext(ItemView["Context"]):
    """Passed to what ctx.items() calls, with the thing itself."""

    __slots__ = ()

    def guarded(self, session: object) -> contextlib.AbstractAsyncContextManager[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit."""
        return self._context.guarded(session)

    def lock(self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None) -> Lock:
        """`async with ctx.lock("edition", 7):` one thing at a time for this key, over all items, jobs and processes."""
        context = self._context
        return Lock(lambda: context.line.locks, context.wish(namespace, key, self.name, wait=wait, timeout=timeout))

    async def hand_over(self) -> ItemRef:
        """A reference to this item for another job; this one still ends it when its function returns."""
        return await self._context.hand_over(self.name)


@dataclass(slots=True)
class Tally(Generic[T, R]):
    """The books of one ctx.items(): which names there were, and what came of them."""

    voice: Voice
    name: Callable[[T], str]
    kept: frozenset[str]
    seen: set[str] = field(default_factory=set)
    results: dict[str, R] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)

    def named(self, thing: T) -> str:
        """The thing's name, which no other one has."""
        name = checked_name(self.name(thing))
        if name in self.seen:
            message = f"Two items are called {name!r}. Give each its own name with name=lambda thing: …."
            raise InvalidOption(message)
        self.seen.add(name)
        return name

    def ended(self, move: Move, error: Exception | None) -> None:
        """An item has ended: move it, remember it, count on."""
        move.end(error)
        if isinstance(error, Skip):
            self.skipped[move.item.name] = str(error)
        elif error is not None:
            self.failed[move.item.name] = error
            move.blame(error)
        self.voice.advance(1)

    def done(self) -> ItemsDone[R]:
        """What came of it."""
        return ItemsDone(self.results, self.skipped, self.failed, self.kept & self.seen)


async def run_items(
    context: Context,
    things: Iterable[T] | AsyncIterable[T],
    do: Callable[[ItemContext, T], Awaitable[R]],
    *,
    name: Callable[[T], str],
    limit: int,
    resume: bool,
) -> ItemsDone[R]:
    """ctx.items(): `limit` tasks take one thing after the other."""
    checked_limit(limit)
    context.expect(len(things) if isinstance(things, Sized) else None)
    tally: Tally[T, R] = Tally(context, name, await context.kept_items(resume=resume))
    queue = _Queue(tally, things)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(limit):
                group.create_task(_one_after_the_other(context, queue, do))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return tally.done()


class _Queue(Generic[T, R]):
    """The things that are left, each with its name."""

    def __init__(self, tally: Tally[T, R], things: Iterable[T] | AsyncIterable[T]) -> None:
        self.tally, self._source, self._turn = tally, each(things), asyncio.Lock()

    async def next(self) -> tuple[str, T] | None:
        """The next one that is not done yet; None: there is none."""
        async with self._turn:
            async for thing in self._source:
                name = self.tally.named(thing)
                if name not in self.tally.kept:
                    return name, thing
                self.tally.voice.advance(1)
        return None


async def _one_after_the_other(
    context: Context, queue: _Queue[T, R], do: Callable[[ItemContext, T], Awaitable[R]]
) -> None:
    while (found := await queue.next()) is not None:
        name, thing = found
        move = Move(context, name)
        move.begin()
        try:
            queue.tally.results[name] = await do(ItemContext(context, name), thing)
        except ClaimLost:
            raise
        except Exception as error:  # noqa: BLE001 - told with the item; the others go on
            queue.tally.ended(move, error)
        else:
            queue.tally.ended(move, None)


async def each(things: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """One after the other, whichever sort of iterable it is."""
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
