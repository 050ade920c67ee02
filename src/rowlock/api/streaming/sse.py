"""Server-sent events: the format of a stream, its keep-alives, its lifetime, and how it ends."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json
from starlette.responses import StreamingResponse
from typing_extensions import override

from rowlock.api.problems import Problem
from rowlock.errors import DatabaseError, Forbidden, JobNotFound, NotAuthenticated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from starlette.types import Receive, Scope, Send

MEDIA_TYPE: Final = "text/event-stream"
RETRY: Final = b"retry: 2000\n\n"
"""Browsers reconnect after two seconds; the first line of every stream."""
KEEPALIVE: Final = b": alive\n\n"
KEEPALIVE_INTERVAL: Final = 15.0
"""Seconds of silence before a comment is sent, so that proxies keep the connection and a closed one is noticed."""
PERMISSION_CHECK_INTERVAL: Final = 3.0
"""Seconds between two checks that the client may still read the stream. A lost right ends it within five."""
LIFETIME: Final = 55.0
"""Seconds a stream lasts inside a host application, which may wait for open connections before it stops."""
_JITTER: Final = 5.0


class EventStream(StreamingResponse):
    """A response of server-sent events, with headers that keep proxies from caching and buffering."""

    media_type = MEDIA_TYPE

    def __init__(self, content: AsyncIterator[bytes], release: Callable[[], object] = lambda: None) -> None:
        """release: called once the stream is over, also if the client left before its first event."""
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self.release = release

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # The generator's own finally blocks do not run if it was never started.
            self.release()


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
    may_read: Callable[[], Awaitable[bool]]
    """Whether the client may still read this stream, as it is. False or an exception ends it; the client reconnects."""
    expires_in: float | None = None
    """Seconds until the client's token expires, and the stream ends; None: it does not."""
    _until: float | None = field(init=False)
    _check_at: float = field(init=False)
    _silent_at: float = field(init=False)

    def __post_init__(self) -> None:
        now = time.monotonic()
        # Clients that connected together, after a restart say, shall not reconnect together for ever.
        lifetime = None if self.seconds is None else self.seconds + random.uniform(0, _JITTER)  # noqa: S311 - no secret
        self._until = min((now + each for each in (lifetime, self.expires_in) if each is not None), default=None)
        self._check_at = now + PERMISSION_CHECK_INTERVAL
        self._silent_at = now + KEEPALIVE_INTERVAL

    @property
    def timeout(self) -> float:
        """Seconds until the next keep-alive, check or end."""
        times = [self._silent_at, self._check_at, *([] if self._until is None else [self._until])]
        return max(0.0, min(times) - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether the stream has lasted as long as it may."""
        return self._until is not None and time.monotonic() >= self._until

    def keepalive_due(self, *, sent: bool) -> bool:
        """Whether a keep-alive is due. sent: events have just been sent."""
        now = time.monotonic()
        due = not sent and now >= self._silent_at
        if sent or due:
            self._silent_at = now + KEEPALIVE_INTERVAL
        return due

    async def may_send(self, *, events: bool) -> bool:
        """Whether the client may have these events, or go on waiting if there are none; checked again when due."""
        now = time.monotonic()
        if now < self._check_at:
            return True
        try:
            allowed = await self.may_read()
        except (Problem, Forbidden, JobNotFound, NotAuthenticated):
            return False
        except DatabaseError:
            # A silent stream outlasts the outage. Events are not sent unchecked: the client asks for them again.
            return not events
        self._check_at = now + PERMISSION_CHECK_INTERVAL
        return allowed
