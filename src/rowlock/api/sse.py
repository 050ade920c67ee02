"""Server-sent events: the format of a stream, its keep-alives, its lifetime, and how it ends."""

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
"""Browsers reconnect after two seconds; the first line of every stream."""
KEEPALIVE: Final = b": alive\n\n"
KEEPALIVE_INTERVAL: Final = 15.0
"""Seconds of silence before a comment is sent, so that proxies keep the connection and a closed one is noticed."""
PERMISSION_CHECK_INTERVAL: Final = 60.0
"""Seconds between two checks that the client may still read the stream."""
LIFETIME: Final = 55.0
"""Seconds a stream lasts inside a host application, which may wait for open connections before it stops."""
_JITTER: Final = 5.0


class EventStream(StreamingResponse):
    """A response of server-sent events, with headers that keep proxies from caching and buffering."""

    media_type = MEDIA_TYPE

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def frame(name: str, data: Mapping[str, object], event_id: object = None) -> bytes:
    """One event. JSON has no line break of its own, so the data is one line."""
    head = f"id: {event_id}\nevent: {name}\ndata: " if event_id is not None else f"event: {name}\ndata: "
    return b"".join((head.encode(), to_json(data), b"\n\n"))


def position_only(event_id: object) -> bytes:
    """A frame without an event: the client remembers the id and resumes from it. It also serves as a keep-alive."""
    return f"id: {event_id}\n\n".encode()


async def reconnect_later() -> AsyncIterator[bytes]:
    """The stream of a server that is shutting down: empty, because browsers do not reconnect after an error."""
    yield RETRY


async def unavailable(problem: bytes) -> AsyncIterator[bytes]:
    """The stream while the database is away: the problem as one event, and a random delay before reconnecting.

    It has no id, so that the client resumes with the one it had.
    """
    yield b"retry: %d\nevent: unavailable\ndata: %b\n\n" % (random.randint(2000, 6000), problem)  # noqa: S311 - no secret


@dataclass(slots=True)
class StreamLifetime:
    """Decides when a stream sends a keep-alive, checks the permission again, and ends."""

    seconds: float | None
    """How long the stream may last; None: without limit."""
    check_permission: Callable[[], Awaitable[object]]
    """Raises when the client may no longer read the stream."""
    _until: float | None = field(init=False)
    _check_at: float = field(init=False)

    def __post_init__(self) -> None:
        now = time.monotonic()
        # Clients that connected together, after a restart say, shall not reconnect together for ever.
        lifetime = None if self.seconds is None else self.seconds + random.uniform(0, _JITTER)  # noqa: S311 - no secret
        self._until = None if lifetime is None else now + lifetime
        self._check_at = now + PERMISSION_CHECK_INTERVAL

    @property
    def timeout(self) -> float:
        """Seconds until the next keep-alive, check or end."""
        now = time.monotonic()
        times = [KEEPALIVE_INTERVAL, self._check_at - now, *([] if self._until is None else [self._until - now])]
        return max(0.0, min(times))

    async def may_continue(self) -> bool:
        """Whether the stream goes on; checks the permission again when that is due."""
        now = time.monotonic()
        if self._until is not None and now >= self._until:
            return False
        if now >= self._check_at:
            self._check_at = now + PERMISSION_CHECK_INTERVAL
            try:
                await self.check_permission()
            except (Problem, Forbidden, JobNotFound, NotAuthenticated):
                return False
            except DatabaseError:
                # The check follows once the database is back; until then the stream sends nothing.
                return True
        return True
