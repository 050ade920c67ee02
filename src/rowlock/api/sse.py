"""Server-sent events: how a stream looks on the wire, how long it lives, and how it leaves."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json
from starlette.responses import StreamingResponse

from rowlock.api.problems import Problem
from rowlock.errors import DatabaseError, Forbidden, JobNotFound, NotAuthenticated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

MEDIA_TYPE: Final = "text/event-stream"
RETRY: Final = b"retry: 2000\n\n"
"""Two seconds until a browser comes back; always the first thing it is told."""
ALIVE: Final = b": alive\n\n"
ALIVE_EVERY: Final = 15.0
"""Seconds of silence after which a comment goes out: proxies see life, and a client that left is noticed."""
CHECK_EVERY: Final = 60.0
"""Seconds after which it is asked again whether whoever reads may."""
LIFE: Final = 55.0
"""Seconds a stream lives inside a host, which may be unable to stop while one is open; clients come back."""
_JITTER: Final = 5.0


class EventStream(StreamingResponse):
    """A stream of events that nobody on the way keeps or buffers."""

    media_type = MEDIA_TYPE

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def frame(name: str, data: Mapping[str, object], event_id: object = None) -> bytes:
    """One event. JSON has no line break of its own, so the data is one line."""
    head = f"id: {event_id}\nevent: {name}\ndata: " if event_id is not None else f"event: {name}\ndata: "
    return b"".join((head.encode(), to_json(data), b"\n\n"))


def at(event_id: object) -> bytes:
    """Only a position: nothing is dispatched, but a client that comes back goes on from here. A sign of life, too."""
    return f"id: {event_id}\n\n".encode()


async def come_back() -> AsyncIterator[bytes]:
    """A server that is about to leave opens nothing more; an error would keep a browser from coming back."""
    yield RETRY


async def unavailable(problem: bytes) -> AsyncIterator[bytes]:
    """What an EventSource is told while nobody can answer: the problem, and to come back, not all at one moment.

    Without an id: it comes back with the one it had.
    """
    yield b"retry: %d\nevent: unavailable\ndata: %b\n\n" % (random.randint(2000, 6000), problem)  # noqa: S311 - no secret


@dataclass(slots=True)
class Clockwork:
    """When a stream says that it lives, asks whether it may go on, and ends."""

    seconds: float | None
    """How long the stream may live; None: as long as it has something to tell."""
    allowed: Callable[[], Awaitable[object]]
    _until: float | None = field(init=False)
    _check_at: float = field(init=False)

    def __post_init__(self) -> None:
        now = time.monotonic()
        # Clients that came together, after a restart say, do not come back together for ever.
        life = None if self.seconds is None else self.seconds + random.uniform(0, _JITTER)  # noqa: S311 - no secret
        self._until = None if life is None else now + life
        self._check_at = now + CHECK_EVERY

    @property
    def patience(self) -> float:
        """Seconds until there is something to do."""
        now = time.monotonic()
        times = [ALIVE_EVERY, self._check_at - now, *([] if self._until is None else [self._until - now])]
        return max(0.0, min(times))

    async def goes_on(self) -> bool:
        """Whether the stream may live on; asks for the permission again when it is time."""
        now = time.monotonic()
        if self._until is not None and now >= self._until:
            return False
        if now >= self._check_at:
            self._check_at = now + CHECK_EVERY
            try:
                await self.allowed()
            except (Problem, Forbidden, JobNotFound, NotAuthenticated):
                return False
            except DatabaseError:
                # Nobody can say now: the stream has nothing to tell meanwhile either.
                return True
        return True
